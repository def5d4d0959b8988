"""The whole study of a set of runs: all entrants together, each model, and models against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from race.core.contamination.eras import EraTask, band_of
from race.core.contamination.gap import Gap, era_gap
from race.core.contamination.own_dates import OwnDates, own_dates
from race.core.permutation import DRAWS
from race.core.runs.grid import Grid

CUT = date(2026, 1, 1)
SEED = 20260101


@dataclass(frozen=True)
class Study:
    """`whole` pools all entrants at one cut, each with equal weight per task; `models` has each model at
    its own training cut-off where that is known (else at the common cut); `own` compares models.
    `uneven` counts tasks that not every entrant ran: their rates mix fewer entrants."""

    whole: Gap
    models: Mapping[str, Gap]
    known_cutoffs: Mapping[str, date]
    own: OwnDates
    without_date: int
    without_size: int
    without_runs: int
    uneven: int

    def as_json(self) -> dict[str, Any]:
        """As the command line documents it, and what was left out."""
        models = {}
        for name, gap in self.models.items():
            models[name] = gap.as_json() | {"own_cutoff": name in self.known_cutoffs}
        return self.whole.as_json() | {
            "models": models,
            "own_dates": self.own.as_json(),
            "left_out": {
                "without_date": self.without_date,
                "without_size": self.without_size,
                "without_runs": self.without_runs,
            },
            "uneven_tasks": self.uneven,
        }


def study_eras(
    entrants: Grid,
    by_model: Grid,
    *,
    cut: date = CUT,
    cutoffs: Mapping[str, date] | None = None,
    seed: int = SEED,
    draws: int = DRAWS,
    minimum_count: int = 5,
) -> Study:
    """Study the same runs counted by entrant and by model. A task takes part when it has a merge date, a
    fix size and a counted run."""
    known = {name: day for name, day in (cutoffs or {}).items() if name in by_model.entrants}
    tasks = entrants.tasks
    dated = np.array([task.merged is not None for task in tasks], dtype=np.bool_)
    sized = np.array([task.fix_lines is not None for task in tasks], dtype=np.bool_)
    ran = (entrants.attempts > 0).any(axis=1)
    complete = (entrants.attempts > 0).all(axis=1)
    takes_part = dated & sized & ran
    shares = entrants.shares
    pooled = {index: float(np.nanmean(shares[index])) for index in np.flatnonzero(takes_part).tolist()}
    whole = era_gap(_tasks(entrants, pooled), cut, seed=seed, draws=draws, minimum_count=minimum_count)
    model_shares = by_model.shares
    models = {}
    for column, name in enumerate(by_model.entrants):
        mine = {
            index: float(model_shares[index, column])
            for index in np.flatnonzero(takes_part & (by_model.attempts[:, column] > 0)).tolist()
        }
        models[name] = era_gap(
            _tasks(by_model, mine),
            known.get(name, cut),
            seed=seed,
            draws=draws,
            minimum_count=minimum_count,
        )
    return Study(
        whole=whole,
        models=models,
        known_cutoffs=known,
        own=_compare_models(by_model, takes_part, known, seed, draws),
        without_date=int((~dated).sum()),
        without_size=int((dated & ~sized).sum()),
        without_runs=int((dated & sized & ~ran).sum()),
        uneven=int((takes_part & ~complete).sum()),
    )


def _tasks(grid: Grid, outcomes: Mapping[int, float]) -> list[EraTask]:
    found = []
    for index, outcome in outcomes.items():
        task = grid.tasks[index]
        if task.merged is not None and task.fix_lines is not None:
            found.append(EraTask(task.instance_id, task.merged, task.fix_lines, outcome))
    return found


def _compare_models(
    grid: Grid, takes_part: np.ndarray[Any, Any], known: Mapping[str, date], seed: int, draws: int
) -> OwnDates:
    """Only tasks that every model with a known cut-off ran."""
    columns = [column for column, name in enumerate(grid.entrants) if name in known]
    chosen = takes_part & (grid.attempts[:, columns] > 0).all(axis=1)
    rows = np.flatnonzero(chosen).tolist() if columns else []
    picked = [grid.tasks[row] for row in rows]
    return own_dates(
        grid.shares[np.ix_(rows, columns)],
        [task.merged.toordinal() for task in picked if task.merged is not None],
        [known[grid.entrants[column]].toordinal() for column in columns],
        [band_of(task.fix_lines) for task in picked if task.fix_lines is not None],
        seed=seed,
        draws=draws,
    )
