"""What lies inside a file: archives, compressed files, databases, git objects and encodings.

`parts` gives (what it is, name, bytes) for each thing one level down; the scanner calls it again on
the parts, up to a depth. Everything is bounded: a part that is larger than its limit is cut, and
the cut is reported, so that a decompression bomb costs no memory and hides nothing silently.
"""

from __future__ import annotations

import bz2
import gzip
import html
import io
import lzma
import re
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import zstandard

from race.core.leaks.base85 import base85_runs
from race.core.leaks.encoded import SHORTEST_RUN, runs
from race.core.leaks.transfer import pdf_streams, transfer_runs

PART_LIMIT = 32 * 2**20
MEMBER_LIMIT = 20_000

OPENED = (
    "git objects, packs and bundles", "zip and wheels", "tar", "Debian packages", "gzip", "bzip2", "xz",
    "Zstandard", "zlib", "SQLite", "HTML and XML", "archives behind scripts and programs",
    "deflated streams of PDF", "base64", "base32", "hexadecimal", "base85 and ascii85", "uuencode",
    "quoted-printable", "percent signs",
)  # fmt: skip
"""What is taken apart, in words for the audit's page."""

NOT_OPENED = (
    "7-Zip, RAR, LZ4, lzip, cabinet, xar, compress, squashfs and encrypted archives (named where met)",
    "compressed files of more than 24 MiB (named where met)",
    "encodings other than these, and base85 within binary files",
    "compressed streams within images and programs, and within a PDF those that are not deflated",
)
"""What is searched as it lies, but not taken apart."""

_STEP = 1024
_MOST_TABLES, _MOST_CELLS = 500, 2000


@dataclass(frozen=True)
class Part:
    """Something inside a file. `how` is zip, tar, ar, gzip, bzip2, xz, zstd, zlib, appended, pdf,
    markup, sqlite, base64, base32, hex, base85, uuencode, quoted-printable or percent."""

    how: str
    name: str
    data: bytes
    cut: bool = False


def _read(stream: Any, how: str, name: str) -> Part:
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


def _zstd(data: bytes) -> Part:
    """All frames of a Zstandard stream, fed in small steps: a block of three bytes may give 128 KiB."""
    pieces, size, at = list[bytes](), 0, 0
    decoder = zstandard.ZstdDecompressor().decompressobj()
    try:
        while at < len(data) and size <= PART_LIMIT:
            pieces.append(decoder.decompress(data[at : at + _STEP]))
            size += len(pieces[-1])
            at = min(at + _STEP, len(data))
            if decoder.eof:
                at -= len(decoder.unused_data)
                if at < len(data):
                    decoder = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError:
        return Part("zstd", "content", b"".join(pieces)[:PART_LIMIT], cut=True)
    cut = size > PART_LIMIT or not decoder.eof
    return Part("zstd", "content", b"".join(pieces)[:PART_LIMIT], cut)


def _zip(data: bytes) -> Iterator[Part]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for count, info in enumerate(archive.infolist()):
            if count >= MEMBER_LIMIT:
                yield Part("zip", f"{info.filename} and what follows it", b"", cut=True)
                return
            if info.is_dir():
                continue
            if info.flag_bits & 1:
                yield Part("zip", f"{info.filename} (encrypted)", b"", cut=True)
                continue
            try:
                with archive.open(info) as member:
                    yield _read(member, "zip", info.filename)
            except (zipfile.BadZipFile, NotImplementedError, OSError, zlib.error):
                yield Part("zip", info.filename, b"", cut=True)


def _tar(data: bytes) -> Iterator[Part]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for count, member in enumerate(archive):
            if count >= MEMBER_LIMIT:
                yield Part("tar", f"{member.name} and what follows it", b"", cut=True)
                return
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is not None:
                content = stream.read(PART_LIMIT)
                yield Part("tar", member.name, content, cut=member.size > PART_LIMIT)


def _ar(data: bytes) -> Iterator[Part]:
    """The members of a Debian package."""
    at = 8
    while at + 60 <= len(data):
        name = data[at : at + 16].decode("latin-1").strip()
        size = int(data[at + 48 : at + 58])
        yield Part("ar", name, data[at + 60 : at + 60 + size], cut=at + 60 + size > len(data))
        at += 60 + size + size % 2


def _appended(data: bytes) -> Iterator[Part]:
    """An archive behind a script or a program: a zip by its end, a stream by how it begins."""
    if data.rfind(b"PK\x05\x06", -(2**16 + 22)) >= 0:
        yield from _zip(data)
        return
    if data.startswith(b"#!"):
        for magic in _STREAMS:
            at = data.find(magic)
            if at > 0:
                yield Part("appended", f"at byte {at}", data[at:])


def _sqlite(data: bytes) -> Iterator[Part]:
    """Every table's cells. A database in write-ahead mode is read as if it were in the other one:
    what its log holds is a file of its own."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(data[:18] + b"\x01\x01" + data[20:])
        tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        for count, (table,) in enumerate(tables):
            if count >= _MOST_TABLES:
                yield Part("sqlite", f"{table} and further tables", b"", cut=True)
                return
            yield from _table(connection, str(table))
    finally:
        connection.close()


def _table(connection: sqlite3.Connection, table: str) -> Iterator[Part]:
    """One table's text and bytes together; cells that are compressed themselves also alone."""
    quoted = '"' + table.replace('"', '""') + '"'
    cells, size, alone = list[bytes](), 0, 0
    for row in connection.execute(f"select * from {quoted}"):
        for cell in row:
            raw = cell.encode("utf-8", "surrogateescape") if isinstance(cell, str) else cell
            if not isinstance(raw, bytes):
                continue
            cells.append(raw)
            size += len(raw)
            if kind_of(raw) and alone < _MOST_CELLS:
                alone += 1
                yield Part("sqlite", f"{table} cell {len(cells)}", raw)
        if size > PART_LIMIT:
            break
    yield Part("sqlite", table, b"\n".join(cells), cut=size > PART_LIMIT or alone >= _MOST_CELLS)


_MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"]\x00\x00": "xz",
    b"SQLite format 3\x00": "sqlite",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"!<arch>\ndebian-binary": "ar",
}
_CLOSED = {
    b"7z\xbc\xaf\x27\x1c": "7-zip",
    b"Rar!\x1a\x07": "rar",
    b"\x04\x22\x4d\x18": "lz4",
    b"SQSH": "squashfs",
    b"hsqs": "squashfs",
    b"LZIP": "lzip",
    b"MSCF": "cabinet",
    b"xar!": "xar",
    b"\x1f\x9d": "compress",
}
_STREAMS = (b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_PROGRAMS = (b"#!", b"\x7fELF", b"MZ")
_MARKUP = re.compile(rb"\A\s*(?:<!doctype html|<html|<\?xml)", re.IGNORECASE)
_TAG = re.compile(rb"<[^<>]{0,2000}>")
_FIRST = frozenset(magic[0] for magic in (*_MAGIC, *_CLOSED))


def kind_of(data: bytes) -> str:
    """What a file's first bytes say it is; empty for anything that needs no unpacking."""
    if not data:
        return ""
    first = data[0]
    if first in _FIRST:
        kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "")
        if kind:
            return kind
    if data[257:262] == b"ustar":
        return "tar"
    if first in (0x78, 0x58) and len(data) > 2 and (first << 8 | data[1]) % 31 == 0:
        return "zlib"
    return ""


def closed_kind(data: bytes) -> str:
    """The name of a compressed format that cannot be opened here; empty for anything else."""
    if not data or data[0] not in _FIRST:
        return ""
    return next((name for magic, name in _CLOSED.items() if data.startswith(magic)), "")


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
        elif kind == "zstd":
            yield _zstd(data)
        elif kind == "ar":
            yield from _ar(data)
        elif kind == "tar":
            yield from _tar(data)
        elif not kind and data.startswith(_PROGRAMS):
            yield from _appended(data)
        elif kind == "sqlite":
            yield from _sqlite(data)
        elif kind == "zlib":
            content, cut = inflate(data)
            yield Part("zlib", "content", content, cut)
    except (zipfile.BadZipFile, tarfile.TarError, sqlite3.Error, zlib.error, OSError, ValueError):
        yield Part(kind, "content", b"", cut=kind not in ("zlib", ""))
    if not kind and _MARKUP.match(data):
        text = html.unescape(_TAG.sub(b"", data).decode("utf-8", "replace"))
        yield Part("markup", "text", text.encode())
    if not kind and data.startswith(b"%PDF-"):
        for at, content, cut in pdf_streams(data, PART_LIMIT):
            yield Part("pdf", f"at byte {at}", content, cut)
    if len(data) >= SHORTEST_RUN and kind in ("", "tar"):
        for run in runs(data):
            place = f"at byte {run.at}" if run.at >= 0 else "in a short run"
            yield Part(run.how, place, run.data)
    if not kind and b"\0" not in data[:1024]:
        for run in transfer_runs(data):
            yield Part(run.how, f"at byte {run.at}", run.data)
        for at, content in base85_runs(data):
            yield Part("base85", f"at byte {at}", content)
