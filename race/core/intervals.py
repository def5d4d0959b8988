"""Intervals for rates and means: every rate that a person sees has one beside it.

A task is the sampling unit. Runs of one task are not independent, so an interval over tasks uses the
spread of the tasks' own shares, never the number of runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A rate or mean from `n` tasks (or attempts), with a 95% interval unless told otherwise.

    `rate`, `low` and `high` are None when `n` is 0. `low` and `high` alone are None when one value says
    nothing about spread.
    """

    n: int
    rate: float | None
    low: float | None
    high: float | None

    def as_json(self) -> dict[str, float | int | None]:
        """For a program."""
        return {"n": self.n, "rate": self.rate, "low": self.low, "high": self.high}


NOTHING = Estimate(0, None, None, None)


def normal_quantile(share: float) -> float:
    """Below which a standard normal value lies with this probability."""
    return float(special.ndtri(share))


def student_quantile(share: float, freedom: int) -> float:
    """The same for Student's t with so many degrees of freedom."""
    return float(special.stdtrit(freedom, share))


def _wilson(rate: float, size: float, quantile: float) -> tuple[float, float]:
    square = quantile * quantile
    centre = (rate + square / (2 * size)) / (1 + square / size)
    half = (
        quantile * math.sqrt(rate * (1 - rate) / size + square / (4 * size * size)) / (1 + square / size)
    )
    low = 0.0 if rate <= 0 else max(0.0, centre - half)
    high = 1.0 if rate >= 1 else min(1.0, centre + half)
    return low, high


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Estimate:
    """Wilson's score interval for independent trials. No trial gives an empty estimate."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if trials == 0:
        return NOTHING
    rate = successes / trials
    low, high = _wilson(rate, trials, normal_quantile((1 + confidence) / 2))
    return Estimate(trials, rate, low, high)


def clustered_rate(shares: Sequence[float] | Floats, confidence: float = 0.95) -> Estimate:
    """The mean of per-task shares (each in 0..1), clustered by task.

    Wilson's interval at the effective sample size that the spread between tasks implies, with Student's
    quantile at n - 1 degrees of freedom. It stays in [0, 1] and keeps its coverage near 0 and 1, where
    the plain t interval falls to a third of what it promises (tests/bench/coverage_simulation.py).
    Shares that are all 0 or 1 (single attempts) have no spread but the one that their rate implies:
    theirs is Wilson's interval itself. Without any spread the effective size is the number of tasks. One
    task gives no interval.
    """
    values = np.asarray(shares, dtype=np.float64)
    n = int(values.size)
    if n == 0:
        return NOTHING
    rate = min(1.0, max(0.0, math.fsum(values) / n))
    if n == 1:
        return Estimate(1, rate, None, None)
    upper = (1 + confidence) / 2
    if np.all((values == 0) | (values == 1)):
        return Estimate(n, rate, *_wilson(rate, n, normal_quantile(upper)))
    variance = float(values.var(ddof=1))
    inside = rate * (1 - rate)
    size = inside / (variance / n) if variance > 1e-12 and inside > 0 else float(n)
    return Estimate(n, rate, *_wilson(rate, size, student_quantile(upper, n - 1)))


def mean_interval(values: Sequence[float] | Floats, confidence: float = 0.95) -> Estimate:
    """Mean and Student's interval of independent values (paired differences, costs per task)."""
    array = np.asarray(values, dtype=np.float64)
    n = int(array.size)
    if n == 0:
        return NOTHING
    mean = math.fsum(array) / n
    if n == 1:
        return Estimate(1, mean, None, None)
    half = student_quantile((1 + confidence) / 2, n - 1) * math.sqrt(float(array.var(ddof=1)) / n)
    return Estimate(n, mean, mean - half, mean + half)


def bootstrap_mean(
    values: Sequence[float] | Floats, *, seed: int, draws: int = 10_000, confidence: float = 0.95
) -> Estimate:
    """Percentile bootstrap over tasks: a check on `clustered_rate`, never the headline."""
    array = np.asarray(values, dtype=np.float64)
    n = int(array.size)
    if n == 0:
        return NOTHING
    distinct, counts = np.unique(array, return_counts=True)
    picked = np.random.default_rng(seed).multinomial(n, counts / n, size=draws)
    low, high = np.quantile(picked @ distinct / n, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(n, math.fsum(array) / n, float(low), float(high))


def pass_at_k(attempts: int, resolved: int, k: int) -> float:
    """Unbiased chance that at least one of k attempts resolves: 1 - C(n-c, k) / C(n, k)."""
    if not 0 <= resolved <= attempts or not 1 <= k <= attempts:
        raise ValueError(f"pass@{k} from {resolved} of {attempts}")
    return 1.0 - math.comb(attempts - resolved, k) / math.comb(attempts, k)
