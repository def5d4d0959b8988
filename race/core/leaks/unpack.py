"""What lies inside a file: archives, compressed files, databases, git objects and encodings.

`parts` gives (what it is, name, bytes) for each thing one level down; the scanner calls it again on
the parts, up to a depth. Everything is bounded: a part that is larger than its limit is cut, and
the cut is reported, so that a decompression bomb costs no memory and hides nothing silently.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import zstandard

from race.core.leaks.base85 import base85_runs, git_binaries
from race.core.leaks.disguise import undone
from race.core.leaks.dumps import dump_runs
from race.core.leaks.encoded import SHORTEST_RUN, runs
from race.core.leaks.hidden import headerless, nameless, png_texts, streams, zip_members, zlib_row
from race.core.leaks.kinds import PROGRAMS, SKIPPED, kind_of, looks_random
from race.core.leaks.shifted import turned, yenc_runs
from race.core.leaks.transfer import pdf_streams, transfer_runs

PART_LIMIT = 32 * 2**20
MEMBER_LIMIT = 20_000

_STEP = 1024
_MOST_TABLES, _MOST_CELLS = 500, 2000


@dataclass(frozen=True)
class Part:
    """Something inside a file. `how` is zip, tar, ar, gzip, bzip2, xz, zstd, zlib, deflate, pdf, png,
    xor, plus, rot47, yEnc, markup, colours, wide letters, EBCDIC, sqlite, base64, base32, hex, base85,
    uuencode, quoted-printable, percent, numbers or escapes."""

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
    while data[at + 1 : at + 4] == SKIPPED and len(data) >= at + 8:
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
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
    """Members by the list at the end, then those that it does not name."""
    known = set[int]()
    try:
        yield from _listed(data, known)
    except (zipfile.BadZipFile, OSError, ValueError):
        yield Part("zip", "list of members", b"", cut=True)
    for found in zip_members(data, known, PART_LIMIT):
        yield Part(*found)


def _listed(data: bytes, known: set[int]) -> Iterator[Part]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        known |= {info.header_offset for info in archive.infolist()}
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
    """What lies behind a script, a program or a picture: a zip by its end or the heads of its
    members, a stream by how it begins."""
    if data.startswith(PROGRAMS) and data.rfind(b"PK\x05\x06", -(2**16 + 22)) >= 0:
        yield from _zip(data)
        return
    for found in chain(
        zip_members(data, set(), PART_LIMIT), streams(data, PART_LIMIT), png_texts(data, PART_LIMIT)
    ):
        yield Part(*found)


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


def _unnamed(data: bytes) -> Iterator[Part]:
    """What no first bytes tell: a deflated stream alone or behind a head that nobody knows, a file whose
    bytes were all turned."""
    if not data[:64].isascii() and not data.startswith(PROGRAMS):
        content = headerless(data, PART_LIMIT)
        if content:
            yield Part("deflate", "content", content, len(content) >= PART_LIMIT)
        elif looks_random(data):
            for found in nameless(data, PART_LIMIT):
                yield Part(*found)
    for how, content in turned(data):
        yield Part(how, "content", content)


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
        elif not kind and (data.startswith(PROGRAMS) or b"\0" in data):
            yield from _appended(data)
        elif kind == "sqlite":
            yield from _sqlite(data)
        elif kind == "zlib":
            content, cut = zlib_row(data, PART_LIMIT)
            yield Part("zlib", "content", content, cut)
    except (zipfile.BadZipFile, tarfile.TarError, sqlite3.Error, zlib.error, OSError, ValueError):
        yield Part(kind, "content", b"", cut=kind not in ("zlib", ""))
    if not kind:
        yield from _unnamed(data)
    if not kind and data.startswith(b"%PDF-"):
        for at, content, cut in pdf_streams(data, PART_LIMIT):
            yield Part("pdf", f"at byte {at}", content, cut)
    if len(data) >= SHORTEST_RUN and kind in ("", "tar"):
        for run in runs(data):
            place = f"at byte {run.at}" if run.at >= 0 else "in a short run"
            yield Part(run.how, place, run.data)
    if not kind and b"\0" not in data[:1024]:
        for how, content in undone(data):
            yield Part(how, "text", content)
        for run in transfer_runs(data):
            yield Part(run.how, f"at byte {run.at}", run.data)
        for run in dump_runs(data):
            yield Part(run.how, f"at byte {run.at}", run.data)
        if b"\nGIT binary patch" in data:
            for at, content in git_binaries(data):
                yield Part("base85", f"binary patch at byte {at}", content)
        if b"=ybegin " in data:
            for at, content in yenc_runs(data):
                yield Part("yEnc", f"at byte {at}", content)
        for at, content in base85_runs(data):
            yield Part("base85", f"at byte {at}", content)
