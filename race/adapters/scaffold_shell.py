"""The scaffold's environment: a command in our container, really killed at its limit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from race.ports import AgentLimits, Container

_SENTINEL = b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_LONGEST_ARGUMENT = 100_000
_SHOWN = 256 * 1024
_ENVIRONMENT = {"PAGER": "cat", "MANPAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}


class ContainerShell:
    """Runs the agent's commands; the one that submits ends its work by the exception `submitted`."""

    def __init__(self, container: Container, limits: AgentLimits, submitted: type[Exception]) -> None:
        self._container, self._limits, self._submitted = container, limits, submitted
        self._until = time.monotonic() + limits.run_seconds
        self.config = SimpleNamespace(command_seconds=limits.command_seconds)

    def execute(self, action: Mapping[str, Any], cwd: str = "") -> dict[str, Any]:
        command = str(action.get("command", ""))
        left = max(1.0, min(self._limits.command_seconds, self._until - time.monotonic()))
        if "\0" in command:
            return {"output": "", "returncode": 2, "exception_info": "a command cannot hold NUL"}
        argv = ["bash", "-c", command]
        if len(command.encode(errors="replace")) > _LONGEST_ARGUMENT:
            self._container.put("/tmp", {"long-command": command.encode(errors="replace")})
            argv = ["bash", "/tmp/long-command"]
        done = self._container.run(
            argv, timeout=left, workdir="/repo", env=_ENVIRONMENT, output_limit=_SHOWN
        )
        first = done.output.lstrip().split(b"\n", 1)[0].strip()
        if first == _SENTINEL and done.exit_code == 0:
            extra = {"exit_status": "Submitted", "submission": ""}
            raise self._submitted({"role": "exit", "content": "", "extra": extra})
        note = f"killed after {left:.0f} seconds, with all that it had started" if done.timed_out else ""
        return {
            "output": done.output.decode(errors="replace") + ("\n[more output]" * done.truncated),
            "returncode": -1 if done.exit_code is None else done.exit_code,
            "exception_info": note,
        }

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        return {"command_seconds": f"{self._limits.command_seconds:.0f}"} | more

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {"environment_type": "race container without network"}}}
