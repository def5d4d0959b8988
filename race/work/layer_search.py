"""Searches a layer's files in several processes; a layer that is small, in this one.

The stream of an image is read, hashed and taken apart here. Files go to the workers in batches, and
what the batches give is put together in the order of the stream, so that a scan is the same however
it was made. At most `IN_FLIGHT` bytes wait for the workers.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from race.core.leaks.fragments import Wanted
from race.core.leaks.layers import Entry, LayerScan
from race.core.leaks.needles import Needles
from race.core.leaks.scanner import LayerScanner, windows
from race.errors import Accident
from race.work.worker_processes import begin_worker, most_workers

MOST_WORKERS = 4
BATCH_BYTES = 2 * 2**20
BATCH_FILES = 1000
IN_FLIGHT = 12 * 2**20
FEW_BYTES = 16 * 2**20
"""A layer's first bytes are searched in this process: most layers are no larger."""

T = TypeVar("T")
File = tuple[Entry, bytes | None, bytes]


class Search:
    """What is looked for, and the processes that look for it. Use as `with searching(...)`."""

    def __init__(self, wanted: Wanted, workdir: str, most: int = MOST_WORKERS) -> None:
        self.wanted, self.workdir = wanted, workdir
        self.needles = Needles.of(wanted)
        self._workers = most_workers(most)
        self._pool: ProcessPoolExecutor | None = None

    def scanner(self) -> LayerScanner:
        """A scanner for some files."""
        return LayerScanner(self.wanted, self.workdir, needles=self.needles)

    def pool(self) -> ProcessPoolExecutor | None:
        """The workers, started when they are first needed; None when one process has to do."""
        if self._pool is None and self._workers:
            self._pool = ProcessPoolExecutor(
                self._workers, get_context("spawn"), _begin, (os.getpid(), self.wanted, self.workdir)
            )
        return self._pool

    def start(self) -> None:
        """Start all workers now, while the engine still packs the image."""
        pool = self.pool()
        for _ in range(self._workers if pool is not None else 0):
            pool.submit(_ready)  # type: ignore[union-attr]

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def searching(wanted: Wanted, workdir: str, most: int = MOST_WORKERS) -> Iterator[Search]:
    """A search whose processes end with the block."""
    search = Search(wanted, workdir, most)
    try:
        yield search
    finally:
        search.close()


class LayerSearch:
    """Collects what matters of one layer, as a LayerScanner does: `add` each file, then `finish`."""

    def __init__(self, search: Search, *, few_bytes: int = FEW_BYTES) -> None:
        self._search = search
        self._own = search.scanner()
        self._left = few_bytes
        self._batch: list[File] = []
        self._bytes = 0
        self._waiting: deque[tuple[int, Future[LayerScan]]] = deque()
        self._rest = LayerScan(digest="")

    def add(self, entry: Entry, data: bytes | None, attributes: bytes = b"") -> None:
        """One path, with its content when it is a regular file that is held whole."""
        size = len(attributes) + (len(data) if data is not None else 0)
        if self._left > 0 or self._search.pool() is None:
            self._left -= size + 512
            self._own.add(entry, data, attributes)
            return
        self._batch.append((entry, data, attributes))
        self._bytes += size
        if self._bytes >= BATCH_BYTES or len(self._batch) >= BATCH_FILES:
            self._submit()

    def add_stream(self, entry: Entry, pieces: Iterable[bytes]) -> None:
        """A file that is too large to hold."""
        pool = self._search.pool()
        if pool is None:
            self._own.add_stream(entry, pieces)
            return
        self._submit()
        found: dict[int, tuple[str, bool]] = {}
        waiting: deque[Future[dict[int, tuple[str, bool]]]] = deque()
        first = b""
        for window in windows(pieces):
            first = first or window[:512]
            waiting.append(pool.submit(search_window, window))
            if len(waiting) * len(window) > IN_FLIGHT // 2:
                found = _result(waiting.popleft()) | found
        while waiting:
            found = found | _result(waiting.popleft())
        self._own.streamed(entry, first, found)

    def finish(self, digest: str, size: int) -> LayerScan:
        """Wait for what is left and give the scan."""
        self._submit()
        while self._waiting:
            self._take()
        scan = self._own.finish(digest, size)
        scan.absorb(self._rest)
        return scan

    def _submit(self) -> None:
        pool = self._search.pool()
        if not self._batch or pool is None:
            return
        self._waiting.append((self._bytes, pool.submit(search_files, self._batch)))
        self._batch, self._bytes = [], 0
        while sum(size for size, _ in self._waiting) > IN_FLIGHT:
            self._take()

    def _take(self) -> None:
        _, future = self._waiting.popleft()
        self._rest.absorb(_result(future))


def _result(future: Future[T]) -> T:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise Accident("a process that searches layers was killed; is there memory left?") from error


_WORKER: list[Search] = []
"""In a worker: what it looks for."""


def _begin(owner: int, wanted: Wanted, workdir: str) -> None:
    begin_worker(owner)
    _WORKER[:] = [Search(wanted, workdir, 0)]


def _ready() -> None:
    """Nothing: a worker that does this has started."""


def search_files(files: list[File]) -> LayerScan:
    """What some files of a layer give; runs in a worker."""
    scanner = _WORKER[0].scanner()
    for entry, data, attributes in files:
        scanner.add(entry, data, attributes)
    return scanner.finish("", 0)


def search_window(window: bytes) -> dict[int, tuple[str, bool]]:
    """What a piece of a large file gives; runs in a worker."""
    return _WORKER[0].scanner().window(window)
