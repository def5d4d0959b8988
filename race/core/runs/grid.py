"""Runs counted per task and entrant: the one table that scores and statistics are computed from.

An entrant is whoever is compared: an agent, an agent with its model, or a model. Which rows count is
decided here, once, for all of them; the order of rows never matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from race.core.runs.counts import RunCounts
from race.core.runs.table import ENDED, NUMBERS, RunTable
from race.core.runs.tasks import TaskRow
from race.core.scripted import PREFIX
from race.core.soma.profile import DEFAULT, Profile
from race.errors import UsageError

By = Literal["agent", "entrant", "model"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """Counts and sums, each [task, entrant]; `ended` and `accidents` are per entrant.

    `tokens` sums weighted tokens over runs with a valid positive count (`tokens_n` of them),
    `tokens_resolved` over resolved runs with a valid count. `cost`, `steps`, `seconds` go with the
    number of runs that told them.
    """

    tasks: tuple[TaskRow, ...]
    entrants: tuple[str, ...]
    attempts: Ints
    resolved: Ints
    tokens: Floats
    tokens_n: Ints
    tokens_resolved: Floats
    tokens_resolved_n: Ints
    cost: Floats
    cost_n: Ints
    steps: Floats
    steps_n: Ints
    seconds: Floats
    seconds_n: Ints
    ended: Ints
    accidents: Ints

    @property
    def shares(self) -> Floats:
        """Each task's share of resolved attempts; NaN where an entrant has no run."""
        with np.errstate(invalid="ignore"):
            return np.where(self.attempts > 0, self.resolved / np.maximum(self.attempts, 1), np.nan)


def entrant_names(table: RunTable, by: By) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Sorted names of entrants and each row's index into them.

    Without a model an entrant is its agent; a scripted agent has none.
    """
    agents, models = np.array(table.agents or [""]), np.array(table.models or [""])
    pair = table.agent.astype(np.int64) * len(models) + table.model
    distinct, inverse = np.unique(pair, return_inverse=True)
    labels = []
    for code in distinct.tolist():
        agent, model = str(agents[code // len(models)]), str(models[code % len(models)])
        if by == "agent" or not model or agent.startswith(PREFIX):
            labels.append(agent)
        else:
            labels.append(model if by == "model" else f"{agent} + {model}")
    names = sorted(set(labels))
    place = {name: index for index, name in enumerate(names)}
    codes = np.array([place[label] for label in labels], dtype=np.int64)
    return tuple(names), codes[inverse] if len(labels) else np.zeros(0, dtype=np.int64)


def build_grid(
    table: RunTable,
    tasks: Sequence[TaskRow],
    *,
    by: By,
    counts: RunCounts,
    profile: Profile = DEFAULT,
) -> Grid:
    """Count every run that takes part and say in `counts` what became of the others.

    Raises UsageError when one attempt is told twice with different results, naming both lines.
    """
    ordered = tuple(sorted(tasks, key=lambda task: task.instance_id))
    known = {task.instance_id: index for index, task in enumerate(ordered)}
    place = np.array([known.get(name, -1) for name in table.tasks] or [-1], dtype=np.int64)
    task = place[table.task] if len(table) else np.zeros(0, dtype=np.int64)
    names, entrant = entrant_names(table, by)
    weighted = table.weighted_tokens(profile)
    accident = table.ended == ENDED.index("accident")
    kept = _counted(table, task, entrant, weighted, counts)

    cells = _Cells(task[kept], entrant[kept], (len(ordered), len(names)))
    resolved, spent = table.resolved[kept], weighted[kept]
    valid, every = spent > 0, np.ones(len(kept), dtype=np.bool_)
    won = resolved & ~np.isnan(spent)
    sums: dict[str, Any] = {}
    for field, column in (("cost", "cost_usd"), ("steps", "steps"), ("seconds", "seconds")):
        values = table.numbers[column][kept]
        told = ~np.isnan(values)
        sums |= {field: cells.total(values, told), f"{field}_n": cells.number(told)}
    ended = np.zeros((len(names), len(ENDED)), dtype=np.int64)
    told = table.ended[kept] >= 0
    np.add.at(ended, (entrant[kept][told], table.ended[kept][told]), 1)
    return Grid(
        tasks=ordered,
        entrants=names,
        attempts=cells.number(every),
        resolved=cells.number(resolved),
        tokens=cells.total(spent, valid),
        tokens_n=cells.number(valid),
        tokens_resolved=cells.total(spent, won),
        tokens_resolved_n=cells.number(won),
        ended=ended,
        accidents=np.bincount(entrant[accident], minlength=len(names)).astype(np.int64),
        **sums,
    )


class _Cells:
    """Adds runs up, each in the cell of its task and entrant."""

    def __init__(self, task: Ints, entrant: Ints, shape: tuple[int, int]) -> None:
        self._shape, self._cell = shape, task * shape[1] + entrant

    def number(self, mask: NDArray[np.bool_]) -> Ints:
        """How many of the runs that the mask chooses."""
        size = self._shape[0] * self._shape[1]
        found = np.bincount(self._cell[mask], minlength=size)
        return found.reshape(self._shape).astype(np.int64)

    def total(self, values: Floats, mask: NDArray[np.bool_]) -> Floats:
        """The sum of their values."""
        size = self._shape[0] * self._shape[1]
        sums = np.bincount(self._cell[mask], weights=values[mask], minlength=size)
        return sums.astype(np.float64).reshape(self._shape)


def _counted(
    table: RunTable, task: Ints, entrant: Ints, weighted: Floats, counts: RunCounts
) -> NDArray[np.intp]:
    """The rows that take part, in an order that does not depend on the file's; the rest is counted."""
    accident = table.ended == ENDED.index("accident")
    unknown = (task < 0) & ~accident
    kept = np.flatnonzero(~accident & ~unknown)
    kept = kept[np.lexsort((weighted[kept], table.attempt[kept], entrant[kept], task[kept]))]
    kept, repeated = _without_repeats(table, kept)
    counts.rows += len(table)
    counts.accidents += int(accident.sum())
    counts.unknown_task += int(unknown.sum())
    counts.duplicates += repeated
    counts.counted += len(kept)
    counts.unknown_tasks = sorted({table.tasks[code] for code in np.unique(table.task[unknown])})
    absent = np.isnan(table.numbers["input_tokens"]) | np.isnan(table.numbers["output_tokens"])
    without = np.isnan(weighted[kept])
    counts.tokens_missing += int((without & absent[kept]).sum())
    counts.tokens_invalid += int((without & ~absent[kept]).sum())
    counts.cost_missing += int(np.isnan(table.numbers["cost_usd"][kept]).sum())
    return kept


def _without_repeats(table: RunTable, kept: NDArray[np.intp]) -> tuple[NDArray[np.intp], int]:
    """Rows without those that tell an attempt a second time; runs without a number are all their own."""
    keys = (table.task[kept], table.agent[kept], table.model[kept], table.attempt[kept])
    order = np.lexsort(keys[::-1])
    same = np.ones(max(0, len(kept) - 1), dtype=np.bool_)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    same &= table.attempt[kept][order][1:] >= 0
    later = np.flatnonzero(same) + 1
    if not len(later):
        return kept, 0
    rows, before = kept[order[later]], kept[order[later - 1]]
    differs = table.resolved[rows] != table.resolved[before]
    for name in NUMBERS:
        one, other = table.numbers[name][rows], table.numbers[name][before]
        differs |= ~((one == other) | (np.isnan(one) & np.isnan(other)))
    if differs.any():
        bad = int(np.argmax(differs))
        row, first = int(rows[bad]), int(before[bad])
        places = sorted((int(table.line[first]), int(table.line[row])))
        raise UsageError(
            f"task {table.tasks[table.task[row]]}: attempt {table.attempt[row]} of agent "
            f"{table.agents[table.agent[row]]} is told twice with different results "
            f"(lines {places[0]} and {places[1]})"
        )
    left = np.ones(len(kept), dtype=np.bool_)
    left[order[later]] = False
    return kept[left], len(later)
