"""Every error that race raises on purpose, and the exit code that each one becomes.

    RaceError
    ├── UsageError            2   the command line or an input file is wrong
    │   ├── UnknownId         2   no such task; names the nearest known one
    │   └── Malformed         2   a file that was given or recorded does not parse: file, place, what
    ├── CheckFailed           1   a check ran and found something that blocks
    ├── Missing               3   the user must provide something; the message says what to do
    ├── Accident              4   something of ours broke; no verdict, safe to run again
    │   ├── EngineDown        4   the container engine is gone or does not answer
    │   ├── Unreachable       4   a registry, package index, API or model does not answer
    │   │   └── RateLimited   4   it answers: later
    │   ├── DiskFull          4   no room to write
    │   └── Busy              4   another command holds the release
    └── Rejection             1   a verdict about the task; the stage loop catches and records it
        ├── BuildFailed       1   a step of its image's build failed
        └── Unresolvable      1   no set of packages meets its requirements at that date

A bug is any other exception: exit 70, with the traceback in a log. An interrupt is exit 130.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RaceError(Exception):
    """An error with one clear line for the user."""

    exit_code = 70


class UsageError(RaceError):
    """The command line, or a file named on it, is wrong."""

    exit_code = 2


class UnknownId(UsageError):
    """An id that the release does not know."""

    def __init__(self, asked: str, known: Iterable[str], where: str) -> None:
        close = difflib.get_close_matches(asked, list(known), n=1, cutoff=0.4)
        nearest = f"; did you mean {close[0]}?" if close else ""
        super().__init__(f"{where} has no task {asked!r}{nearest}")


class Malformed(UsageError):
    """A file that does not say what it should: where it is, which place in it, and what is wrong."""

    def __init__(self, file: object, place: str, what: str) -> None:
        super().__init__(": ".join(part for part in (str(file), place, what) if part))
        self.file, self.place, self.what = str(file), place, what


class CheckFailed(RaceError):
    """A check ran and its findings block."""

    exit_code = 1


class Missing(RaceError):
    """Something that only the user can provide; the message says what to do."""

    exit_code = 3


class Accident(RaceError):
    """Something of ours broke. Never a verdict; running again is safe."""

    exit_code = 4


class EngineDown(Accident):
    """The container engine is gone or does not answer."""


class Unreachable(Accident):
    """A registry, a package index, an API or a model does not answer."""


class RateLimited(Unreachable):
    """A service asks to come back later, after `retry_after` seconds when it says so."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DiskFull(Accident):
    """There is no room to write."""


class Busy(Accident):
    """Another command holds the lock of this release."""


class Rejection(RaceError):
    """A verdict about one task: it cannot go on. `rule` and `place` become its finding."""

    exit_code = 1

    def __init__(self, rule: str, message: str, place: str = "") -> None:
        super().__init__(message)
        self.rule, self.message, self.place = rule, message, place


class BuildFailed(Rejection):
    """A build step failed: the step, its exit code, and the last lines that it printed.

    The lines differ from build to build, so they go to the ledger and not into the finding.
    """

    def __init__(self, step: str, exit_status: int | None, tail: str) -> None:
        super().__init__("build-failed", f"{step}: exit {exit_status}")
        self.step, self.exit_status, self.tail = step, exit_status, tail


class Unresolvable(Rejection):
    """No set of packages meets these requirements before the cut-off; the reason is for a person.

    `reason` is whole, as its end names what was asked for; a record has its beginning and its end.
    """

    def __init__(self, reason: str) -> None:
        short = reason if len(reason) <= 1500 else f"{reason[:700]} [...] {reason[-800:]}"
        super().__init__("unresolvable", short)
        self.reason = reason
