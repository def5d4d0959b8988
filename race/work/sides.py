"""All repeats of one side of the fix in one round: plain ones first, then one perturbation at a time.

A side has a container of its own. When it takes long it gets more of them, as slots of the machine
become free; they take their trials from the same list. Tests that hang without the fix, or fail late,
and compute nothing meanwhile get some more that wait for no slot: most of a deadlock is waiting.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from race.core.failure_text import ObservedFailure
from race.core.matrix import Cell
from race.core.reliability import PLAIN, Side, Trial, plain_trials, trial
from race.core.repeats import Series
from race.ports import Container
from race.work.cells import NotWanted, cpu_seconds, open_cell
from race.work.trials import QUOTA, Enough, TrialResult, Work, run_trials

FIRST_BATCH, MOST = 2, 18
"""Trials per launcher: a new one gets a fresh interpreter, hash seed and memory layout to fork from.
A small batch first, since most unreliable tasks show early."""
BATCH_SECONDS = 15.0
"""What a batch should take at most, so that containers end at about the same time."""
PATIENCE = 20.0
"""Seconds after which a side gets other containers."""
HELPERS = min(4, max(1, (os.cpu_count() or 1) - 1))
"""How many other containers a side may get."""
WAITERS, WORTH, IDLE = 4, 1.0, 0.2
"""How many more, where a repeat takes more than these seconds and computes for less than this share."""


@dataclass
class Seen:
    """What one side showed in one round.

    `longest` is by variant the longest wait for something that came; `hung` are the variants in which
    something was ended at its limit.
    """

    plain: Series
    perturbed: dict[str, Series] = field(default_factory=dict)
    failures: dict[str, list[ObservedFailure]] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)
    hung: set[str] = field(default_factory=set)


class Batches:
    """Trials a few at a time, for one container or several."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._left, self._lock = [*trials], threading.Lock()
        self._runs, self._seconds = 0, 0.0

    def take(self) -> Sequence[Trial]:
        """The next few; nothing when there are none."""
        with self._lock:
            size = FIRST_BATCH
            if self._runs:
                each = self._seconds / self._runs
                size = max(1, min(MOST, int(BATCH_SECONDS / max(each, 0.01))))
            taken, self._left = self._left[:size], self._left[size:]
            return taken

    def took(self, runs: int, seconds: float) -> None:
        """How long that many trials took; it sets the size of the next batches."""
        with self._lock:
            self._runs, self._seconds = self._runs + runs, self._seconds + seconds

    @property
    def empty(self) -> bool:
        """Whether all were taken."""
        with self._lock:
            return not self._left


def run_side(work: Work, side: Side, ids: tuple[str, ...], number: int, stop: threading.Event) -> Seen:
    """Repeat these ids on one side. `number` is the round; `stop` is set when the task is decided."""
    settings = work.settings
    seen = Seen(Series(side, ids, settings.repeats, settings.limit))
    plain = plain_trials(
        settings.seed, work.instance_id, side, settings.repeats, number * settings.repeats
    )
    variants = {
        name: [trial(settings.seed, work.instance_id, side, name, number * settings.perturbed + index)
               for index in range(settings.perturbed)]
        for name in work.variants
    }  # fmt: skip
    seen.perturbed = {
        name: Series(side, ids, len(trials), 1.0) for name, trials in variants.items() if trials
    }
    taking = _Taking(work, side, stop, seen)
    quota = variants.pop("cpu-quota", [])
    with taking.container() as container:
        taking.all_of(plain, container)
        if seen.plain.verdict == "accept":
            taking.all_of([one for trials in variants.values() for one in trials], container)
    if quota and seen.plain.verdict == "accept" and not stop.is_set():
        with taking.container(QUOTA) as container:
            taking.all_of(quota, container, QUOTA)
    if seen.plain.verdict == "reject":
        stop.set()
    return seen


class _Taking:
    """Runs trials of one side and writes down what they show, in one container or in several."""

    def __init__(self, work: Work, side: Side, stop: threading.Event, seen: Seen) -> None:
        self._work, self._side, self._stop, self._seen = work, side, stop, seen
        self._lock, self._broken = threading.Lock(), threading.Event()
        self._waiting = threading.Event()
        self._may_wait = side == "without"

    @contextmanager
    def container(
        self,
        cpus: float | None = None,
        wanted: Callable[[], bool] = lambda: True,
        slot: bool = True,
    ) -> Iterator[Container]:
        """A container of this side."""
        cell: Cell = "new-with" if self._side == "with" else "new-without"
        with open_cell(
            self._work.engine, self._work.subject, cell, cpus=cpus, wanted=wanted, slot=slot
        ) as container:
            yield container

    def all_of(self, trials: Iterable[Trial], first: Container, cpus: float | None = None) -> None:
        """Run these trials in a container, with others to help when that takes long.

        Perturbed ones compute beside the tests, so that they get no container without a slot.
        """
        wanted = [*trials]
        left, over = Batches(wanted), threading.Event()
        plain = all(one.variant == PLAIN for one in wanted)
        waiters = WAITERS if self._may_wait and plain else 0
        with ThreadPoolExecutor(max_workers=HELPERS + WAITERS) as pool:
            helping = [
                pool.submit(self._help, left, over, cpus, slot=number < HELPERS)
                for number in range(HELPERS + waiters)
            ]
            try:
                self._run(left, first)
            except BaseException:
                self._broken.set()
                raise
            finally:
                over.set()
        for helper in helping:
            helper.result()

    def _help(self, left: Batches, over: threading.Event, cpus: float | None, *, slot: bool) -> None:
        """Help in another container: after a while, or as soon as the tests are known to just wait."""
        until = time.monotonic() + PATIENCE
        while not (self._waiting.is_set() or (slot and time.monotonic() >= until)):
            if over.wait(0.2):
                return
        try:
            if self._wants(left):
                with self.container(cpus, lambda: self._wants(left), slot) as container:
                    self._run(left, container)
        except NotWanted:
            return
        except BaseException:
            self._broken.set()
            raise

    def _wants(self, left: Batches) -> bool:
        return not (left.empty or self._stop.is_set() or self._broken.is_set())

    def _run(self, left: Batches, container: Container) -> None:
        plain = self._seen.plain
        while self._wants(left) and (batch := left.take()):
            if plain.enough and batch[0].variant == PLAIN:
                return
            started = time.monotonic()
            asked = self._may_wait and not self._waiting.is_set()
            before = cpu_seconds(container) if asked else None
            if not run_trials(container, self._work, plain.ids, batch, self._take):
                return
            seconds = time.monotonic() - started
            left.took(len(batch), seconds)
            if before is not None and seconds > WORTH * len(batch):
                computed = (cpu_seconds(container) or math.inf) - before
                if computed < IDLE * seconds:
                    self._waiting.set()
            self._work.say(f"repeats {self._side} the fix: {plain.whole.runs} of {plain.planned}")

    def _take(self, result: TrialResult) -> None:
        """One repeat's result; raises Enough when no further one is needed."""
        with self._lock:
            seen, variant = self._seen, result.trial.variant
            is_plain = variant == PLAIN
            series = seen.plain if is_plain else seen.perturbed[variant]
            series.add(result.trial, result.outcomes, cut=result.cut)
            seen.longest[variant] = max(seen.longest.get(variant, 0.0), result.longest)
            if result.hung or result.lost:
                seen.hung.add(variant)
            if is_plain and self._side == "without":
                for test_id, failure in result.failures.items():
                    seen.failures.setdefault(test_id, []).append(failure)
            over = is_plain and seen.plain.verdict == "reject"
            if over or self._stop.is_set() or self._broken.is_set():
                raise Enough
