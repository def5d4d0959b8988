"""Repeats the fail-to-pass tests alone, many runs to a container, until both error rates are bounded."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from race.core.failure_text import ObservedFailure
from race.core.hangs import left_to_the_matrix, longer_limit, repeated_without
from race.core.matrix import Cell
from race.core.reliability import Reliability, Side, plain_trials
from race.core.repeats import ROUNDS, BadRun, Perturbed, pooled_out
from race.work.cells import open_cell
from race.work.sides import Seen, run_side
from race.work.trials import TrialResult, Work, limit_of, run_trials


@dataclass
class Repeated:
    """How the repeats ended. `out` gives the reason of each id that was thrown out."""

    ids: tuple[str, ...]
    out: dict[str, str] = field(default_factory=dict)
    bounds: Reliability | None = None
    failures: dict[str, list[ObservedFailure]] = field(default_factory=dict)
    bad_runs: list[BadRun] = field(default_factory=list)
    runs: int = 0
    seconds: float = 0.0
    perturbed: dict[str, dict[str, int]] = field(default_factory=dict)

    def ledger(self) -> dict[str, Any]:
        """The volatile part, for a person who asks what happened."""
        return {
            "runs": self.runs,
            "seconds": round(self.seconds, 1),
            "out": self.out,
            "perturbed": self.perturbed,
            "bad_runs": [
                {"key": bad.trial.key, "seed": bad.trial.seed, "outcomes": dict(bad.outcomes)}
                for bad in self.bad_runs[:50]
            ],
        }


def repeat(work: Work, ids: Sequence[str]) -> Repeated:
    """Bound both error rates of these ids, dropping those that discriminate too unreliably.

    Both sides run at the same time. Every round starts from zero with the ids that are left, so that
    no bound rests on the runs that chose them.
    """
    started = time.monotonic()
    done = Repeated(tuple(ids))
    work = _standing_alone(work, done.ids)
    for number in range(ROUNDS):
        if not done.ids:
            break
        without, gold, work = _settled_round(work, done, number)
        out = dict.fromkeys(without.plain.out, "unreliable")
        out |= dict.fromkeys(gold.plain.out, "flaky")
        perturbed = _compare(work, without, gold)
        if not out and gold.plain.verdict == "reject":
            out = dict.fromkeys(done.ids, "flaky")
        if not out:
            out = dict.fromkeys(pooled_out(without.plain, perturbed), "unreliable")
        done.out |= out
        done.ids = tuple(test_id for test_id in done.ids if test_id not in out)
        if not out:
            done.bounds = _bounds(work, without, gold, perturbed)
            break
    else:
        done.out |= dict.fromkeys(done.ids, "unreliable")
        done.ids = ()
    done.seconds = time.monotonic() - started
    return done


def _standing_alone(work: Work, ids: tuple[str, ...]) -> Work:
    """The work, with no id left to the matrix if the rest does not pass by itself with the fix.

    What leans on a test that is left out would fail without the fix for that alone.
    """
    asked = repeated_without(ids, work.slow_ids)
    if asked == ids:
        return work
    passed: list[bool] = []

    def take(result: TrialResult) -> None:
        passed.append(all(result.outcomes.get(i) == "passed" for i in asked))

    with open_cell(work.engine, work.subject, "new-with") as container:
        run_trials(container, work, asked, list(plain_trials(0, work.instance_id, "with", 3)), take)
    return work if any(passed) else replace(work, slow_ids=frozenset(), empty_seconds=work.slow_seconds)


def _settled_round(work: Work, done: Repeated, number: int) -> tuple[Seen, Seen, Work]:
    """A round whose hangs without the fix were hangs, and the work with the limit that it took."""
    asked = repeated_without(done.ids, work.slow_ids)
    while True:
        without, gold = _round(work, done, asked, number)
        longer = longer_limit(
            work.subject.test_seconds, limit_of(work, asked), without.hung, gold.longest
        )
        if longer is None:
            return without, gold, work
        work.say(f"once more with {longer:.0f} s for a test without the fix")
        work = replace(work, slow_seconds=longer, empty_seconds=longer)


def _round(work: Work, done: Repeated, asked: tuple[str, ...], number: int) -> tuple[Seen, Seen]:
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            sides = [
                pool.submit(run_side, work, "without", asked, number, stop),
                pool.submit(run_side, work, "with", done.ids, number, stop),
            ]
            without, gold = (future.result() for future in sides)
        except BaseException:
            stop.set()
            raise
    for seen in (without, gold):
        every = [seen.plain, *seen.perturbed.values()]
        done.runs += sum(series.whole.runs for series in every)
        done.bad_runs += [bad for series in every for bad in series.bad_runs]
        for variant, series in seen.perturbed.items():
            entry = done.perturbed.setdefault(variant, {})
            entry[f"{series.side}_runs"] = series.whole.runs
            entry[f"{series.side}_bad"] = len(series.bad_runs)
    for test_id, failures in without.failures.items():
        done.failures.setdefault(test_id, []).extend(failures)
    return without, gold


def _compare(work: Work, without: Seen, gold: Seen) -> list[Perturbed]:
    return [
        Perturbed(name, work.settings.perturbed, gold.perturbed[name].bad_runs, without.perturbed[name])
        for name in work.variants
        if name in gold.perturbed
    ]


def _bounds(work: Work, without: Seen, gold: Seen, perturbed: Sequence[Perturbed]) -> Reliability:
    settings = work.settings
    return Reliability(
        limit=settings.limit,
        seed=settings.seed,
        plain=settings.repeats,
        empty_bound=round(without.plain.whole.bound, 6),
        gold_bound=round(gold.plain.whole.bound, 6),
        perturbed={one.variant: settings.perturbed for one in perturbed},
        gold_fails_under=tuple(one.variant for one in perturbed if not one.counts),
        not_repeated=tuple(sorted((*left_to_the_matrix(gold.plain.ids, work.slow_ids), *work.left_out))),
    )


def unsteady(work: Work, ids: Sequence[str], times: int = 5) -> tuple[str, ...]:
    """Which of these supposed regressions do not hold when they are run alone a few times more.

    A regression passes without the fix and fails with it every time; an id that does both on one
    side, or fails without the fix, is flaky. Each has the full limit, for it may take longer than the
    fail-to-pass tests; what a hang kept from being reached has not failed.
    """
    work = replace(work, slow_seconds=math.inf, empty_seconds=math.inf)
    found: set[str] = set()
    sides: tuple[Side, ...] = ("without", "with")
    for side in sides:
        seen: dict[str, set[str]] = {test_id: set() for test_id in ids}

        def take(result: TrialResult, seen: dict[str, set[str]] = seen) -> None:
            for test_id in ids:
                if test_id not in result.outcomes and result.cut:
                    continue
                passed = result.outcomes.get(test_id) == "passed"
                seen[test_id].add("passed" if passed else "failed")

        cell: Cell = "new-with" if side == "with" else "new-without"
        with open_cell(work.engine, work.subject, cell) as container:
            run_trials(container, work, ids, list(plain_trials(0, work.instance_id, side, times)), take)
        found |= {i for i in ids if len(seen[i]) > 1 or (side == "without" and "failed" in seen[i])}
    return tuple(sorted(found))
