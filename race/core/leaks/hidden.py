"""Compressed streams and archive members that lie somewhere within a file of another kind.

A zip is usually read by the list at its end. Members are also found by their own heads: when the list is
broken, when a second archive follows, when the archive lies behind a picture or a program. Other
streams are found by how they begin.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

_LOCAL = b"PK\x03\x04"
_TRIES = 2000
"""Beginnings of one kind that are tried in one file."""

_STEP = 2**16
_ZLIB = (b"\x78\x9c", b"\x78\xda", b"\x78\x01", b"\x78\x5e")
_HEADS = 33
"""Bytes of a head of its own that may stand before a deflated stream."""

_FIRST, _TRAILER = 1024, 8
"""Bytes by which a stream without a header is tried; those that may follow it, a checksum say."""

_LEAST = 64

Found = tuple[str, str, bytes, bool]
"""How it is packed, its name, its content, whether it was cut."""


class _Decoder(Protocol):
    """What every decompressor of the standard library can do."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    def decompress(self, data: bytes, /) -> bytes:
        """What the next bytes give."""


def zip_members(data: bytes, known: set[int], limit: int) -> Iterator[Found]:
    """Members of zip archives by their own heads, but for those at known places."""
    at, tries = data.find(_LOCAL), 0
    while at >= 0 and tries < _TRIES:
        if at not in known and at + 30 <= len(data):
            tries += 1
            found = _member(data, at, limit)
            if found is not None:
                yield found
        at = data.find(_LOCAL, at + 4)


def _member(data: bytes, at: int, limit: int) -> Found | None:
    flags, method = struct.unpack_from("<HH", data, at + 6)
    packed, name_size, extra = struct.unpack_from("<I4xHH", data, at + 18)
    if method not in (0, 8) or not 0 < name_size < 4096:
        return None
    name = data[at + 30 : at + 30 + name_size].decode("utf-8", "replace")
    start = at + 30 + name_size + extra
    if flags & 1:
        return "zip", f"{name} (encrypted)", b"", True
    if method == 0:
        return "zip", name, data[start : start + min(packed, limit)], packed > limit
    content, cut = _read(zlib.decompressobj(-15), data, start, limit)
    return ("zip", name, content, cut) if content else None


def _read(decoder: _Decoder, data: bytes, start: int, limit: int) -> tuple[bytes, bool]:
    """What a stream gives from a place on, and whether it was cut or is damaged."""
    pieces, size = list[bytes](), 0
    try:
        while not decoder.eof and size <= limit and start < len(data):
            pieces.append(decoder.decompress(data[start : start + _STEP]))
            size += len(pieces[-1])
            start += _STEP
    except (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError):
        return b"".join(pieces)[:limit], True
    return b"".join(pieces)[:limit], not decoder.eof


_STREAMS: tuple[tuple[bytes, int, str, Callable[[], _Decoder]], ...] = (
    (b"\x1f\x8b\x08", 0, "gzip", lambda: zlib.decompressobj(31)),
    (b"1AY&SY", 4, "bzip2", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", 0, "xz", lzma.LZMADecompressor),
    (b"\x28\xb5\x2f\xfd", 0, "zstd", lambda: zstandard.ZstdDecompressor().decompressobj()),
)


def streams(data: bytes, limit: int) -> Iterator[Found]:
    """Compressed streams that begin somewhere within a file. What breaks off at once is none."""
    for magic, before, how, decoder in _STREAMS:
        at, tries = data.find(magic), 0
        while at >= 0 and tries < _TRIES:
            tries += 1
            start = at - before
            content, cut = _read(decoder(), data, start, limit) if start >= 0 else (b"", True)
            if content and not (cut and len(content) < _LEAST):
                yield how, f"{how} at byte {start}", content, cut
            at = data.find(magic, at + len(magic))


def headerless(data: bytes, limit: int) -> bytes:
    """What a file gives that is one deflated stream without any header; nothing for any other."""
    decoder = zlib.decompressobj(-15)
    try:
        content = decoder.decompress(data[:_FIRST], limit)
        if len(content) < _LEAST and not decoder.eof:
            return b""
        content += decoder.decompress(decoder.unconsumed_tail + data[_FIRST:], limit)
    except (zlib.error, ValueError):
        return b""
    whole = decoder.eof and len(decoder.unused_data) <= _TRAILER
    return content if whole or len(content) >= limit else b""


def nameless(data: bytes, limit: int) -> Iterator[Found]:
    """zlib and deflated streams in a file that looks random: behind a head of its own, or within the
    file of another program."""
    for magic in _ZLIB:
        at, tries = data.find(magic), 0
        while at >= 0 and tries < _TRIES:
            tries += 1
            content, cut = _read(zlib.decompressobj(), data, at, limit)
            if len(content) >= _LEAST:
                yield "zlib", f"zlib at byte {at}", content, cut
            at = data.find(magic, at + len(magic))
    for at in range(1, _HEADS):
        content = headerless(data[at:], limit)
        if content:
            yield "deflate", f"deflate at byte {at}", content, len(content) >= limit
            return


_PNG = b"\x89PNG\r\n\x1a\n"


def png_texts(data: bytes, limit: int) -> Iterator[Found]:
    """What a PNG says compressed: its texts, its colour profile, what lies behind a chunk's name that
    nobody knows, and its pixels."""
    at, pixels = len(_PNG), list[bytes]()
    while data.startswith(_PNG) and at + 12 <= len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        if name == b"IDAT":
            pixels.append(body)
        elif name in (b"zTXt", b"iCCP"):
            yield from _png_stream(name, at, body[body.find(b"\0") + 2 :], limit)
        elif name == b"iTXt":
            start = body.find(b"\0")
            for _ in range(2):
                start = body.find(b"\0", start + (3 if body.find(b"\0") == start else 1))
            yield from _png_stream(name, at, body[start + 1 :], limit)
        at += size + 12
    if pixels:
        yield from _png_stream(b"IDAT", len(_PNG), b"".join(pixels), limit)


def _png_stream(name: bytes, at: int, packed: bytes, limit: int) -> Iterator[Found]:
    content, cut = _read(zlib.decompressobj(), packed, 0, limit)
    if content:
        yield "png", f"{name.decode()} at byte {at}", content[:limit], cut


def zlib_row(data: bytes, limit: int) -> tuple[bytes, bool]:
    """zlib streams in a row, and whether they were cut. Raises zlib.error when the first is none."""
    decoder = zlib.decompressobj()
    pieces = [decoder.decompress(data, limit)]
    size = len(pieces[0])
    while decoder.eof and len(decoder.unused_data) > 2 and size < limit:
        rest, decoder = decoder.unused_data, zlib.decompressobj()
        try:
            pieces.append(decoder.decompress(rest, limit - size))
        except zlib.error:
            return b"".join(pieces), True
        size += len(pieces[-1])
    return b"".join(pieces), not decoder.eof
