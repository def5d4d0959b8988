"""The signals of many pull requests, read by several processes."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from typing import TypeVar

from race.core.mining.signals import Words, signals
from race.core.paths import Layout
from race.errors import Accident

Entry = TypeVar("Entry")
Reading = tuple[Words, bytes, Layout, list[str]]
MOST_WORKERS, FEW, BATCH = 8, 150, 12
"""Processes at most; so few pull requests that one process is quicker; how many go in one parcel."""


def read_signals(
    readings: Iterable[tuple[Entry, Reading]], total: int
) -> Iterator[tuple[Entry, dict[str, float]]]:
    """Each pull request with its signals, in order; many are read by several processes.

    At most a few batches wait at a time, so that memory does not grow with the history.
    """
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)))
    if workers < 2 or total < FEW:
        for entry, reading in readings:
            yield entry, signals(*reading)
        return
    with ProcessPoolExecutor(
        workers, get_context(_start_method()), _begin_worker, (os.getpid(),)
    ) as pool:
        waiting: deque[tuple[list[Entry], Future[list[dict[str, float]]]]] = deque()
        for batch in batched(readings, BATCH):
            entries, asked = [entry for entry, _ in batch], [reading for _, reading in batch]
            waiting.append((entries, pool.submit(read_batch, asked)))
            if len(waiting) > 3 * workers:
                yield from _answered(*waiting.popleft())
        while waiting:
            yield from _answered(*waiting.popleft())


def _begin_worker(owner: int) -> None:
    """A worker leaves interrupts to its owner, and ends when its owner is gone, however it went.

    Syntax trees hold no cycles, so that collecting garbage would only cost time.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _start_method() -> str:
    """Forking is quick, and safe while there is one thread; spawning runs the main script again."""
    alone = threading.active_count() == 1
    return "fork" if alone and "fork" in get_all_start_methods() else "spawn"


def _answered(
    entries: list[Entry], future: Future[list[dict[str, float]]]
) -> Iterator[tuple[Entry, dict[str, float]]]:
    try:
        yield from zip(entries, future.result(), strict=True)
    except BrokenProcessPool as error:
        raise Accident("a process that reads diffs was killed; is there memory left?") from error


def read_batch(readings: Sequence[Reading]) -> list[dict[str, float]]:
    """The signals of several pull requests; what a process of the pool does."""
    return [signals(*reading) for reading in readings]


def batched(
    readings: Iterable[tuple[Entry, Reading]], size: int
) -> Iterator[list[tuple[Entry, Reading]]]:
    """Lists of at most `size`."""
    batch: list[tuple[Entry, Reading]] = []
    for reading in readings:
        batch.append(reading)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
