"""Shapes of what git prints and of what we make of its objects; nothing here runs git."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import IO

_PAIR = re.compile(rb"^([0-9a-f]{40,64}) ([0-9a-f]{40,64})\n$")
_PAIR_HEAD = re.compile(_PAIR.pattern[:-1])
_CHUNK = 1 << 16


def utc(stamp: str) -> str:
    """An ISO 8601 moment, in UTC and with a Z, to the second."""
    moment = datetime.fromisoformat(stamp)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def tar_of(entries: Iterable[tuple[str, str, str, str]], blob: Callable[[str], bytes]) -> bytes:
    """A deterministic tar of a tree's entries (mode, kind, id, path): sorted, no times, owner 0."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for mode, kind, sha, path in sorted(entries, key=lambda entry: entry[3]):
            info = tarfile.TarInfo(path)
            info.mode = 0o755 if mode == "100755" or kind == "commit" else 0o644
            if kind == "commit":
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
                continue
            data = blob(sha)
            if mode == "120000":
                info.type, info.mode = tarfile.SYMTYPE, 0o777
                info.linkname = os.fsdecode(data)
                archive.addfile(info)
                continue
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def cut_pairs(stream: IO[bytes], *, separated: bool) -> Iterator[tuple[tuple[str, str], bytes]]:
    """Split the output of `diff-tree --stdin` into (pair of trees, what follows it)."""
    lines: Iterable[bytes] = _nul_lines(stream) if separated else stream
    pair: tuple[str, str] | None = None
    parts: list[bytes] = []
    for line in lines:
        match = _PAIR.match(line) if len(line) > 80 else None
        if match:
            if pair is not None:
                yield pair, b"".join(parts)
            pair, parts = (match[1].decode(), match[2].decode()), []
        else:
            parts.append(line)
    if pair is not None:
        yield pair, b"".join(parts)


def _nul_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """With -z a pair's header still ends with a newline, everything after it with a NUL."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\0")
        for piece in whole:
            while header := _PAIR_HEAD.match(piece):
                yield header[0]
                piece = piece[header.end() :]
            yield piece + b"\0"
    if rest:
        yield rest
