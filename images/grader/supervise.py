"""Runs tests in forked processes and says what became of each, whatever they do.

A test that hangs costs its own limit: its process is ended and the tests that are left go on in a
fresh one. The same holds for a test that takes its process down, and for a file that does so while
it is imported. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable

import cage
from attempt import Attempt, Emit, how_it_died
from workers import Worker

PLAN = {
    "root": "/repo",
    "python": "/opt/venv/bin/python",
    "files": [],
    "ids": None,
    "ordered": False,
    "deselected": [],
    "arguments": [],
    "tools": [],
    "environment": {},
    "test_seconds": 60.0,
    "run_seconds": 600.0,
    "output_bytes": 16 * 2**20,
    "memory_bytes": 0,
    "file_bytes": 2**30,
    "processes": 0,
    "open_files": 4096,
    "restarts": 200,
    "until": [],
    "stop_at_hang": False,
    "hung_seconds": {},
    "hung_run_seconds": 0.0,
    "tell_imports": False,
    "traceback": "short",
}
"""What can be asked of a run, with defaults. `ids` None means all that the files hold; `output_bytes`
is how much output is kept and `memory_bytes` 0 leaves memory to the container. `until` names ids after
which the run is ended early, all the same to the tests; `stop_at_hang` ends it at the first test that
hangs, and the tests after it have no outcome. Once a test has hung, `hung_seconds` (id -> seconds) are
the limits of the tests that it names, and the run has `hung_run_seconds` left, unless that is 0."""
_DROPPED = ("PYTHON", "PYTEST", "GIT_", "LD_", "COVERAGE", "RACE_")


def clean_environment(extra: dict[str, str]) -> dict[str, str]:
    """The environment of a test process: the image's own, without what steers tools, plus `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    kept.update(HOME=cage.HOME, USER="tester", LOGNAME="tester", SHELL="/bin/sh", TZ="UTC")
    kept.update(PYTHONDONTWRITEBYTECODE="1", PYTHONSAFEPATH="", LANG="C.UTF-8")
    kept.setdefault("PATH", "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin")
    kept.pop("PYTHONSAFEPATH")
    for name in ("OLDPWD", "PWD", "HOSTNAME", "SHLVL", "_"):
        kept.pop(name, None)
    kept.update(extra)
    return kept


class Run:
    """A list of tests, run to its end through as many processes as it takes."""

    def __init__(self, plan: dict[str, Any], emit: Emit, uids: Callable[[], int]) -> None:
        unknown = set(plan) - set(PLAN)
        if unknown:
            raise ValueError("unknown in a run: " + ", ".join(sorted(unknown)))
        self.plan = {**PLAN, **plan}
        self.emit, self._uids = emit, uids
        self.attempts: list[Attempt] = []
        self._kept: list[bytes] = []
        self._room = int(self.plan["output_bytes"])
        self.output_bytes = 0
        self._skipped: list[str] = []
        self._hung = False
        self.how = "crashed"

    def _keep(self, data: bytes) -> None:
        self.output_bytes += len(data)
        if self._room > 0:
            self._kept.append(data[: self._room])
            self._room -= len(data)

    def go(self, worker: Worker) -> str:
        """Run everything; how it ended, in the words of an Observation's `ended`."""
        plan, started = self.plan, time.monotonic()
        deadline = started + plan["run_seconds"]
        remaining: list[str] | None = plan["ids"]
        how = self.how
        for _ in range(int(plan["restarts"]) + 1):
            attempt = self._attempt(worker, remaining, deadline)
            self.attempts.append(attempt)
            if remaining is None:
                remaining = None if attempt.selected is None else _selected(attempt, plan)
            done = set(attempt.done)
            progress = bool(done)
            if attempt.reason == "enough":
                how = "finished"
                break
            if attempt.ended and attempt.reason == "gone" and attempt.place[0] == "between":
                how = "finished"
                break
            kind, name = attempt.place
            if kind == "test":
                self._tell_lost(attempt, name)
                done.add(name)
                progress = True
            elif kind == "collect":
                self._tell_uncollectable(attempt, name)
                self._skipped.append(name)
                progress = True
            if remaining is not None:
                remaining = [entry for entry in remaining if entry not in done]
            if attempt.reason in ("run-limit", "memory-limit", "disk-limit"):
                how = attempt.reason
                break
            if attempt.reason == "hang" and kind == "test":
                if plan["stop_at_hang"]:
                    how = "finished"
                    break
                deadline = self._after_hang(deadline)
            asked = bool(plan["files"]) or remaining is not None
            if remaining == [] or (asked and not self._files(remaining)):
                how = "finished"
                break
            if not progress:
                how = "collection-failed" if kind == "start" else "crashed"
                break
        self.emit(
            {
                "event": "ended",
                "how": how,
                "exit": self.attempts[-1].status,
                "processes": len(self.attempts),
                "garbled": sum(attempt.garbled for attempt in self.attempts),
                "output_bytes": self.output_bytes,
                "output": b"".join(self._kept)[-plan["output_bytes"] :].decode(errors="replace"),
                "stacks": self.attempts[-1].stack_text() if how == "run-limit" else "",
                "seconds": round(time.monotonic() - started, 3),
            }
        )
        for attempt in self.attempts:
            os.close(attempt.stacks)
        self.how = how
        return how

    def _after_hang(self, deadline: float) -> float:
        """The run's deadline once a test has hung; nothing changes at the second one."""
        most = float(self.plan["hung_run_seconds"])
        first, self._hung = not self._hung, True
        return min(deadline, time.monotonic() + most) if most and first else deadline

    def _files(self, ids: list[str] | None) -> list[str]:
        if ids is None:
            named = list(self.plan["files"])
        else:
            named = list(dict.fromkeys(entry.split("::")[0] for entry in ids))
        return [name for name in named if name not in self._skipped]

    def _attempt(self, worker: Worker, ids: list[str] | None, deadline: float) -> Attempt:
        plan, uid = self.plan, self._uids()
        cage.prepare_user(uid)
        order = {
            "uid": uid,
            "nonce": os.urandom(12).hex(),
            "root": plan["root"],
            "files": self._files(ids),
            "ids": ids,
            "ordered": plan["ordered"],
            "skipped": self._skipped,
            "deselected": plan["deselected"],
            "arguments": plan["arguments"],
            "tools": plan["tools"],
            "tell_imports": plan["tell_imports"],
            "traceback": plan["traceback"],
            "environment": clean_environment(plan["environment"]),
            "limits": {name: plan[name] for name in ("file_bytes", "processes", "open_files")},
        }
        attempt = Attempt(worker, order, self.emit, deadline)
        attempt.until = set(plan["until"])
        attempt.limits = plan["hung_seconds"] if self._hung else {}
        try:
            attempt.watch(plan, self._keep)
        finally:
            cage.sweep(uid, plan["root"])
        return attempt

    def _tell_lost(self, attempt: Attempt, name: str) -> None:
        """The outcome of the test that was running when its process ended."""
        hung = attempt.reason in ("hang", "run-limit")
        what = "hang" if hung else "crashed"
        limit = "its limit of %g s" % round(attempt.patience(self.plan["test_seconds"]), 1)
        if attempt.reason == "run-limit":
            limit = "the limit of the whole run, %g s" % self.plan["run_seconds"]
            if self._hung and self.plan["hung_run_seconds"]:
                limit = "the end of the run, %g s after a test had hung" % self.plan["hung_run_seconds"]
        message = "was still running at " + limit if hung else how_it_died(attempt)
        self.emit(
            {
                "event": "outcome",
                "id": name,
                "outcome": what,
                "phase": attempt.phase,
                "seconds": round(time.monotonic() - attempt.since, 3),
                "error": what,
                "message": message,
                "excerpt": "",
                "stacks": attempt.stack_text() if hung else "",
            }
        )

    def _tell_uncollectable(self, attempt: Attempt, path: str) -> None:
        hung = attempt.reason in ("hang", "run-limit")
        message = "importing it did not end" if hung else "importing it " + how_it_died(attempt)
        self.emit(
            {
                "event": "collect-error",
                "path": path,
                "message": message,
                "excerpt": "",
                "stacks": attempt.stack_text() if hung else "",
            }
        )


def _selected(attempt: Attempt, plan: dict[str, Any]) -> list[str]:
    return [name for name in attempt.collected if name not in set(plan["deselected"])]
