"""Difference in differences across models with different training cut-offs.

Memorisation must follow each model's own date; a drift in difficulty moves all models alike. Every task
gets an effect of its own (which takes in drift and difficulty) and every model one (its skill); what is
left of the tasks merged before a model's own cut-off is the effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from race.core.contamination.words import did_sentence
from race.core.intervals import student_quantile
from race.core.permutation import CLOSE, DRAWS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OwnDates:
    """The effect of lying before a model's own cut-off, with an interval clustered by task and a
    permutation p-value (dates shuffled among tasks of one band). `estimate` is None with a `sentence`
    that says why, when the models or tasks do not allow it."""

    estimate: float | None
    low: float | None
    high: float | None
    p: float | None
    models: int
    tasks: int
    sentence: str

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def own_dates(
    outcomes: Floats, merged: Sequence[int], cutoffs: Sequence[int], bands: Sequence[str],
    *, seed: int, draws: int = DRAWS,
) -> OwnDates:  # fmt: skip
    """Estimate the effect from outcomes [task, model] without gaps; dates are ordinals."""
    tasks, models = outcomes.shape if outcomes.ndim == 2 else (0, 0)

    def nothing(why: str) -> OwnDates:
        return OwnDates(None, None, None, None, models, tasks, why)

    if models < 2 or len(set(cutoffs)) < 2:
        return nothing("Fewer than two models with different cut-offs, so no comparison between them.")
    seen = np.asarray(merged)[:, None] < np.asarray(cutoffs)[None, :]
    treated = _within(seen.astype(np.float64))
    weight = float((treated**2).sum())
    if tasks < 3 or weight <= 1e-12:
        return nothing("No task was merged between the models' cut-offs, so no comparison between them.")
    estimate = float((treated * outcomes).sum()) / weight
    residual = _within(outcomes) - estimate * treated
    score = (treated * residual).sum(axis=1)
    error = math.sqrt(float((score**2).sum()) * tasks / (tasks - 1)) / weight
    half = student_quantile(0.975, tasks - 1) * error
    p = _shuffled_p(treated, outcomes, bands, seed, draws)
    low, high = (estimate - half, estimate + half) if error > 0 else (None, None)
    sentence = did_sentence(estimate, low, high, p, models)
    return OwnDates(estimate, low, high, p, models, tasks, sentence)


def _within(values: Floats) -> Floats:
    """Deviations from task and model means."""
    means = values.mean(axis=1, keepdims=True) + values.mean(axis=0, keepdims=True)
    return np.asarray(values - means + values.mean(), dtype=np.float64)


def _shuffled_p(treated: Floats, outcomes: Floats, bands: Sequence[str], seed: int, draws: int) -> float:
    """Rows of `treated` are few distinct ones (one per stretch between cut-offs), so a shuffle is a
    shuffle of the stretches' numbers."""
    rows, stretch = np.unique(treated.round(12), axis=0, return_inverse=True)
    stretch = stretch.ravel()
    worth = outcomes @ rows.T
    observed = abs(float(worth[np.arange(len(stretch)), stretch].sum())) - CLOSE
    rng = np.random.default_rng(seed)
    sums = np.zeros(draws)
    labels = np.asarray(bands)
    for band in sorted(set(bands)):
        inside = np.flatnonzero(labels == band)
        for start in range(0, draws, 500):
            size = min(500, draws - start)
            order = rng.permuted(np.tile(stretch[inside], (size, 1)), axis=1)
            sums[start : start + size] += worth[inside[None, :], order].sum(axis=1)
    return float((1 + (np.abs(sums) >= observed).sum()) / (1 + draws))
