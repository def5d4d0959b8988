"""What lies inside a file: archives, compressed files, databases, git objects and encodings.

`parts` gives (what it is, name, bytes) for each thing one level down; the scanner calls it again on
the parts, up to a depth. Everything is bounded: a part that is larger than its limit is cut, and
the cut is reported, so that a decompression bomb costs no memory and hides nothing silently.
"""

from __future__ import annotations

import binascii
import bz2
import gzip
import io
import lzma
import re
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

PART_LIMIT = 32 * 2**20
MEMBER_LIMIT = 20_000

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_CLASS = bytes(65 if c in _ALPHABET else 32 for c in range(256))
_RUN = re.compile(rb"[A-Za-z0-9+/_-]+(?:(?:\\n|\s{1,4})[A-Za-z0-9+/_-]{4,})*={0,2}")
_HEX = re.compile(rb"\A[0-9a-fA-F\s]+\Z")
SHORTEST_RUN = 56


@dataclass(frozen=True)
class Part:
    """Something inside a file. `how` is zip, tar, gzip, bzip2, xz, zlib, sqlite, base64 or hex."""

    how: str
    name: str
    data: bytes
    cut: bool = False


class _Cut(Exception):
    """More came out than the limit allows; what came so far."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


def _read(stream: io.BufferedIOBase | gzip.GzipFile, how: str, name: str) -> Part:
    """A decompressing stream to its end or the limit; a damaged rest is kept as far as it reads."""
    pieces, size = list[bytes](), 0
    try:
        while size <= PART_LIMIT:
            piece = stream.read(2**20)
            if not piece:
                return Part(how, name, b"".join(pieces))
            pieces.append(piece)
            size += len(piece)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError):
        return Part(how, name, b"".join(pieces), cut=True)
    return Part(how, name, b"".join(pieces)[:PART_LIMIT], cut=True)


def inflate(data: bytes, limit: int = PART_LIMIT) -> tuple[bytes, bool]:
    """A zlib stream's content, and whether it was cut. Raises zlib.error when it is none."""
    decoder = zlib.decompressobj()
    content = decoder.decompress(data, limit)
    return content, not decoder.eof


def _zip(data: bytes) -> Iterator[Part]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist()[:MEMBER_LIMIT]:
            if info.is_dir() or info.flag_bits & 1:
                continue
            try:
                with archive.open(info) as member:
                    yield _read(member, "zip", info.filename)  # type: ignore[arg-type]
            except (zipfile.BadZipFile, NotImplementedError, OSError, zlib.error):
                yield Part("zip", info.filename, b"", cut=True)


def _tar(data: bytes) -> Iterator[Part]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for count, member in enumerate(archive):
            if count >= MEMBER_LIMIT:
                yield Part("tar", member.name, b"", cut=True)
                return
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is not None:
                content = stream.read(PART_LIMIT)
                yield Part("tar", member.name, content, cut=member.size > PART_LIMIT)


def _sqlite(data: bytes) -> Iterator[Part]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(data)
        tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (table,) in tables[:200]:
            quoted = '"' + str(table).replace('"', '""') + '"'
            rows = connection.execute(f"select * from {quoted} limit 200000")
            cells, size = [], 0
            for row in rows:
                for cell in row:
                    if isinstance(cell, str):
                        cells.append(cell.encode("utf-8", "surrogateescape"))
                    elif isinstance(cell, bytes):
                        cells.append(cell)
                    size += len(cells[-1]) if cells else 0
                if size > PART_LIMIT:
                    break
            yield Part("sqlite", str(table), b"\n".join(cells), cut=size > PART_LIMIT)
    finally:
        connection.close()


def _encoded(data: bytes) -> Iterator[Part]:
    classes = data.translate(_CLASS)
    at, count = 0, 0
    window = b"A" * SHORTEST_RUN
    while count < 1000 and (at := classes.find(window, at)) >= 0:
        run = _RUN.match(data, at, min(len(data), at + 2 * PART_LIMIT))
        if run is None:
            return
        text = run.group().replace(b"\\n", b"")
        how, content = _decoded(text)
        if content:
            count += 1
            yield Part(how, f"at byte {at}", content)
        at = max(run.end(), at + SHORTEST_RUN)


def _decoded(text: bytes) -> tuple[str, bytes]:
    if _HEX.match(text):
        digits = b"".join(text.split())
        return "hex", binascii.unhexlify(digits[: len(digits) // 2 * 2]) if len(digits) > 128 else b""
    body = b"".join(text.split()).rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
    body = body[: len(body) - 1] if len(body) % 4 == 1 else body
    try:
        return "base64", binascii.a2b_base64(body + b"=" * (-len(body) % 4))
    except binascii.Error:
        return "base64", b""


def kind_of(data: bytes) -> str:
    """What a file's first bytes say it is; empty for anything that needs no unpacking."""
    head = data[:6]
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"BZh"):
        return "bzip2"
    if head == b"\xfd7zXZ\x00" or head.startswith(b"]\x00\x00"):
        return "xz"
    if data[:16] == b"SQLite format 3\x00":
        return "sqlite"
    if data[257:262] == b"ustar":
        return "tar"
    if len(head) > 2 and head[0] in (0x78, 0x58) and (head[0] << 8 | head[1]) % 31 == 0:
        return "zlib"
    return ""


_CLOSED = {
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"7z\xbc\xaf\x27\x1c": "7-zip",
    b"Rar!\x1a\x07": "rar",
    b"\x04\x22\x4d\x18": "lz4",
    b"SQSH": "squashfs",
    b"hsqs": "squashfs",
}


def closed_kind(data: bytes) -> str:
    """The name of a compressed format that cannot be opened here; empty for anything else."""
    return next((name for head, name in _CLOSED.items() if data.startswith(head)), "")


def pack_start(data: bytes) -> int:
    """Where a git pack starts: at the front, or after a bundle's head; -1 when it is none."""
    if data.startswith(b"PACK\x00\x00\x00"):
        return 0
    if data.startswith((b"# v2 git bundle\n", b"# v3 git bundle\n")):
        end = data.find(b"\n\nPACK")
        return end + 2 if end >= 0 else -1
    return -1


def parts(data: bytes) -> Iterator[Part]:
    """What lies one level inside these bytes. A damaged container gives what could be read."""
    kind = kind_of(data)
    try:
        if kind == "zip":
            yield from _zip(data)
        elif kind == "gzip":
            yield _read(gzip.GzipFile(fileobj=io.BytesIO(data)), kind, "content")
        elif kind == "bzip2":
            yield _read(bz2.BZ2File(io.BytesIO(data)), kind, "content")
        elif kind == "xz":
            yield _read(lzma.LZMAFile(io.BytesIO(data)), kind, "content")  # noqa: SIM115
        elif kind == "tar":
            yield from _tar(data)
        elif kind == "sqlite":
            yield from _sqlite(data)
        elif kind == "zlib":
            content, cut = inflate(data)
            yield Part("zlib", "content", content, cut)
    except (zipfile.BadZipFile, tarfile.TarError, sqlite3.Error, zlib.error, OSError, ValueError):
        yield Part(kind, "content", b"", cut=kind not in ("zlib", ""))
    if len(data) >= SHORTEST_RUN and kind in ("", "tar"):
        yield from _encoded(data)
