"""What validation's matrix and repeats cost beside the tests themselves, one task at a time.

    .venv/bin/python tests/bench/matrix_speed.py RELEASE ID [ID ...] [--repeats] [--suite-seconds 60]

For tasks that are validated already; nothing is recorded. Goals: the matrix within 1.3 times the sum
of its pytest runs over the cores; all repeats of tests that take 0.2 s within 90 s on two cores.

The sum of the pytest runs is told twice: as the grader's forked processes took it (pytest and its
plugins are imported before the fork, which is not in it), and as plain `python -m pytest` takes it in a
container that runs already, once for each cell.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from race.core.matrix import touched_files, touched_suite, whole_suite
from race.core.reliability import variants_for
from race.core.validated import Validated
from race.settings import read_workspace
from race.store import Store
from race.work.cells import Subject, open_cell
from race.work.matrix_runs import MatrixRuns, run_matrix
from race.work.repeating import repeat
from race.work.replaying import prepared_again
from race.work.trials import Work
from race.work.validating import subject_of
from race.workbench import Workbench


def main() -> None:
    """Measure and print, a line a task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("release", type=Path)
    parser.add_argument("ids", nargs="+")
    parser.add_argument("--repeats", action="store_true", help="the repeats as well")
    parser.add_argument("--suite-seconds", type=float, default=60.0, help="budget of the whole suite")
    arguments = parser.parse_args()
    bench = Workbench(read_workspace(Path.cwd(), dict(os.environ)))
    store = Store(arguments.release)
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for instance_id in arguments.ids:
        print(line(bench, store, instance_id, arguments.suite_seconds, arguments.repeats), flush=True)


def line(bench: Workbench, store: Store, instance_id: str, suite_seconds: float, repeats: bool) -> str:
    """One task's figures."""
    task, settings = store.task(instance_id), store.settings.validate_
    record = task.read(Validated)
    if record is None or not record.accepted:
        return f"{instance_id}: not validated or not accepted"
    prepared = prepared_again(bench, store, task, record)
    subject = subject_of(prepared, settings)
    touched = touched_suite(prepared.test_patch)
    started = time.monotonic()
    ran = run_matrix(
        bench.engine, subject, touched, whole_suite(touched), touched_files(prepared.test_patch),
        runs=settings.runs, suite_seconds=suite_seconds, say=lambda _: None,
    )  # fmt: skip
    wall = time.monotonic() - started
    cores = os.cpu_count() or 1
    runs = [seen.seconds for row in ran.cells.values() for seen in row]
    forked = (ran.measuring_seconds + sum(runs)) / cores
    said = (
        f"{instance_id}: {ran.suite.width} suite, {len(runs)} runs of {min(runs):.2f} to "
        f"{max(runs):.2f} s: matrix {wall:.1f} s, {wall / forked:.2f} times its forked runs"
    )
    if not any(
        test.outcome == "hang" for row in ran.cells.values() for x in row for test in x.tests.values()
    ):
        plain = plain_seconds(bench, subject, ran) / cores
        said += f", {wall / plain:.2f} times plain pytest"
    if not repeats:
        return said
    ids = record.fail_to_pass
    slowest = max(seen.tests[i].seconds for seen in ran.cells["new-with"] for i in ids)
    variants = variants_for(len(ids), uvloop=b"uvloop==" in prepared.lock)
    work = Work(bench.engine, subject, instance_id, settings.reliability, variants=variants)
    done = repeat(work, ids)
    return f"{said}; {done.runs} repeats, slowest test {slowest:.2f} s: {done.seconds:.1f} s"


def plain_seconds(bench: Workbench, subject: Subject, ran: MatrixRuns) -> float:
    """What plain pytest takes for the runs of this matrix: each cell once, times its runs."""
    total = 0.0
    for cell, row in ran.cells.items():
        if not row:
            continue
        paths = [
            path for path in ran.suite.paths if any(i.startswith(path) for x in row for i in x.tests)
        ]
        command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *subject.arguments, *paths]
        with open_cell(bench.engine, subject, cell) as container:
            done = container.run(command, timeout=subject.run_seconds, env=subject.environment)
        total += done.seconds * len(row)
    return total


if __name__ == "__main__":
    main()
