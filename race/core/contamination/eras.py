"""Tasks with a merge date and the size of their fix, sorted into bands and eras."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

import numpy as np

from race.core.permutation import Cell

BANDS: tuple[tuple[str, int | None], ...] = (
    ("<=10", 10),
    ("11-50", 50),
    ("51-200", 200),
    (">200", None),
)
"""Names of the bands, each with the largest number of changed lines in it."""


@dataclass(frozen=True)
class EraTask:
    """One task's outcome (share of resolved attempts, 0..1) with what it is compared by."""

    instance_id: str
    merged: date
    fix_lines: int
    outcome: float


def band_of(fix_lines: int) -> str:
    """The band of a fix with so many changed lines."""
    return next(name for name, most in BANDS if most is None or fix_lines <= most)


def cells_of(tasks: Iterable[EraTask], cut: date) -> dict[str, Cell]:
    """Band -> outcomes of tasks merged before the cut, and on or after it, in order of their ids."""
    ordered = sorted(tasks, key=lambda task: task.instance_id)
    cells = {}
    for name, _ in BANDS:
        inside = [task for task in ordered if band_of(task.fix_lines) == name]
        cells[name] = Cell(
            np.array([task.outcome for task in inside if task.merged < cut], dtype=np.float64),
            np.array([task.outcome for task in inside if task.merged >= cut], dtype=np.float64),
        )
    return cells
