"""The state of a series of repeats: who is still in, when to stop, and what is left at the end.

Both sides are watched per test and as a whole. Without the fix a test is bad when it passes; with the
fix it is bad when it does not. A test that is bad too often is out, and the runs that threw it out
vouch for nobody: whoever is left starts again from zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from race.core.reliability import CONFIDENCE, PLAIN, Count, Side, Trial, Verdict, acceptance

ROUNDS = 4
"""How often whoever is left starts again before the task counts as unsettled."""
GRACE = 10
"""Repeats after the first test is out, so that others like it show in the same round."""


@dataclass(frozen=True)
class BadRun:
    """One repeat with a bad outcome: which tests, what they did, and how to see it again."""

    trial: Trial
    outcomes: Mapping[str, str]


@dataclass
class Series:
    """Repeats of one side over a fixed list of ids."""

    side: Side
    ids: tuple[str, ...]
    planned: int
    limit: float
    confidence: float = CONFIDENCE
    whole: Count = field(init=False)
    each: dict[str, Count] = field(init=False)
    bad_runs: list[BadRun] = field(default_factory=list)
    _first_out: int = 0

    def __post_init__(self) -> None:
        self.whole = Count(self.planned, self.limit, self.confidence)
        self.each = {i: Count(self.planned, self.limit, self.confidence) for i in self.ids}

    def bad(self, outcome: str) -> bool:
        """Whether an outcome is the wrong one for this side."""
        return (outcome == "passed") == (self.side == "without")

    def add(self, trial: Trial, outcomes: Mapping[str, str], *, cut: bool = False) -> None:
        """One repeat's outcomes; an id that it lacks is missing, which is a failure.

        `cut` says that it was ended at a test that hung: an id that it lacks was not reached then,
        which says nothing about that id, while the whole has failed.
        """
        words = {i: outcomes.get(i, "missing") for i in self.ids if i in outcomes or not cut}
        wrong = {test_id: word for test_id, word in words.items() if self.bad(word)}
        for test_id in words:
            self.each[test_id].add(test_id in wrong)
        self.whole.add(len(wrong) == len(self.ids) if self.side == "without" else bool(wrong))
        if wrong:
            self.bad_runs.append(BadRun(trial, wrong))
        if self.out and not self._first_out:
            self._first_out = self.whole.runs

    @property
    def out(self) -> tuple[str, ...]:
        """The ids that were bad too often."""
        return tuple(i for i, count in self.each.items() if count.bad > count.allowed)

    @property
    def verdict(self) -> Verdict:
        """Rejected when no id is left or the whole is bad too often; accepted after the last run."""
        if len(self.out) == len(self.ids) or (self.whole.verdict == "reject" and not self.out):
            return "reject"
        return "accept" if self.whole.runs >= self.planned else "open"

    @property
    def enough(self) -> bool:
        """Whether further repeats of this round cannot help: decided, or a new round will follow."""
        started_over = self._first_out and self.whole.runs >= self._first_out + GRACE
        return self.verdict != "open" or bool(started_over)


def left(ids: Sequence[str], *series: Series) -> tuple[str, ...]:
    """The ids that no series threw out, in order."""
    out = {test_id for one in series for test_id in one.out}
    return tuple(test_id for test_id in ids if test_id not in out)


@dataclass
class Perturbed:
    """One perturbation: with the fix first, and without it only when the fix stands."""

    variant: str
    planned: int
    gold_bad: list[BadRun] = field(default_factory=list)
    empty: Series | None = None

    @property
    def counts(self) -> bool:
        """Whether the reference fix stood, so that the runs without it say something."""
        return not self.gold_bad


def pooled_out(plain: Series, perturbed: Sequence[Perturbed]) -> tuple[str, ...]:
    """Ids that are bad too often over plain and counted perturbed runs together, without the fix."""
    counted = [one.empty for one in perturbed if one.counts and one.empty is not None]
    runs = plain.whole.runs + sum(series.whole.runs for series in counted)
    allowed = acceptance(runs, plain.limit, plain.confidence)
    totals = {
        test_id: plain.each[test_id].bad + sum(series.each[test_id].bad for series in counted)
        for test_id in plain.ids
    }
    return tuple(test_id for test_id, bad in totals.items() if bad > max(allowed, 0))


def is_plain(trial: Trial) -> bool:
    """Whether a trial runs as grading runs, with nothing in its way."""
    return trial.variant == PLAIN
