"""Runs the matrix: every cell the asked number of times, each in a fresh container."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from race.core.failure_text import normalise
from race.core.matrix import CELLS, Cell, Change, Suite, cell_paths, next_run, schedule
from race.core.outcomes import Observation, Plan, own_fault, unusable_runner
from race.core.standing import Run
from race.core.test_ids import in_file
from race.errors import Accident, Rejection
from race.ports import Engine
from race.work.cells import WAITING, Subject, open_cell, patches_of, patching, reached_end
from race.work.observing import observe
from race.work.pace import Pace

Key = tuple[Cell, int]


class Stopped(Exception):
    """The matrix ends; what this run would show is not needed."""


class Hopeless(Exception):
    """A run that only measures cannot end within its limit."""


@dataclass(frozen=True)
class MatrixRuns:
    """What the matrix showed: the suite that was run, and one observation per cell and run."""

    suite: Suite
    cells: Mapping[Cell, list[Observation]]
    measuring_seconds: float = 0.0
    """What a run of the whole suite took that did not fit."""

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
    engine: Engine,
    subject: Subject,
    cell: Cell,
    plan: Plan,
    stop: threading.Event,
    pace: Pace | None = None,
) -> Observation:
    """One run of one cell. Raises Rejection when the image has no working interpreter with pytest.

    A run that loses its pace is cut off.
    """

    def on_event(event: dict[str, object]) -> None:
        if stop.is_set():
            raise Stopped
        if pace is not None and pace.hopeless(event):
            raise Hopeless

    if stop.is_set():
        raise Stopped
    patches = patching(patches_of(subject, cell))
    lifetime = plan.run_seconds + WAITING
    with open_cell(engine, subject, cell, lifetime=lifetime, patched=False) as container:
        if stop.is_set():
            raise Stopped
        try:
            seen = observe(container, plan, on_event, patches)
        except Hopeless:
            return Observation({}, (), {}, "cut-off")
    if seen.ended in ("no-interpreter", "collection-failed"):
        if fault := own_fault(seen.output):
            raise Accident(f"the grader itself failed where tests are to be run: {fault[:300]}")
        if lacking := unusable_runner(seen.output):
            raise Rejection(
                "unusable-runner",
                "the environment's pytest cannot be driven: the grader needs pytest 7 or later",
                normalise(lacking),
            )
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
    with _Crew(engine, subject, say) as crew:
        if settled is None and whole is not None and suite_seconds > 0:
            suite = crew.measure(touched, whole, suite_seconds, changes)
        else:
            suite = settled or touched
        for cell, run in schedule(runs):
            if (paths := cell_paths(suite, cell, changes)) is not None:
                crew.want(cell, run, plan_of(subject, paths))
        done = crew.work()
    cells = {cell: [done[cell, run] for run in range(runs) if (cell, run) in done] for cell in CELLS}
    return MatrixRuns(suite, cells, crew.measuring_seconds)


class _Crew:
    """Threads that run cells, each in its own container; the first failure ends all.

    There is one thread more than slots of the machine: it makes the next container meanwhile.
    """

    def __init__(self, engine: Engine, subject: Subject, say: Callable[[str], None]) -> None:
        self._engine, self._subject, self._say = engine, subject, say
        self._stop, self._guess_stop = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._wanted: dict[Key, Plan] = {}
        self._done: dict[Key, Observation] = {}
        self._asked = 0
        self._guesses: dict[Key, Future[Observation]] = {}
        self._workers = (os.cpu_count() or 1) + 1
        self._pool = ThreadPoolExecutor(max_workers=self._workers)
        self.measuring_seconds = 0.0
        """What a run of the whole suite took that did not fit."""

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *failed: object) -> None:
        if failed[0] is not None:
            self._stop.set()
            self._guess_stop.set()
        self._pool.shutdown(wait=True, cancel_futures=failed[0] is not None)

    def want(self, cell: Cell, run: int, plan: Plan) -> None:
        """Ask for a run, unless it was made or begun while the suite was measured."""
        if (cell, run) not in self._done and (cell, run) not in self._guesses:
            self._wanted[cell, run] = plan
        self._asked += 1

    def work(self) -> dict[Key, Observation]:
        """Run what is wanted; everything that was observed."""
        crew = [self._pool.submit(self._one_after_the_other) for _ in range(self._workers)]
        begun: list[Future[Any]] = [*crew, *self._guesses.values()]
        wait(begun, return_when=FIRST_EXCEPTION)
        if any(future.done() and future.exception() for future in begun):
            self._stop.set()
            wait(begun)
        _raise_first(begun)
        return self._done | {key: future.result() for key, future in self._guesses.items()}

    def _one_after_the_other(self) -> None:
        while True:
            with self._lock:
                if not self._wanted or self._stop.is_set():
                    return
                lasted = {cell: seen.seconds for (cell, _), seen in self._done.items()}
                key = next_run([*self._wanted], lasted)
                plan = self._wanted.pop(key)
            try:
                seen = observe_cell(self._engine, self._subject, key[0], plan, self._stop)
            except BaseException:
                self._stop.set()
                raise
            with self._lock:
                self._done[key] = seen
                self._say(f"matrix: {len(self._done)} of {self._asked} runs")

    def measure(
        self, touched: Suite, whole: Suite, suite_seconds: float, changes: Mapping[str, Change]
    ) -> Suite:
        """The whole suite when its first run fits the budget, else the touched files.

        Meanwhile a second run of the whole suite is begun, which counts when the suite fits.
        """
        self._say("measuring the whole suite")
        plan = plan_of(self._subject, whole.paths)
        other: Key = ("old-without", 0)
        paths = cell_paths(whole, other[0], changes)
        if paths is not None:
            guessed = plan_of(self._subject, paths)
            self._guesses[other] = self._pool.submit(
                observe_cell, self._engine, self._subject, other[0], guessed, self._guess_stop
            )
        limit = min(suite_seconds, self._subject.run_seconds)
        pace = Pace(limit)
        first = observe_cell(
            self._engine, self._subject, "new-with", replace(plan, run_seconds=limit), self._stop, pace
        )
        if first.ended == "finished" and first.tests:
            self._done["new-with", 0] = first
            return Suite(width="whole", paths=whole.paths, why=f"it fits into {suite_seconds:g} s")
        self._guess_stop.set()
        self._guesses.clear()
        self.measuring_seconds = first.seconds or pace.seconds
        why = f"the whole suite does not fit into {suite_seconds:g} s"
        if first.ended not in ("run-limit", "cut-off"):
            why = "the whole suite did not run to its end"
        return Suite(width="touched", paths=touched.paths, why=why)


def _raise_first(futures: list[Future[Any]]) -> None:
    """The first real failure of the runs, not the ones that stopped because of it."""
    failed = [error for future in futures if not future.cancelled() and (error := future.exception())]
    for error in failed:
        if not isinstance(error, Stopped):
            raise error
    if failed:
        raise failed[0]
