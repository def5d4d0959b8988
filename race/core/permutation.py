"""Permutation tests: exact when there are few arrangements, else drawn with a recorded seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EXACT = 20_000
"""Up to this many arrangements are all looked at."""
DRAWS = 10_000
CLOSE = 1e-9
"""Sums that differ by less are the same sum in another order of addition."""


@dataclass(frozen=True)
class Cell:
    """Per-task outcomes of one band, of tasks before and after a date."""

    old: Floats
    new: Floats


def sign_flips(differences: Floats, *, seed: int, draws: int = DRAWS) -> Floats:
    """Two-sided p-values of paired differences, one per column of [task, pair].

    Under the null a task's difference is as likely to point the other way. A zero says nothing and
    changes nothing, so a task that a pair does not share is put in as zero. Exact when 2^tasks is small.
    """
    rows = differences[np.any(differences != 0, axis=1)]
    observed = np.abs(rows.sum(axis=0)) - CLOSE
    tasks, hits = len(rows), np.zeros(differences.shape[1])
    if 2**tasks <= EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=tasks))).reshape(2**tasks, tasks)
        return np.asarray((np.abs(signs @ rows) >= observed).mean(axis=0), dtype=np.float64)
    rng, step = np.random.default_rng(seed), 1000
    for start in range(0, draws, step):
        size = min(step, draws - start)
        signs = 2.0 * rng.integers(0, 2, size=(size, tasks), dtype=np.int8) - 1.0
        hits += (np.abs(signs @ rows) >= observed).sum(axis=0)
    return np.asarray((1 + hits) / (1 + draws), dtype=np.float64)


def adjusted(p_values: Sequence[float] | Floats) -> Floats:
    """Benjamini and Hochberg's adjustment for many comparisons; one comparison stays as it is."""
    if len(p_values) == 0:
        return np.zeros(0)
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(-p)
    scaled = p[order] * len(p) / np.arange(len(p), 0, -1)
    result = np.empty(len(p))
    result[order] = np.minimum(1.0, np.minimum.accumulate(scaled))
    return result


def stratified_sum(cells: Sequence[Cell]) -> float:
    """Sum over bands of w (mean old - mean new) with w = n1 n2 / (n1 + n2); bands with one era only
    weigh nothing."""
    parts = [
        len(c.old) * len(c.new) / (len(c.old) + len(c.new)) * (c.old.mean() - c.new.mean())
        for c in cells
        if len(c.old) and len(c.new)
    ]
    return math.fsum(parts)


def label_shuffles(cells: Sequence[Cell], *, seed: int, draws: int = DRAWS) -> tuple[float, bool]:
    """Two-sided p-value of the stratified difference under shuffled era labels inside each band, and
    whether it is exact.

    The unit that is shuffled is the task. A random subset of a band's tasks, of the size of its old
    era, is drawn as counts of equal outcomes (a multivariate hypergeometric draw) when few outcomes
    differ, which is the same distribution at a fraction of the time.
    """
    used = [cell for cell in cells if len(cell.old) and len(cell.new)]
    if not used:
        return 1.0, True
    observed = abs(stratified_sum(used)) - CLOSE
    arrangements = math.prod(math.comb(len(c.old) + len(c.new), len(c.old)) for c in used)
    if arrangements <= EXACT:
        sums = np.zeros(1)
        for cell in used:
            sums = np.add.outer(sums, _all_subsets(cell)).ravel()
        return float((np.abs(sums) >= observed).mean()), True
    rng = np.random.default_rng(seed)
    total = np.zeros(draws)
    for cell in used:
        total += _drawn_subsets(cell, rng, draws)
    return float((1 + (np.abs(total) >= observed).sum()) / (1 + draws)), False


def _scaled(cell: Cell, old_sums: Floats) -> Floats:
    """w (mean old - mean new) for sums over the old era: it is the old sum minus its expectation."""
    whole = math.fsum(cell.old) + math.fsum(cell.new)
    return old_sums - len(cell.old) * whole / (len(cell.old) + len(cell.new))


def _all_subsets(cell: Cell) -> Floats:
    values = np.concatenate([cell.old, cell.new])
    chosen = itertools.combinations(range(len(values)), len(cell.old))
    return _scaled(cell, np.array([math.fsum(values[list(subset)]) for subset in chosen]))


def _drawn_subsets(cell: Cell, rng: np.random.Generator, draws: int) -> Floats:
    values = np.concatenate([cell.old, cell.new])
    distinct, counts = np.unique(values, return_counts=True)
    size = len(cell.old)
    if len(distinct) <= 64:
        picked = rng.multivariate_hypergeometric(counts, size, size=draws, method="marginals")
        return _scaled(cell, picked @ distinct)
    sums = np.empty(draws)
    for start in range(0, draws, 500):
        block = rng.random((min(500, draws - start), len(values)), dtype=np.float32)
        chosen = np.argpartition(block, size - 1, axis=1)[:, :size]
        sums[start : start + len(block)] = values[chosen].sum(axis=1)
    return _scaled(cell, sums)
