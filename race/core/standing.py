"""How a test stands over the runs of a cell, and why one may not be listed.

An outcome is one word per id and run: passed, failed, error, hang, crashed, skipped, xfailed,
xpassed; an id that a run did not report is missing. A run that was cut short (its limit, a flood of
output) says nothing about the ids that it did not reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from race.core.records import Closed

FAILING = frozenset({"failed", "error", "hang", "crashed", "missing"})
EXPECTED = frozenset({"xfailed", "xpassed"})
UNKNOWN = "unknown"
WOBBLY = ("flaky", "unreliable")
"""Reasons that chance decides: in which cell and run it shows is for the ledger."""

Reason = Literal[
    "flaky", "unreliable", "broken", "skipped", "expected-failure", "unstable-id", "missing",
    "not-reached", "deselected",
]  # fmt: skip
Standing = Literal["passed", "failed", "mixed", "skipped", "expected", "missing", "unknown"]

EXPLAIN: dict[str, str] = {
    "flaky": "passes in some runs of one cell and fails in others, if only on a busy machine",
    "unreliable": "passes in some runs without the fix, so an empty submission can pass it",
    "broken": "fails with and without the fix",
    "skipped": "is skipped, which a grader counts as a failure",
    "expected-failure": "is marked as an expected failure",
    "unstable-id": "does not have the same id in every run",
    "missing": "is not collected when tests and fix are both there",
    "not-reached": "was not reached before the run was cut short",
    "deselected": "is deselected for this project in release.toml",
}


@dataclass(frozen=True)
class Run:
    """One run of one cell: outcome per id, and whether it went to its end.

    `whole` is False when the run was cut short, so that an id it lacks may just not have been reached.
    """

    outcomes: Mapping[str, str]
    whole: bool = True

    def of(self, test_id: str) -> str:
        """The outcome of an id; missing, or unknown when the run did not go to its end."""
        return self.outcomes.get(test_id, "missing" if self.whole else UNKNOWN)


class Dropped(Closed):
    """An id that is not listed: why, and how it stood in the cells."""

    id: str
    reason: Reason
    detail: str = ""
    outcomes: dict[str, str] = Field(default_factory=dict)


def standing(outcomes: Sequence[str]) -> Standing:
    """What several runs of one cell say together about one id."""
    words = set(outcomes)
    if not words or UNKNOWN in words:
        return "unknown"
    if words == {"passed"}:
        return "passed"
    if words == {"missing"}:
        return "missing"
    if words <= FAILING:
        return "failed"
    if words == {"skipped"}:
        return "skipped"
    if words <= EXPECTED:
        return "expected"
    return "mixed"
