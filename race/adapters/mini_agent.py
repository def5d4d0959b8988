"""mini-swe-agent as the scaffold: its loop, a model behind it, and our container under it.

The scaffold takes seconds to import and talks while it does, so it is imported when an agent first
works, told to be silent, and never finds or makes a configuration folder of the user's. Its own docker
environment is not used: it would leave commands running that it gave up waiting for.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from race.core.prompts import BAD_CALL, OBSERVATION, SYSTEM, TASK
from race.core.scripted import simulated_tokens
from race.errors import Missing, RaceError, RateLimited, Unreachable
from race.ports import AgentLimits, AgentRun, Container

_IMPORT = threading.Lock()
_SENTINEL = b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_LONGEST_ARGUMENT = 100_000
_SHOWN = 256 * 1024
_ENVIRONMENT = {"PAGER": "cat", "MANPAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}
_LIMITS = {
    "LimitsExceeded": "",
    "RepeatedFormatError": "the model did not call the tool three times in a row",
    "ContextWindowExceededError": "the model's context was full",
    "ContentPolicyViolationError": "the provider refused to go on",
}


def _quiet() -> None:
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    os.environ.setdefault("MSWEA_COST_TRACKING", "ignore_errors")
    os.environ.setdefault("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "4")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    for name in ("minisweagent", "agent", "litellm_model", "LiteLLM"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _scaffold() -> tuple[type[Any], Any]:
    """The scaffold's agent class and its exceptions."""
    with _IMPORT:
        _quiet()
        folder = tempfile.mkdtemp(prefix="race-agent-")
        given = os.environ.get("MSWEA_GLOBAL_CONFIG_DIR")
        os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = folder
        try:
            from minisweagent import exceptions
            from minisweagent.agents.default import DefaultAgent
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.environ.pop("MSWEA_GLOBAL_CONFIG_DIR")
            if given is not None:
                os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = given
        return DefaultAgent, exceptions


def _litellm(model: str) -> Any:
    with _IMPORT:
        from minisweagent.models import litellm_model

        litellm_model.litellm.suppress_debug_info = True
        litellm_model.litellm.telemetry = False
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm_model.LitellmModel(
        model_name=model,
        model_kwargs={"reasoning_effort": "medium", "drop_params": True, "timeout": 600},
        observation_template=OBSERVATION,
        format_error_template=BAD_CALL,
    )


class MiniAgent:
    """One agent; `solve` may be called from several threads at once."""

    def __init__(self, model: str, script: Sequence[str] | None = None) -> None:
        self._model, self._script = model, script

    def solve(self, container: Container, statement: str, limits: AgentLimits) -> AgentRun:
        """See the port."""
        agent_class, exceptions = _scaffold()
        inner = _Scripted(self._script) if self._script is not None else _litellm(self._model)
        agent = agent_class(
            _Guarded(inner, self._model, exceptions.InterruptAgentFlow),
            _Shell(container, limits, exceptions.Submitted),
            system_template=SYSTEM,
            instance_template=TASK,
            step_limit=limits.steps,
            cost_limit=0,
            wall_time_limit_seconds=max(1, int(limits.run_seconds)),
            max_consecutive_format_errors=3,
        )
        try:
            status = str(agent.run(statement).get("exit_status", ""))
        except _Stopped as stop:
            status = stop.status
        return self._told(agent, status, statement)

    def _told(self, agent: Any, status: str, statement: str) -> AgentRun:
        trajectory = agent.save(None)
        if self._script is not None:
            uncached, cached, written = simulated_tokens(statement, self._script[: agent.n_calls])
            counted: tuple[int, int | None, int] = (uncached, cached, written)
        else:
            counted = _tokens(agent.messages)
        ended = "timeout" if status == "TimeExceeded" else "step_limit"
        return AgentRun(
            ended="submitted" if status == "Submitted" else ended,
            note=_LIMITS.get(status, ""),
            steps=agent.n_calls,
            input_tokens=counted[0],
            cached_input_tokens=counted[1],
            output_tokens=counted[2],
            cost_usd=agent.cost if agent.cost > 0 else None,
            trajectory=json.dumps(trajectory, indent=1, default=str).encode() + b"\n",
        )


class _Stopped(Exception):
    """The model came to an end of its own that is neither a submission nor an accident."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class _Guarded:
    """A model whose foreign errors come out as ours."""

    def __init__(self, inner: Any, name: str, flow: type[Exception]) -> None:
        self._inner, self._name, self._flow = inner, name, flow
        self.config = inner.config

    def query(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._inner.query(messages, **options)
        except (self._flow, _Stopped, RaceError):
            raise
        except Exception as error:
            raise _translated(error, self._name) from error
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _translated(error: Exception, model: str) -> Exception:
    """A provider's error as one of ours; by class name, so that no second SDK is imported."""
    names = [kind.__name__ for kind in type(error).__mro__]
    said = " ".join(str(error).split())[:300]
    for name in names:
        if name in ("ContextWindowExceededError", "ContentPolicyViolationError"):
            return _Stopped(name)
    if {"AuthenticationError", "PermissionDeniedError"} & set(names):
        return Missing(f"model {model}: no access; set its provider's key ({said})")
    if "NotFoundError" in names or "LLM Provider NOT provided" in said:
        return Missing(f"model {model} is not known; name it as litellm does ({said})")
    if "RateLimitError" in names:
        return RateLimited(f"model {model}: asked too often: {said}")
    return Unreachable(f"model {model} does not answer: {type(error).__name__}: {said}")


def _tokens(messages: Sequence[Mapping[str, Any]]) -> tuple[int, int | None, int]:
    """Uncached, cached and written tokens of all calls; cached is None when no call told."""
    uncached, cached, written, told = 0, 0, 0, False
    for message in messages:
        response = (message.get("extra") or {}).get("response")
        usage = (response.get("usage") if isinstance(response, dict) else None) or {}
        details = usage.get("prompt_tokens_details") or {}
        hit = details.get("cached_tokens")
        told = told or hit is not None
        cached += hit or 0
        uncached += (usage.get("prompt_tokens") or 0) - (hit or 0)
        written += usage.get("completion_tokens") or 0
    return uncached, cached if told else None, written


class _Shell:
    """The scaffold's environment: a command in our container, really killed at its limit."""

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


class _Scripted:
    """A model whose answers are a list of commands."""

    def __init__(self, script: Sequence[str]) -> None:
        self._left = list(script)
        self.config = SimpleNamespace(model_name="scripted")

    def query(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        if not self._left:
            raise _Stopped("LimitsExceeded")
        command = self._left.pop(0)
        return {
            "role": "assistant",
            "content": "(scripted)",
            "extra": {"actions": [{"command": command}], "cost": 0.0, "timestamp": time.time()},
        }

    def format_message(self, **fields: Any) -> dict[str, Any]:
        return fields

    def format_observation_messages(
        self, message: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]], variables: object = None
    ) -> list[dict[str, Any]]:
        return [
            {
                "role": "user",
                "content": str(output.get("output", ""))[:12000],
                "extra": {
                    "raw_output": output.get("output", ""),
                    "returncode": output.get("returncode"),
                    "exception_info": output.get("exception_info"),
                },
            }
            for output in outputs
        ]

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        return {"model_name": "scripted"} | more

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {"model": {"model_name": "scripted"}, "model_type": "scripted"}}}
