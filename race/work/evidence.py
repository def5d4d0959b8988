"""Keeps in the ledger what validation saw: outcomes per run, times, excerpts, stacks, output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from race.core.matrix import CELLS, Cell
from race.core.outcomes import Observation
from race.core.records import canonical
from race.store import TaskFolder
from race.work.matrix_runs import MatrixRuns

EXCERPTS = 300
SHORT = 4000


def keep_matrix(task: TaskFolder, ran: MatrixRuns) -> None:
    """matrix.json: how every run ended, and every test's outcomes and slowest time with the fix."""
    cells = {
        cell: [
            {
                "ended": seen.ended,
                "seconds": seen.seconds,
                "tests": len(seen.tests),
                "processes": seen.processes,
                "pytest": seen.pytest,
                "python": seen.python,
                "uncollectable": {path: one.message[:300] for path, one in seen.uncollectable.items()},
            }
            for seen in observations
        ]
        for cell, observations in ran.cells.items()
    }
    runs = ran.outcomes()
    ids = sorted({i for cell in CELLS for run in runs.get(cell, ()) for i in run.outcomes})
    tests = {
        test_id: {
            "outcomes": {
                cell: [run.of(test_id) for run in runs[cell]] for cell in CELLS if runs.get(cell)
            },
            "seconds": slowest(ran.cells.get("new-with", ()), test_id),
        }
        for test_id in ids
    }
    task.evidence("validate/matrix.json", canonical({"cells": cells, "tests": tests}))
    for cell, observations in ran.cells.items():
        for number, seen in enumerate(observations):
            if seen.output.strip():
                task.evidence(f"validate/{cell}-{number}.log", seen.output.encode(errors="replace"))


def keep_excerpts(task: TaskFolder, ran: MatrixRuns, ids: Iterable[str]) -> None:
    """excerpts.json: for each of these ids, the first failure of each cell with traceback and stacks."""
    kept: dict[str, dict[str, Any]] = {}
    for test_id in list(ids)[:EXCERPTS]:
        shown: dict[str, Any] = {
            cell: found for cell in CELLS if (found := _first_failure(ran, cell, test_id))
        }
        if shown:
            kept[test_id] = shown
    task.evidence("validate/excerpts.json", canonical(kept))


def _first_failure(ran: MatrixRuns, cell: Cell, test_id: str) -> dict[str, Any] | None:
    for number, seen in enumerate(ran.cells.get(cell, ())):
        test = seen.tests.get(test_id)
        if test is not None and test.outcome not in ("passed", "skipped"):
            return {
                "run": number,
                "outcome": test.outcome,
                "phase": test.phase,
                "message": test.message[:SHORT],
                "excerpt": test.excerpt[-SHORT:],
                "stacks": test.stacks[:20000],
            }
        lost = seen.uncollectable.get(test_id.split("::", 1)[0])
        if test is None and lost is not None:
            return {
                "run": number,
                "outcome": "missing",
                "phase": "collect",
                "message": lost.message[:SHORT],
                "excerpt": lost.excerpt[-SHORT:],
                "stacks": lost.stacks[:20000],
            }
    return None


def slowest(observations: Iterable[Observation], test_id: str) -> float | None:
    """The longest that a test took in these runs, or None when it is in none."""
    times = [seen.tests[test_id].seconds for seen in observations if test_id in seen.tests]
    return round(max(times), 3) if times else None


@dataclass(frozen=True)
class Durations:
    """What tests took at most in the cells with new tests: without the fix, to pass, and to end."""

    without: Mapping[str, float]
    passes: Mapping[str, float]
    ends: Mapping[str, float]


def durations(ran: MatrixRuns) -> Durations:
    """How long the tests of a matrix took; one that was ended at its limit has not come to an end."""
    new: tuple[Cell, ...] = ("new-with", "new-without")
    without: dict[str, float] = {}
    passes: dict[str, float] = {}
    ends: dict[str, float] = {}
    for cell in new:
        for test_id, test in (entry for seen in ran.cells[cell] for entry in seen.tests.items()):
            kinds = [without] if cell == "new-without" else []
            kinds += [passes] if test.outcome == "passed" else []
            kinds += [ends] if test.outcome != "hang" else []
            for kind in kinds:
                kind[test_id] = max(kind.get(test_id, 0.0), test.seconds)
    return Durations(without, passes, ends)
