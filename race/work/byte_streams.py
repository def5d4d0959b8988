"""Streams of bytes: read ahead, unpacked as they come."""

from __future__ import annotations

import gzip
import io
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from race.core.leaks.tarstream import ByteReader


def read_ahead(chunks: Iterator[bytes], depth: int = 4) -> Iterator[bytes]:
    """The chunks, read ahead in a thread, so that the engine packs while we search."""
    waiting: queue.Queue[bytes | BaseException | None] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: bytes | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for chunk in chunks:
                if not put(chunk):
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that reads, and raised there
            put(error)

    threading.Thread(target=read, daemon=True, name="leak-scan-reader").start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()


def chained(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """A first chunk, when there is one, and the others."""
    if head:
        yield head
    yield from rest


class _Pipe(io.RawIOBase):
    """Byte chunks as a readable file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._reader = ByteReader(chunks)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._reader.some(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What a gzip stream holds."""
    with gzip.GzipFile(fileobj=io.BufferedReader(_Pipe(chunks), 2**20)) as stream:
        while piece := stream.read(2**20):
            yield piece


def unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What a Zstandard stream holds."""
    decompressor = zstandard.ZstdDecompressor()
    source = io.BufferedReader(_Pipe(chunks), 2**20)
    with decompressor.stream_reader(source, read_across_frames=True) as stream:
        while piece := stream.read(2**20):
            yield piece


def layer_unpacker(head: bytes) -> Callable[[Iterator[bytes]], Iterator[bytes]] | None:
    """How a compressed layer is unpacked, by its first bytes; None for one that is no such stream."""
    if head.startswith(b"\x1f\x8b"):
        return gunzip
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return unzstd
    return None
