"""How reliably a task discriminates: exact bounds, when to stop, and the plan of repeats.

Two error rates matter: an empty submission that is graded 1, and the reference fix that is graded 0.
Both are bounded by the one-sided Clopper-Pearson upper limit from repeats of the fail-to-pass tests
alone. A fixed plan of n runs with an acceptance number keeps the bound exact: stopping early only
ever rejects.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from scipy.special import betaincinv

from race.core.records import Closed

CONFIDENCE = 0.95
Side = Literal["without", "with"]
Verdict = Literal["open", "accept", "reject"]

PLAIN = "plain"
VARIANTS: dict[str, str] = {
    "cpu-quota": "a quarter of one core",
    "competing-load": "two busy processes beside the tests",
    "switch-interval": "threads switch every ten microseconds",
    "hash-seed": "another hash seed, and the tests in another order",
    "test-order": "the tests in another order",
    "jitter": "event loop stalls of up to five milliseconds, ready files in another order",
    "uvloop": "uvloop instead of the standard event loop",
}


class Reliability(Closed):
    """What the record says about reliability; counts of single runs are in the ledger.

    `plain` runs each way gave the bounds; `perturbed` is runs each way per perturbation.
    `gold_fails_under` names the perturbations that the reference fix did not stand: not counted.
    `not_repeated` are fail-to-pass ids left out of the repeats without the fix: they hang or fail late
    there while others fail at once, which bounds the same rate (see hangs), or there are too many.
    At least one is repeated; a repeat without the fix ends at its first hang.
    """

    limit: float
    confidence: float = CONFIDENCE
    seed: int
    plain: int
    empty_bound: float
    gold_bound: float
    perturbed: dict[str, int] = Field(default_factory=dict)
    gold_fails_under: tuple[str, ...] = ()
    not_repeated: tuple[str, ...] = ()


def upper_bound(bad: int, runs: int, confidence: float = CONFIDENCE) -> float:
    """One-sided Clopper-Pearson upper bound for a rate of `bad` in `runs`; 1.0 for no runs."""
    if bad < 0 or runs < bad:
        raise ValueError(f"{bad} bad outcomes in {runs} runs")
    if bad >= runs:
        return 1.0
    if bad == 0:
        return float(-math.expm1(math.log1p(-confidence) / runs))
    return float(betaincinv(bad + 1, runs - bad, confidence))


def acceptance(runs: int, limit: float, confidence: float = CONFIDENCE) -> int:
    """The most bad outcomes in `runs` whose bound is within the limit; -1 when even none is too many."""
    allowed = -1
    while allowed + 1 < runs and upper_bound(allowed + 1, runs, confidence) <= limit:
        allowed += 1
    return allowed


@dataclass(frozen=True)
class Trial:
    """One planned repeat: which side, under which perturbation, and the seed it gets."""

    side: Side
    variant: str
    index: int
    seed: int

    @property
    def key(self) -> str:
        """How a person names it to see it again: `without/jitter/3`."""
        return f"{self.side}/{self.variant}/{self.index}"


def trial(seed: int, instance_id: str, side: Side, variant: str, index: int) -> Trial:
    """A repeat with the seed that follows from the release's seed and from what it is."""
    text = f"{seed}:{instance_id}:{side}:{variant}:{index}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return Trial(side, variant, index, number)


def parse_trial(key: str, seed: int, instance_id: str) -> Trial:
    """The repeat that a printed key names. Raises ValueError with what is wrong."""
    parts = key.split("/")
    if len(parts) != 3:
        raise ValueError("expected SIDE/VARIANT/INDEX, such as without/jitter/3")
    side, variant, index = parts
    if side not in ("without", "with"):
        raise ValueError(f"side {side!r} is neither 'without' nor 'with'")
    if variant != PLAIN and variant not in VARIANTS:
        raise ValueError(f"no perturbation {variant!r}; there are {PLAIN}, {', '.join(VARIANTS)}")
    if not index.isdecimal():
        raise ValueError(f"index {index!r} is no number")
    return trial(seed, instance_id, "with" if side == "with" else "without", variant, int(index))


def variants_for(ids: int, *, uvloop: bool) -> tuple[str, ...]:
    """The perturbations that can make a difference: order needs two tests, uvloop must be there.

    Where uvloop takes its place in the budget, the order is changed by the hash-seed runs alone.
    """
    left_out = {"test-order"} if ids < 2 or uvloop else set()
    if not uvloop:
        left_out.add("uvloop")
    return tuple(name for name in VARIANTS if name not in left_out)


class Count:
    """Bad outcomes of one side as they come in, against the acceptance number of the whole plan."""

    def __init__(self, planned: int, limit: float, confidence: float = CONFIDENCE) -> None:
        self.planned, self.limit, self.confidence = planned, limit, confidence
        self.allowed = acceptance(planned, limit, confidence)
        self.runs = self.bad = 0

    def add(self, bad: bool) -> None:
        """One run more."""
        self.runs += 1
        self.bad += bad

    @property
    def verdict(self) -> Verdict:
        """Rejected as soon as too many are bad; accepted only when every planned run was made."""
        if self.bad > self.allowed:
            return "reject"
        return "accept" if self.runs >= self.planned else "open"

    @property
    def bound(self) -> float:
        """The upper bound from the runs so far."""
        return upper_bound(self.bad, self.runs, self.confidence)


def plain_trials(
    seed: int, instance_id: str, side: Side, planned: int, start: int = 0
) -> Iterator[Trial]:
    """The plain repeats of one side; a later round starts where the earlier one's numbers end."""
    for index in range(start, start + planned):
        yield trial(seed, instance_id, side, PLAIN, index)
