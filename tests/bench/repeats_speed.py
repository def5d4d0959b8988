"""What all repeats cost of a task whose fail-to-pass tests take a given time.

    .venv/bin/python tests/bench/repeats_speed.py [--seconds 0.2] [--tests 1] [--waits] [--hangs 0]

Validates a made project in containers by the default settings (59 plain repeats each way and one each
way under each perturbation); needs an engine. The tests compute for that long with and without the
fix, or wait when --waits is given. Of them, --hangs hang without the fix. Goal: under 90 s on two
cores for tests of 0.2 s.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from pathlib import Path
from types import ModuleType

from race.core.hangs import limit_without
from race.core.reliability import variants_for
from race.ports import Limits
from race.settings import ReliabilitySection, read_workspace
from race.work.cells import Subject
from race.work.repeating import repeat
from race.work.trials import Work
from race.workbench import Workbench

FILE = "tests/test_made.py"
HEAD = """\
import threading, time
from gate import FIXED

def spend(seconds, waits):
    end = time.process_time() + seconds
    if waits:
        time.sleep(seconds)
    while not waits and time.process_time() < end:
        pass

def hang():
    if not FIXED:
        threading.Event().wait()
"""


def fixtures() -> ModuleType:
    """tests/validate/conftest.py, which makes the project's image."""
    path = Path(__file__).parents[1] / "validate" / "conftest.py"
    spec = importlib.util.spec_from_file_location("validate_fixtures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.2, help="what all the tests take together")
    parser.add_argument("--tests", type=int, default=1)
    parser.add_argument("--waits", action="store_true", help="wait instead of computing")
    parser.add_argument("--hangs", type=int, default=0, help="so many more tests hang without the fix")
    options = parser.parse_args()
    each = options.seconds / max(options.tests, 1)
    source = HEAD + "".join(
        f"\ndef test_{n}():\n    spend({each}, {options.waits})\n    assert FIXED\n"
        for n in range(options.tests)
    )
    source += "".join(f"\ndef test_hang_{n}():\n    hang()\n" for n in range(options.hangs))
    ids = [f"{FILE}::test_{n}" for n in range(options.tests)]
    hung = [f"{FILE}::test_hang_{n}" for n in range(options.hangs)]
    ids += hung
    made = fixtures()
    bench = Workbench(read_workspace(Path.cwd(), {}))
    with tempfile.TemporaryDirectory() as folder:
        image = made.build_gate_image(bench, Path(folder), "9")
    subject = Subject(
        image, made.FIX.encode(), made.adding({FILE: source}), Limits(memory_mb=512, pids=128)
    )
    settings = ReliabilitySection()
    limit = limit_without(subject.test_seconds, settings.hang_seconds, each, each)
    work = Work(
        bench.engine, subject, "made__made-1", settings, variants_for(len(ids), uvloop=False),
        slow_ids=frozenset(hung), slow_seconds=limit, empty_seconds=limit,
    )  # fmt: skip
    load = os.getloadavg()[0]
    done = repeat(work, ids)
    bounded = "bounded" if done.bounds is not None else f"dropped: {done.out}"
    print(
        f"{options.tests} tests of {each:g} s, {options.hangs} that hang without the fix: "
        f"{done.runs} repeats in {done.seconds:.1f} s, {bounded} "
        f"(load before {load:.1f} on {os.cpu_count()} cores)"
    )


if __name__ == "__main__":
    main()
