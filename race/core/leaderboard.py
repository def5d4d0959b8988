"""Who resolves how much, how sure that is, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from race.core.intervals import (
    NOTHING,
    Estimate,
    bootstrap_mean,
    clustered_rate,
    mean_interval,
    pass_at_k,
)
from race.core.permutation import adjusted, sign_flips
from race.core.runs.grid import Grid
from race.core.runs.table import ENDED

SEED = 20260101
SLICES = ("tier", "complexity", "kind", "project")
LEVEL = 0.05


@dataclass(frozen=True)
class Entry:
    """One entrant. Means of cost, tokens and steps are over tasks of the mean attempt; None when no run
    tells them. `pass_at` goes from k to the tasks with at least k attempts."""

    name: str
    rank: int
    tasks: int
    attempts: int
    resolved: int
    pass_at_1: Estimate
    bootstrap: Estimate
    pass_at: Mapping[int, Estimate]
    cost_per_task: float | None
    cost_per_resolved: float | None
    cost_known: int
    tokens: float | None
    steps: float | None
    seconds: float | None
    ended: Mapping[str, float]
    accidents: int
    slices: Mapping[str, Mapping[str, Estimate]]

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {
            "pass_at_1": self.pass_at_1.as_json(),
            "bootstrap": self.bootstrap.as_json(),
            "pass_at": {str(k): value.as_json() for k, value in self.pass_at.items()},
            "ended": dict(self.ended),
            "slices": {
                by: {value: rate.as_json() for value, rate in rates.items()}
                for by, rates in self.slices.items()
            },
        }


@dataclass(frozen=True)
class Pair:
    """Two entrants on the tasks that both ran: mean paired difference first - second, its interval,
    the sign-flip p-value, the same adjusted for all pairs, and whether that tells them apart."""

    first: str
    second: str
    difference: Estimate
    p: float
    p_adjusted: float
    apart: bool

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "first": self.first,
            "second": self.second,
            "tasks": self.difference.n,
            "difference": self.difference.rate,
            "low": self.difference.low,
            "high": self.difference.high,
            "p": self.p,
            "p_adjusted": self.p_adjusted,
            "apart": self.apart,
        }


@dataclass(frozen=True)
class Leaderboard:
    """Entries, best first, and all pairs."""

    entries: tuple[Entry, ...]
    pairs: tuple[Pair, ...]
    seed: int

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "seed": self.seed,
            "entries": [entry.as_json() for entry in self.entries],
            "pairs": [pair.as_json() for pair in self.pairs],
        }


def make_leaderboard(grid: Grid, *, seed: int = SEED) -> Leaderboard:
    """Rank the entrants of a grid.

    A rank is one more than the number of entrants that are better and told apart from this one, so that
    entrants that cannot be told apart from the best share the first place.
    """
    shares = grid.shares
    pairs = compare_pairs(grid, shares, seed=seed)
    above = dict.fromkeys(grid.entrants, 0)
    for pair in pairs:
        if pair.apart and pair.difference.rate is not None:
            above[pair.second if pair.difference.rate > 0 else pair.first] += 1
    entries = [
        _entry(grid, shares, column, 1 + above[name], seed)
        for column, name in enumerate(grid.entrants)
        if grid.attempts[:, column].any() or grid.accidents[column]
    ]
    entries.sort(key=lambda entry: (entry.rank, -(entry.pass_at_1.rate or 0.0), entry.name))
    return Leaderboard(tuple(entries), pairs, seed)


def compare_pairs(grid: Grid, shares: NDArray[np.float64], *, seed: int) -> tuple[Pair, ...]:
    """Every two entrants on the tasks that both ran."""
    ran = [column for column in range(len(grid.entrants)) if grid.attempts[:, column].any()]
    chosen = list(combinations(ran, 2))
    if not chosen:
        return ()
    first, second = (list(side) for side in zip(*chosen, strict=True))
    differences = shares[:, first] - shares[:, second]
    p_values = sign_flips(np.nan_to_num(differences), seed=seed)
    corrected = adjusted(p_values)
    pairs = []
    for index, (a, b) in enumerate(chosen):
        column = differences[:, index]
        estimate = mean_interval(column[~np.isnan(column)])
        p, p_adjusted = float(p_values[index]), float(corrected[index])
        if estimate.n == 0:
            p = p_adjusted = 1.0
        pairs.append(
            Pair(grid.entrants[a], grid.entrants[b], estimate, p, p_adjusted, p_adjusted <= LEVEL)
        )
    return tuple(pairs)


def _entry(grid: Grid, shares: NDArray[np.float64], column: int, rank: int, seed: int) -> Entry:
    ran = grid.attempts[:, column] > 0
    attempts, resolved = grid.attempts[ran, column], grid.resolved[ran, column]
    own = shares[ran, column]
    ended = grid.ended[column]
    told = int(ended.sum())
    costs, wins = float(grid.cost[ran, column].sum()), int(resolved.sum())
    cost_known = int(grid.cost_n[ran, column].sum())
    whole = cost_known == int(attempts.sum()) and cost_known > 0
    return Entry(
        name=grid.entrants[column],
        rank=rank,
        tasks=int(ran.sum()),
        attempts=int(attempts.sum()),
        resolved=wins,
        pass_at_1=clustered_rate(own),
        bootstrap=bootstrap_mean(own, seed=seed),
        pass_at=_pass_at(attempts, resolved),
        cost_per_task=_mean_of_tasks(grid.cost[ran, column], grid.cost_n[ran, column]),
        cost_per_resolved=costs / wins if whole and wins else None,
        cost_known=cost_known,
        tokens=_mean_of_tasks(grid.tokens[ran, column], grid.tokens_n[ran, column]),
        steps=_mean_of_tasks(grid.steps[ran, column], grid.steps_n[ran, column]),
        seconds=_mean_of_tasks(grid.seconds[ran, column], grid.seconds_n[ran, column]),
        ended={
            name: int(ended[code]) / told
            for code, name in enumerate(ENDED)
            if told and name != "accident"
        },
        accidents=int(grid.accidents[column]),
        slices={by: _slice(grid, own, ran, by) for by in SLICES},
    )


def _pass_at(attempts: NDArray[np.int64], resolved: NDArray[np.int64]) -> dict[int, Estimate]:
    """For k that at least half of the tasks have attempts for; each says how many those are."""
    found: dict[int, Estimate] = {}
    for k in (1, 2, 3, 4, 5, 8, 10, 16):
        enough = attempts >= k
        if not enough.any() or 2 * int(enough.sum()) < len(attempts):
            break
        chances = [
            pass_at_k(int(n), int(c), k) for n, c in zip(attempts[enough], resolved[enough], strict=True)
        ]
        found[k] = clustered_rate(chances)
    return found


def _mean_of_tasks(sums: NDArray[np.float64], counts: NDArray[np.int64]) -> float | None:
    known = counts > 0
    if not known.any():
        return None
    return math.fsum(sums[known] / counts[known]) / int(known.sum())


def _slice(grid: Grid, own: NDArray[np.float64], ran: NDArray[np.bool_], by: str) -> dict[str, Estimate]:
    labels = [getattr(task, by) for task, yes in zip(grid.tasks, ran, strict=True) if yes]
    rates = {}
    for label in sorted({label for label in labels if label is not None}):
        chosen = [share for share, has in zip(own, labels, strict=True) if has == label]
        rates[label] = clustered_rate(chosen) if chosen else NOTHING
    return rates
