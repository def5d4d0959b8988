"""What a test run showed, as the launcher inside the container tells it in JSON lines.

An outcome is one of

    passed | failed | error (a fixture) | skipped | xfailed | xpassed
    hang      still running at its limit; its process was ended and the rest went on without it
    crashed   its process was gone before the test was through

and only `passed` is a pass. A test that was asked for and has no outcome is not in `tests`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

GRADER = "/soma/grader/"
_IMPORT_ERROR = re.compile(r"(ImportError|ModuleNotFoundError)\b")
_FRAME = re.compile(r'^\s*File "([^"]+)"', re.MULTILINE)

Ended = Literal[
    "finished",
    "run-limit",
    "crashed",
    "collection-failed",
    "memory-limit",
    "disk-limit",
    "no-interpreter",
    "cut-off",
]
"""`crashed`: processes kept dying without any test getting through, or pytest itself broke off.
`collection-failed`: the run died before it looked at a test file (plugins, conftest). `cut-off`: the
stream stopped early, which is about us or the engine, not about the tests."""


@dataclass(frozen=True)
class TestOutcome:
    """One test. `phase` is setup, call or teardown; `error` a type's name; `stacks` after a hang."""

    __test__ = False

    outcome: str
    seconds: float
    phase: str = "call"
    error: str = ""
    message: str = ""
    excerpt: str = ""
    stacks: str = ""


@dataclass(frozen=True)
class Uncollectable:
    """A file (or node) that pytest could not collect, and why. `skipped` when it skips itself."""

    message: str
    excerpt: str = ""
    stacks: str = ""
    skipped: bool = False


@dataclass(frozen=True)
class Observation:
    """One run of tests: ids in the order in which they ran.

    `collected` are all ids that the files hold, also those that were not asked for; `processes` how
    many it took (1 when nothing hung or crashed); `output` what the tests printed, cut at the limit;
    `broke_off` the last line of an error of pytest's own, or of a plugin, that ended the run.
    """

    tests: Mapping[str, TestOutcome]
    collected: Sequence[str]
    uncollectable: Mapping[str, Uncollectable]
    ended: Ended
    seconds: float = 0.0
    processes: int = 1
    pytest: str = ""
    python: str = ""
    output: str = ""
    output_bytes: int = 0
    stacks: str = ""
    broke_off: str = ""

    def outcome(self, nodeid: str) -> str:
        """The outcome of one id; `missing` when it has none."""
        found = self.tests.get(nodeid)
        return found.outcome if found is not None else "missing"


@dataclass(frozen=True)
class Plan:
    """One run that the launcher is asked for. Paths are relative to `root`.

    `ids` None runs all that `files` hold; no files either means what the project's own settings say.
    `ordered` runs `ids` in the given order, else the order is pytest's. `tools` are module names in the
    grader's folder that are loaded as plugins (perturbations). PYTHONHASHSEED in `environment` gives
    the run an interpreter with that seed. `deselected` ids are collected but not run. `stop_at_hang`
    ends the run at the first test that hangs; what comes after it has no outcome.
    """

    files: Sequence[str] = ()
    ids: Sequence[str] | None = None
    ordered: bool = False
    deselected: Sequence[str] = ()
    arguments: Sequence[str] = ()
    tools: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    test_seconds: float = 60.0
    run_seconds: float = 600.0
    output_bytes: int = 2**18
    restarts: int = 200
    stop_at_hang: bool = False
    root: str = "/repo"
    python: str = "/opt/venv/bin/python"

    def as_json(self) -> dict[str, Any]:
        """The plan as the launcher reads it."""
        return {
            "files": list(self.files),
            "ids": None if self.ids is None else list(self.ids),
            "ordered": self.ordered,
            "deselected": list(self.deselected),
            "arguments": list(self.arguments),
            "tools": list(self.tools),
            "environment": dict(self.environment),
            "test_seconds": self.test_seconds,
            "run_seconds": self.run_seconds,
            "output_bytes": self.output_bytes,
            "restarts": self.restarts,
            "stop_at_hang": self.stop_at_hang,
            "root": self.root,
            "python": self.python,
        }


def own_fault(said: str) -> str:
    """The last line of a traceback that ends in the grader's own code; empty when it ends elsewhere.

    An import that fails there is of something that the environment lacks, unless it is of our own.
    """
    last = _ends_in_grader(said)
    return "" if _IMPORT_ERROR.match(last) and GRADER not in last else last


def unusable_runner(said: str) -> str:
    """The import of pytest's own parts that failed in the grader's code; empty when none did."""
    last = _ends_in_grader(said)
    return last if _IMPORT_ERROR.match(last) and GRADER not in last and "pytest" in last else ""


def _ends_in_grader(said: str) -> str:
    frames = _FRAME.findall(said)
    if not frames or not frames[-1].startswith(GRADER):
        return ""
    return said.strip().splitlines()[-1].strip()


class EventReader:
    """Turns the launcher's stream, chunk by chunk, into one Observation per run."""

    def __init__(self) -> None:
        self._buffer = b""
        self._runs: dict[int, _Building] = {}
        self.complete = False
        """The launcher said goodbye: nothing of the stream is missing."""

    def feed(self, data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
        """Take a chunk; every event that it completes, with its run's number."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if not isinstance(event, dict):
                continue
            if event.get("event") == "bye":
                self.complete = True
            elif isinstance(event.get("run"), int):
                self._runs.setdefault(event["run"], _Building()).take(event)
                yield event["run"], event

    def observation(self, run: int) -> Observation:
        """What is known of a run so far; `cut-off` while its end has not come."""
        return self._runs.get(run, _Building()).observation()


class _Building:
    def __init__(self) -> None:
        self.tests: dict[str, TestOutcome] = {}
        self.collected: dict[str, None] = {}
        self.uncollectable: dict[str, Uncollectable] = {}
        self.session: dict[str, str] = {}
        self.end: dict[str, Any] = {}
        self.broke_off = ""

    def take(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "session":
            self.session = {"pytest": str(event["pytest"]), "python": str(event["python"])}
        elif kind == "collected":
            self.collected.update(dict.fromkeys(event["ids"]))
        elif kind in ("collect-error", "collect-skip"):
            self.uncollectable.setdefault(
                event["path"],
                Uncollectable(
                    message=event["message"],
                    excerpt=event.get("excerpt", ""),
                    stacks=event.get("stacks", ""),
                    skipped=kind == "collect-skip",
                ),
            )
        elif kind == "outcome":
            self.tests[event["id"]] = TestOutcome(
                outcome=event["outcome"],
                seconds=event["seconds"],
                phase=event["phase"],
                error=event.get("error", ""),
                message=event.get("message", ""),
                excerpt=event.get("excerpt", ""),
                stacks=event.get("stacks", ""),
            )
        elif kind == "internal-error":
            self.broke_off = event["message"]
        elif kind == "ended":
            self.end = event

    def observation(self) -> Observation:
        end = self.end
        how = end.get("how", "cut-off")
        return Observation(
            tests=dict(self.tests),
            collected=tuple(self.collected),
            uncollectable=dict(self.uncollectable),
            ended="crashed" if how == "finished" and self.broke_off else how,
            seconds=end.get("seconds", 0.0),
            processes=end.get("processes", 1),
            pytest=self.session.get("pytest", ""),
            python=self.session.get("python", ""),
            output=end.get("output", ""),
            output_bytes=end.get("output_bytes", 0),
            stacks=end.get("stacks", ""),
            broke_off=self.broke_off,
        )
