"""Repeats the fail-to-pass tests alone, many runs to a container, until both error rates are bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from race.core.failure_text import ObservedFailure
from race.core.matrix import Cell
from race.core.reliability import PLAIN, Reliability, Side, Trial, plain_trials, trial
from race.core.repeats import ROUNDS, BadRun, Perturbed, Series, pooled_out
from race.work.cells import open_cell
from race.work.trials import QUOTA, Enough, TrialResult, Work, batches, run_trials


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


@dataclass
class _Seen:
    """What one side showed in one round."""

    plain: Series
    perturbed: dict[str, Series] = field(default_factory=dict)
    failures: dict[str, list[ObservedFailure]] = field(default_factory=dict)


def repeat(work: Work, ids: Sequence[str]) -> Repeated:
    """Bound both error rates of these ids, dropping those that discriminate too unreliably.

    Both sides run at the same time. Every round starts from zero with the ids that are left, so that
    no bound rests on the runs that chose them.
    """
    started = time.monotonic()
    done = Repeated(tuple(ids))
    for number in range(ROUNDS):
        if not done.ids:
            break
        without, gold = _round(work, done, number)
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


def _round(work: Work, done: Repeated, number: int) -> tuple[_Seen, _Seen]:
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            sides = [
                pool.submit(_side, work, side, _ids(work, side, done.ids), number, stop)
                for side in ("without", "with")
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


def _ids(work: Work, side: Side, ids: tuple[str, ...]) -> tuple[str, ...]:
    if side == "with":
        return ids
    return tuple(test_id for test_id in ids if test_id not in _not_repeated(work, ids))


def _not_repeated(work: Work, ids: Sequence[str]) -> tuple[str, ...]:
    """Ids that hang without the fix, but for the first three: each costs its limit in every repeat."""
    slow = [test_id for test_id in ids if test_id in work.slow_ids]
    return tuple(slow[3:])


def _side(work: Work, side: Side, ids: tuple[str, ...], number: int, stop: threading.Event) -> _Seen:
    """All repeats of one side in this round: the plain ones first, then one perturbation at a time."""
    settings = work.settings
    seen = _Seen(Series(side, ids, settings.repeats, settings.limit))
    start = number * settings.repeats
    plain = list(plain_trials(settings.seed, work.instance_id, side, settings.repeats, start))
    variants = {
        name: [trial(settings.seed, work.instance_id, side, name, number * settings.perturbed + index)
               for index in range(settings.perturbed)]
        for name in work.variants
    }  # fmt: skip
    seen.perturbed = {
        name: Series(side, ids, len(trials), 1.0) for name, trials in variants.items() if trials
    }
    quota = variants.pop("cpu-quota", [])
    with _open(work, side, stop, seen) as run:
        run(plain)
        if seen.plain.verdict == "accept":
            run([one for trials in variants.values() for one in trials])
    if quota and seen.plain.verdict == "accept" and not stop.is_set():
        with _open(work, side, stop, seen, cpus=QUOTA) as run:
            run(quota)
    if seen.plain.verdict == "reject":
        stop.set()
    return seen


@contextmanager
def _open(
    work: Work, side: Side, stop: threading.Event, seen: _Seen, cpus: float | None = None
) -> Iterator[Callable[[Sequence[Trial]], None]]:
    """A container of one side, as a function that runs trials in it until there is enough."""
    plain = seen.plain

    def take(result: TrialResult) -> None:
        is_plain = result.trial.variant == PLAIN
        series = plain if is_plain else seen.perturbed[result.trial.variant]
        series.add(result.trial, result.outcomes)
        if is_plain and side == "without":
            for test_id, failure in result.failures.items():
                seen.failures.setdefault(test_id, []).append(failure)
        if stop.is_set() or (is_plain and plain.verdict == "reject"):
            raise Enough

    cell: Cell = "new-with" if side == "with" else "new-without"
    with open_cell(work.engine, work.subject, cell, cpus=cpus) as container:

        def run(trials: Sequence[Trial]) -> None:
            for batch in batches(trials):
                if stop.is_set() or (plain.enough and batch[0].variant == PLAIN):
                    return
                if not run_trials(container, work, plain.ids, batch, take):
                    return
                work.say(f"repeats {side} the fix: {plain.whole.runs} of {plain.planned}")

        yield run


def _compare(work: Work, without: _Seen, gold: _Seen) -> list[Perturbed]:
    return [
        Perturbed(name, work.settings.perturbed, gold.perturbed[name].bad_runs, without.perturbed[name])
        for name in work.variants
        if name in gold.perturbed
    ]


def _bounds(work: Work, without: _Seen, gold: _Seen, perturbed: Sequence[Perturbed]) -> Reliability:
    settings = work.settings
    return Reliability(
        limit=settings.limit,
        seed=settings.seed,
        plain=settings.repeats,
        empty_bound=round(without.plain.whole.bound, 6),
        gold_bound=round(gold.plain.whole.bound, 6),
        perturbed={one.variant: settings.perturbed for one in perturbed},
        gold_fails_under=tuple(one.variant for one in perturbed if not one.counts),
        not_repeated=tuple(sorted((*_not_repeated(work, gold.plain.ids), *work.left_out))),
    )


def unsteady(work: Work, ids: Sequence[str], times: int = 5) -> tuple[str, ...]:
    """Which of these supposed regressions do not hold when they are run alone a few times more.

    A regression passes without the fix and fails with it every time; an id that does both on one
    side, or fails without the fix, is flaky.
    """
    found: set[str] = set()
    sides: tuple[Side, ...] = ("without", "with")
    for side in sides:
        seen: dict[str, set[str]] = {test_id: set() for test_id in ids}

        def take(result: TrialResult, seen: dict[str, set[str]] = seen) -> None:
            for test_id in ids:
                passed = result.outcomes.get(test_id) == "passed"
                seen[test_id].add("passed" if passed else "failed")

        cell: Cell = "new-with" if side == "with" else "new-without"
        with open_cell(work.engine, work.subject, cell) as container:
            run_trials(container, work, ids, list(plain_trials(0, work.instance_id, side, times)), take)
        found |= {i for i in ids if len(seen[i]) > 1 or (side == "without" and "failed" in seen[i])}
    return tuple(sorted(found))
