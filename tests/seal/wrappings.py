"""Ways to wrap a text that an image may hold."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import quopri
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import zstandard

TEXT = b"if amount > before and self._turnstile.locked():\n    self._journal.extend(['big step', 9])\n"
ENCODED = base64.b64encode(TEXT).decode()


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w") -> bytes:
    """A tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def package(data: bytes) -> bytes:
    """A Debian package with one archive of files."""
    packed = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0\n"), ("data.tar.xz", data)):
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
        packed += head.encode() + content + b"\n" * (len(content) % 2)
    return packed


def database(cell: bytes, folder: Path) -> bytes:
    """A database that was written in write-ahead mode."""
    path = folder / "n.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table notes (text blob)")
    connection.execute("insert into notes values (?)", (cell,))
    connection.commit()
    connection.close()
    return path.read_bytes()


def markup(text: bytes) -> bytes:
    """A page on which each word stands in a tag of its own, as coverage writes it."""
    words = text.decode().replace(">", "&gt;").split(" ")
    body = " ".join(f'<span class="nam">{word}</span>' for word in words)
    return f"<!DOCTYPE html>\n<html><body><p>{body}</p></body></html>".encode()


def uuencoded(data: bytes) -> bytes:
    """As the program of that name writes it."""
    lines = b"".join(binascii.b2a_uu(data[at : at + 45]) for at in range(0, len(data), 45))
    return b"begin 644 notes.py\n" + lines + b"`\nend\n"


def pdf(content: bytes) -> bytes:
    """A page's content, deflated."""
    return b"%PDF-1.7\n1 0 obj <<>> stream\n" + zlib.compress(content) + b"\nendstream\nendobj\n"


def _lines(data: bytes, width: int) -> list[bytes]:
    return [data[at : at + width] for at in range(0, len(data), width)]


WRAPPINGS: dict[str, Callable[[bytes, Path], bytes]] = {
    "zstd": lambda d, _: zstandard.ZstdCompressor().compress(d),
    "zstd in two frames": lambda d, _: (
        zstandard.ZstdCompressor().compress(b"x") + zstandard.ZstdCompressor().compress(d)
    ),
    "package": lambda d, _: package(tarred({"usr/x.py": d}, "w:xz")),
    "zip application": lambda d, _: b"#!/usr/bin/env python3\n" + zipped({"__main__.py": d}),
    "script with a payload": lambda d, _: b"#!/bin/sh\nexit\n" + tarred({"a": d}, "w:gz"),
    "compressed cell of a database": lambda d, f: database(gzip.compress(d), f),
    "page of a coverage report": lambda d, _: markup(d),
    "base32": lambda d, _: base64.b32encode(d),
    "base85": lambda d, _: base64.b85encode(d),
    "base85 in literals": lambda d, _: (
        b"DATA = (\n"
        + b"\n".join(b'    b"%s"' % line for line in _lines(base64.b85encode(d), 60))
        + b"\n)\n"
    ),
    "base85, zipped, behind an equals sign": lambda d, _: b"DATA=" + base64.b85encode(gzip.compress(d)),
    "ascii85": lambda d, _: base64.a85encode(d),
    "ascii85 as Adobe wraps it": lambda d, _: base64.a85encode(d, adobe=True, wrapcol=72),
    "ascii85 in a call": lambda d, _: b'exec(a85decode(b"' + base64.a85encode(d) + b'"))',
    "uuencode": lambda d, _: uuencoded(d),
    "quoted-printable": lambda d, _: quopri.encodestring(d, quotetabs=True),
    "percent signs": lambda d, _: quote(d, safe="").encode(),
    "PDF": lambda d, _: pdf(b"BT (%s) Tj ET" % d),
    "PDF in ascii85": lambda d, _: (
        b"%PDF-1.4\n<<>> stream\n"
        + base64.a85encode(zlib.compress(d), adobe=True, wrapcol=76)
        + b"\nendstream\n"
    ),
    "escapes in a string": lambda d, _: b's = "' + b"".join(b"\\x%02x" % c for c in d) + b'"',
    "array in C": lambda d, _: b"char s[] = {" + b", ".join(b"0x%02X" % c for c in d) + b"};",
    "six deep": lambda d, _: zipped(
        {"a": gzip.compress(tarred({"b": zipped({"c": gzip.compress(d)})}))}
    ),
}
