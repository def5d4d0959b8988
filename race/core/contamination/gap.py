"""The gap between eras: rates per band, the stratified difference, its interval, tests and power."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from race.core.contamination.eras import EraTask, cells_of
from race.core.contamination.words import gap_sentence
from race.core.intervals import Estimate, clustered_rate, normal_quantile
from race.core.permutation import DRAWS, Cell, label_shuffles, stratified_sum

POWER = 0.80
LEVEL = 0.05


@dataclass(frozen=True)
class Band:
    """One band of fix sizes: old and new tasks, each with rate and interval."""

    band: str
    old: Estimate
    new: Estimate

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {"band": self.band, "old": self.old.as_json(), "new": self.new.as_json()}


@dataclass(frozen=True)
class Gap:
    """Old against new. `difference` is old - new over the bands that have both eras, None without one.

    `minimum_detectable` is the smallest difference that so many tasks show with 80% power at 5%, and
    `tasks_needed_per_era` how many tasks in each era the observed difference would need; both None when
    outcomes do not vary at all. `exact` says that the permutation test looked at every arrangement.
    """

    cut: date
    bands: tuple[Band, ...]
    difference: float | None
    low: float | None
    high: float | None
    p_permutation: float | None
    exact: bool
    p_cmh: float | None
    chi_square: float | None
    minimum_detectable: float | None
    tasks_needed_per_era: int | None
    old_tasks: int
    new_tasks: int
    compared: int
    sentence: str
    seed: int

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {
            "cut": self.cut.isoformat(),
            "bands": [band.as_json() for band in self.bands],
        }


def era_gap(
    tasks: Iterable[EraTask], cut: date, *, seed: int, draws: int = DRAWS, minimum_count: int = 5
) -> Gap:
    """Compare tasks merged before `cut` with the others. Tasks in a band with one era only are shown
    but cannot be compared."""
    cells = cells_of(tasks, cut)
    bands = tuple(
        Band(name, clustered_rate(cell.old), clustered_rate(cell.new)) for name, cell in cells.items()
    )
    used = [cell for cell in cells.values() if len(cell.old) and len(cell.new)]
    p_permutation: float | None = None
    low = high = difference = chi_square = p_cmh = None
    exact = False
    if used:
        difference = stratified_sum(used) / _weight(used)
        low, high = bootstrap_gap(used, seed=seed, draws=draws)
        p_permutation, exact = label_shuffles(used, seed=seed, draws=draws)
        chi_square, p_cmh = mantel_haenszel(used)
    detectable, needed = power(used, difference)
    values: dict[str, Any] = {
        "cut": cut,
        "bands": bands,
        "difference": difference,
        "low": low,
        "high": high,
        "p_permutation": p_permutation,
        "exact": exact,
        "p_cmh": p_cmh,
        "chi_square": chi_square,
        "minimum_detectable": detectable,
        "tasks_needed_per_era": needed,
        "old_tasks": sum(band.old.n for band in bands),
        "new_tasks": sum(band.new.n for band in bands),
        "compared": sum(len(cell.old) + len(cell.new) for cell in used),
        "seed": seed,
    }
    return Gap(sentence=gap_sentence(values, minimum_count=minimum_count), **values)


def _weight(cells: Sequence[Cell]) -> float:
    return math.fsum(len(c.old) * len(c.new) / (len(c.old) + len(c.new)) for c in cells)


def bootstrap_gap(
    cells: Sequence[Cell], *, seed: int, draws: int = DRAWS, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """Interval of the stratified difference from a bootstrap over tasks inside each cell.

    Studentised: each draw's deviation is measured in its own standard error, because the plain
    percentile interval is too short for cells of a dozen tasks. None when a cell holds one task alone,
    whose spread nobody knows, and nothing else gives one.
    """
    rng = np.random.default_rng(seed)
    whole = _weight(cells)
    centre = stratified_sum(cells) / whole
    means, variances = np.zeros(draws), np.zeros(draws)
    spread = _pooled_variance(cells)
    observed = 0.0
    for cell in cells:
        weight = len(cell.old) * len(cell.new) / (len(cell.old) + len(cell.new)) / whole
        for sign, values in ((1.0, cell.old), (-1.0, cell.new)):
            mean, variance = _resampled(values, rng, draws, spread)
            means += sign * weight * mean
            variances += weight**2 * variance
            observed += weight**2 * _mean_variance(values, spread)
    if observed <= 0:
        return None, None
    floor = 0.05 * observed
    pivots = (means - centre) / np.sqrt(np.maximum(variances, floor))
    tails = np.quantile(pivots, [(1 - confidence) / 2, (1 + confidence) / 2])
    error = math.sqrt(observed)
    return max(-1.0, centre - float(tails[1]) * error), min(1.0, centre - float(tails[0]) * error)


def _pooled_variance(cells: Sequence[Cell]) -> float:
    """Variance of outcomes inside a band, both eras together, weighted as the difference is."""
    total = math.fsum(
        len(c.old) * len(c.new) / (len(c.old) + len(c.new))
        * float(np.concatenate([c.old, c.new]).var(ddof=1))
        for c in cells
    )  # fmt: skip
    return total / _weight(cells) if cells else 0.0


def _mean_variance(values: NDArray[np.float64], spread: float) -> float:
    """Variance of a cell's mean; a lone task borrows the spread of the whole."""
    own = float(values.var(ddof=1)) if len(values) > 1 else spread
    return own / len(values)


def _resampled(
    values: NDArray[np.float64], rng: np.random.Generator, draws: int, spread: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of the mean of each resample, drawn as counts of equal outcomes."""
    n = len(values)
    if n == 1:
        return np.full(draws, values[0]) + rng.normal(0, math.sqrt(spread), draws), np.full(
            draws, spread
        )
    distinct, counts = np.unique(values, return_counts=True)
    means, variances = np.empty(draws), np.empty(draws)
    for start in range(0, draws, 500):
        picked = rng.multinomial(n, counts / n, size=min(500, draws - start))
        mean = picked @ distinct / n
        square = picked @ distinct**2 / n
        stop = start + len(picked)
        means[start:stop] = mean
        variances[start:stop] = np.maximum(0.0, square - mean**2) / (n - 1)
    return means, variances


def mantel_haenszel(cells: Sequence[Cell]) -> tuple[float | None, float | None]:
    """Cochran-Mantel-Haenszel's mean score test over bands, without continuity correction.

    For outcomes of 0 and 1 it is the usual chi-square; for shares of several attempts it uses the
    variance that they really have. None when nothing varies.
    """
    variance = math.fsum(
        len(c.old) * len(c.new) / (len(c.old) + len(c.new))
        * float(np.concatenate([c.old, c.new]).var(ddof=1))
        for c in cells
    )  # fmt: skip
    if variance <= 1e-15:
        return None, None
    chi_square = stratified_sum(cells) ** 2 / variance
    return chi_square, float(special.chdtrc(1, chi_square))


def published_gap(
    bands: Mapping[str, tuple[float, int, float, int]],
) -> tuple[float, float, float]:
    """Stratified difference, chi-square and p from published rates: band -> (old rate, old n, new rate,
    new n), each taken as a count of tasks that resolve or not."""
    difference = weight = variance = 0.0
    for old, n1, new, n2 in bands.values():
        n = n1 + n2
        pooled = (old * n1 + new * n2) / n
        difference += n1 * n2 / n * (old - new)
        weight += n1 * n2 / n
        variance += n1 * n2 / n * pooled * (1 - pooled) * n / (n - 1)
    chi_square = difference**2 / variance
    return difference / weight, chi_square, float(special.chdtrc(1, chi_square))


def power(cells: Sequence[Cell], difference: float | None) -> tuple[float | None, int | None]:
    """Smallest difference shown with 80% power, and tasks per era that the observed one would need."""
    if not cells:
        return None, None
    spread = _pooled_variance(cells)
    if spread <= 1e-15:
        return None, None
    reach = normal_quantile(1 - LEVEL / 2) + normal_quantile(POWER)
    detectable = reach * math.sqrt(spread / _weight(cells))
    if not difference:
        return detectable, None
    return detectable, max(2, math.ceil(2 * spread * (reach / difference) ** 2))
