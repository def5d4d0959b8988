"""Runs the matrix: every cell the asked number of times, each in a fresh container."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from race.core.classify import Run
from race.core.matrix import CELLS, Cell, Change, Suite, cell_paths, schedule
from race.core.outcomes import Observation, Plan
from race.core.test_ids import in_file
from race.errors import Rejection
from race.ports import Engine
from race.work.cells import Subject, open_cell, reached_end
from race.work.observing import observe


class Stopped(Exception):
    """The matrix ends; what this run would show is not needed."""


@dataclass(frozen=True)
class MatrixRuns:
    """What the matrix showed: the suite that was run, and one observation per cell and run."""

    suite: Suite
    cells: Mapping[Cell, list[Observation]]

    def outcomes(self) -> dict[Cell, list[Run]]:
        """The same as classification reads it; tests of a file that skips itself are skipped."""
        ids = {i for observations in self.cells.values() for seen in observations for i in seen.tests}
        return {
            cell: [Run(_words(seen, ids), reached_end(seen)) for seen in observations]
            for cell, observations in self.cells.items()
        }


def _words(seen: Observation, ids: Collection[str]) -> dict[str, str]:
    skipped = {path for path, one in seen.uncollectable.items() if one.skipped}
    left_out = {i: "skipped" for i in ids if in_file(i) in skipped} if skipped else {}
    return left_out | {i: test.outcome for i, test in seen.tests.items()}


def plan_of(subject: Subject, paths: tuple[str, ...], **changes: object) -> Plan:
    """A run of test files in a subject's way."""
    values: dict[str, object] = {
        "files": paths,
        "arguments": subject.arguments,
        "environment": subject.environment,
        "test_seconds": subject.test_seconds,
        "run_seconds": subject.run_seconds,
        "output_bytes": subject.output_bytes,
    }
    return Plan(**(values | changes))  # type: ignore[arg-type]


def observe_cell(
    engine: Engine, subject: Subject, cell: Cell, plan: Plan, stop: threading.Event | None = None
) -> Observation:
    """One run of one cell. Raises Rejection when the image has no working interpreter with pytest."""

    def on_event(_: dict[str, object]) -> None:
        if stop is not None and stop.is_set():
            raise Stopped

    if stop is not None and stop.is_set():
        raise Stopped
    with open_cell(engine, subject, cell, lifetime=plan.run_seconds + 300) as container:
        seen = observe(container, plan, on_event)
    if seen.ended == "no-interpreter":
        raise Rejection(
            "no-interpreter", "the environment cannot start its test runner", seen.output[-500:]
        )
    return seen


def run_matrix(
    engine: Engine,
    subject: Subject,
    touched: Suite,
    whole: Suite | None,
    changes: Mapping[str, Change],
    *,
    runs: int,
    suite_seconds: float,
    say: Callable[[str], None],
    settled: Suite | None = None,
) -> MatrixRuns:
    """Every cell `runs` times, as many at once as the machine has cores.

    The first run has fix and new tests and the whole suite, under the budget `suite_seconds`; when it
    does not fit, the touched files alone are run. `settled` is a choice made before, which is kept.
    """
    seen: dict[Cell, list[Observation | None]] = {cell: [None] * runs for cell in CELLS}
    suite = settled or touched
    if settled is None and whole is not None and suite_seconds > 0:
        say("measuring the whole suite")
        suite, seen["new-with"][0] = _widest(engine, subject, touched, whole, suite_seconds)
    wanted = {
        (cell, run): plan_of(subject, paths)
        for cell, run in schedule(runs)
        if seen[cell][run] is None and (paths := cell_paths(suite, cell, changes)) is not None
    }
    for (cell, run), one in _all(engine, subject, wanted, say).items():
        seen[cell][run] = one
    return MatrixRuns(
        suite, {cell: [one for one in row if one is not None] for cell, row in seen.items()}
    )


def _widest(
    engine: Engine, subject: Subject, touched: Suite, whole: Suite, suite_seconds: float
) -> tuple[Suite, Observation | None]:
    """The whole suite and its first run when it fits the budget, else the touched files."""
    limit = min(suite_seconds, subject.run_seconds)
    plan = plan_of(subject, whole.paths, run_seconds=limit)
    first = observe_cell(engine, subject, "new-with", plan)
    if first.ended == "finished" and first.tests:
        return Suite(width="whole", paths=whole.paths, why=f"it fits into {suite_seconds:g} s"), first
    why = f"the whole suite does not fit into {suite_seconds:g} s"
    return Suite(width="touched", paths=touched.paths, why=why), None


def _all(
    engine: Engine,
    subject: Subject,
    wanted: Mapping[tuple[Cell, int], Plan],
    say: Callable[[str], None],
) -> dict[tuple[Cell, int], Observation]:
    """Run the plans of cells, each in its own container; the first failure ends the others."""
    stop = threading.Event()
    done: dict[tuple[Cell, int], Observation] = {}

    def one(cell: Cell, run: int, plan: Plan) -> None:
        try:
            done[cell, run] = observe_cell(engine, subject, cell, plan, stop)
        except BaseException:
            stop.set()
            raise
        say(f"matrix: {len(done)} of {len(wanted)} runs")

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        futures = [pool.submit(one, cell, run, plan) for (cell, run), plan in wanted.items()]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            stop.set()
            raise
    _raise_first(futures)
    return done


def _raise_first(futures: list[Future[None]]) -> None:
    """The first real failure of the runs, not the ones that stopped because of it."""
    failed = [error for future in futures if not future.cancelled() and (error := future.exception())]
    for error in failed:
        if not isinstance(error, Stopped):
            raise error
    if failed:
        raise failed[0]
