"""How many unreliable tasks validation drops, beside a plain check of three runs.

    .venv/bin/python tests/bench/detection_power.py [--simulated 20000] [--real 0] [--reliable 0]
        [--kept FILE] [--seconds 600]

Three tables. The first feeds drawn outcomes to the decision code and is labelled simulated. The second
is computed: how often chance drops a task whose fix fails now and then. The third generates real
lost-update races, whose chance to pass without the fix is known exactly because the interleaving is
drawn from a known number of equally likely ones, and validates each in containers (needs an engine; the
image of the project is made by tests/validate/conftest.py's recipe). A file of what was tried lets
several runs add up.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from race.core.classify import classify
from race.core.intervals import wilson
from race.core.matrix import touched_files, touched_suite
from race.core.reliability import plain_trials, trial, variants_for
from race.core.repeats import Perturbed, Series, pooled_out
from race.core.standing import Run
from race.core.text_table import percent, text_table
from race.core.validated import without, wobbling
from race.ports import Limits
from race.settings import ReliabilitySection, ValidateSection, read_workspace
from race.work.cells import Subject
from race.work.matrix_runs import run_matrix
from race.work.repeating import repeat
from race.work.trials import Work
from race.workbench import Workbench

RATES = (0.0, 0.05, 0.1, 0.25, 0.5)
RARE = (0.0, 0.00008, 0.0005, 0.001, 0.005, 0.01)
WAYS = 20
"""Equally likely interleavings of a generated race."""
RACE = """
import asyncio, contextlib, os
from gate import FIXED

WAYS, SAFE = {ways}, {safe}

async def add(box, lock, pause):
    async with lock if FIXED else contextlib.AsyncExitStack():
        value = box[0]
        for _ in range(pause):
            await asyncio.sleep(0)
        box[0] = value + 1

async def both(pause):
    box, lock = [0], asyncio.Lock()
    first = asyncio.create_task(add(box, lock, pause))
    for _ in range(SAFE):
        await asyncio.sleep(0)
    await asyncio.gather(first, asyncio.create_task(add(box, lock, 0)))
    return box[0]

def test_both_updates_count():
    pause = 1 + int.from_bytes(os.urandom(4), "big") % WAYS
    assert asyncio.run(both(pause)) == 2
"""
TEST = "tests/test_race.py"


def source(rate: float) -> str:
    """A race that passes without its fix with this chance, counted over all its interleavings."""
    for safe in range(WAYS + 2):
        text = RACE.format(ways=WAYS, safe=safe)
        names: dict[str, object] = {}
        exec(text.replace("from gate import FIXED", "FIXED = False"), names)
        both = names["both"]
        passes = sum(asyncio.run(both(1 + way)) == 2 for way in range(WAYS))  # type: ignore[operator]
        if passes == round(rate * WAYS):
            return text
    raise SystemExit(f"no generated race passes with probability {rate}")


def simulate(rate: float, draw: random.Random, settings: ReliabilitySection) -> tuple[bool, bool, int]:
    """One drawn task: dropped by three runs, dropped by the default, repeats of its tests paid."""

    def empty() -> dict[str, str]:
        return {"t": "passed" if draw.random() < rate else "failed"}

    found = classify(
        {"new-without": [Run(empty()) for _ in range(3)], "new-with": [Run({"t": "passed"})] * 3}
    )
    if not found.accepted:
        return True, True, 0
    plain = Series("without", ("t",), settings.repeats, settings.limit)
    for one in plain_trials(settings.seed, "x", "without", settings.repeats):
        plain.add(one, empty())
        if plain.enough:
            break
    if plain.verdict == "reject":
        return False, True, 2 * plain.whole.runs
    variants = variants_for(1, uvloop=False)
    perturbed = []
    for name in variants:
        series = Series("without", ("t",), settings.perturbed, 1.0)
        for index in range(settings.perturbed):
            series.add(trial(settings.seed, "x", "without", name, index), empty())
        perturbed.append(Perturbed(name, settings.perturbed, [], series))
    runs = 2 * (settings.repeats + len(variants) * settings.perturbed)
    return False, bool(pooled_out(plain, perturbed)), runs


def simulated(count: int) -> list[str]:
    """The first table."""
    rows = []
    for rate in RATES:
        draw = random.Random(f"detection power {rate}")
        seen = [simulate(rate, draw, ReliabilitySection()) for _ in range(count)]
        three, default = sum(one[0] for one in seen), sum(one[1] for one in seen)
        runs = statistics.mean(one[2] for one in seen)
        most = max(one[2] for one in seen)
        rows.append(
            [f"{rate:g}", str(count), percent(three / count), f"{100 * default / count:.2f}%",
             f"{runs:.0f}", str(most)]
        )  # fmt: skip
    head = ["passes without fix", "tasks", "three runs drop", "default drops", "repeats", "at most"]
    return [
        "Simulated outcomes through the real decision code:",
        *text_table(head, rows),
    ]


def computed() -> list[str]:
    """How reliable a task must be to be kept: one failure of its fix, plain or in the matrix, drops."""
    settings, runs = ReliabilitySection(), ValidateSection().runs
    needed = runs + settings.repeats
    rows = []
    for rate in RARE:
        lost = 1 - (1 - rate) ** needed
        rows.append([f"{rate:g}", f"{100 * lost:.2f}%", f"{200 * lost:.1f}"])
    head = ["the fix fails with probability", "dropped", "of 200 such tasks"]
    return [f"Computed, {needed} runs with the fix that must all pass:", *text_table(head, rows)]


def _fixtures() -> ModuleType:
    path = Path(__file__).parents[1] / "validate" / "conftest.py"
    spec = importlib.util.spec_from_file_location("validate_fixtures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Tried:
    """One generated race after its validation; a line of the file that keeps them."""

    rate: float
    number: int
    three: bool
    default: bool
    repeats: int
    seconds: float


def kept(file: Path | None) -> list[Tried]:
    """What earlier runs of this benchmark have tried."""
    if file is None or not file.exists():
        return []
    return [Tried(**json.loads(line)) for line in file.read_text().splitlines()]


def wanted(tasks: Mapping[float, int], tried: Sequence[Tried]) -> Iterator[tuple[float, int]]:
    """What is still to be tried: always of the rate that has the smallest share of its tasks."""
    done = {(one.rate, one.number) for one in tried}
    todo = [(rate, n) for rate, count in tasks.items() for n in range(count) if (rate, n) not in done]
    yield from sorted(todo, key=lambda entry: (entry[1] / tasks[entry[0]], entry[0]))


def real(tasks: Mapping[float, int], file: Path | None, seconds: float) -> list[str]:
    """The second table: every task through matrix and repeats in containers."""
    fixtures, began, tried = _fixtures(), time.monotonic(), kept(file)
    bench = Workbench(read_workspace(Path.cwd(), {}))
    with tempfile.TemporaryDirectory() as folder:
        image = fixtures.build_gate_image(bench, Path(folder), "9")
    patches = {rate: fixtures.adding({TEST: source(rate)}) for rate in tasks}
    for rate, number in wanted(tasks, tried):
        if time.monotonic() - began > seconds:
            break
        subject = Subject(image, fixtures.FIX.encode(), patches[rate], Limits(memory_mb=512, pids=128))
        started = time.monotonic()
        three, dropped, paid = _one(bench, subject, patches[rate], number)
        took = round(time.monotonic() - started, 1)
        tried.append(Tried(rate, number, three, dropped, paid, took))
        if file is not None:
            with file.open("a") as stream:
                stream.write(json.dumps(asdict(tried[-1])) + "\n")
        print(f"  {rate:g}/{number}: {'dropped' if dropped else 'kept'} {took} s", file=sys.stderr)
    return ["Real generated races in containers:", *real_table(tried)]


def real_table(tried: Sequence[Tried]) -> list[str]:
    """Counts by rate, with the 95% interval of the share that the default drops."""
    rows = []
    for rate in sorted({one.rate for one in tried}):
        ours = [one for one in tried if one.rate == rate]
        dropped = sum(one.default for one in ours)
        share = wilson(dropped, len(ours))
        seconds = [one.seconds for one in ours]
        rows.append(
            [f"{rate:g}", str(len(ours)), f"{sum(one.three for one in ours)}/{len(ours)}",
             f"{dropped}/{len(ours)}", f"{percent(share.low)} to {percent(share.high)}",
             f"{statistics.mean(one.repeats for one in ours):.0f}", f"{statistics.mean(seconds):.1f}",
             f"{max(seconds):.1f}"]
        )  # fmt: skip
    head = ["passes without fix", "tasks", "three runs drop", "default drops", "95% interval", "repeats",
            "mean s", "longest s"]  # fmt: skip
    return text_table(head, rows)


def _one(bench: Workbench, subject: Subject, patch: bytes, number: int) -> tuple[bool, bool, int]:
    ran = run_matrix(
        bench.engine, subject, touched_suite(patch), None, touched_files(patch),
        runs=3, suite_seconds=0, say=lambda _: None,
    )  # fmt: skip
    found = classify(ran.outcomes())
    if not found.accepted:
        return True, True, 0
    settings = ReliabilitySection()
    work = Work(bench.engine, subject, f"gate__gate-{number}", settings, variants_for(1, uvloop=False))
    repeated = repeat(work, found.fail_to_pass)
    found = without(found, wobbling(repeated.out))
    return False, not found.accepted or repeated.bounds is None, repeated.runs


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--simulated", type=int, default=20000, help="drawn tasks per rate")
    parser.add_argument("--real", type=int, default=0, help="generated races per rate, in containers")
    parser.add_argument("--reliable", type=int, default=0, help="reliable races, in containers")
    parser.add_argument("--kept", type=Path, help="a file of what was tried, to go on from")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no race after this long")
    options = parser.parse_args()
    if options.simulated:
        print("\n".join([*simulated(options.simulated), "", *computed()]), flush=True)
    tasks = {rate: options.real for rate in RATES if rate and options.real}
    if options.reliable:
        tasks[0.0] = options.reliable
    if tasks:
        print("\n".join(["", *real(tasks, options.kept, options.seconds)]), flush=True)


if __name__ == "__main__":
    main()
