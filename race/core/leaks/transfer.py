"""Text as mail and the web carry it: uuencode, quoted-printable, percent signs. And streams of a PDF."""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from race.core.leaks.encoded import Run

_REACH = 64 * 2**20
_BEGIN = re.compile(rb"^begin [0-7]{3,4} \S[^\r\n]*\r?\n", re.MULTILINE)
_LEAST = 4
"""Escapes from which a text is read as escaped."""

_STREAM = re.compile(rb"stream\r?\n")
_LITERAL = re.compile(rb"\((?:\\.|[^\\()])*\)|\bT[jJ*dD]\b|['\"]\s")
_BACKSLASH = re.compile(rb"\\([0-7]{1,3}|\r?\n|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def transfer_runs(data: bytes) -> Iterator[Run]:
    """Everything in a text that is encoded in one of these ways, decoded."""
    if b"begin " in data:
        for match in _BEGIN.finditer(data):
            yield Run("uuencode", match.start(), _uudecoded(data[match.end() : match.end() + _REACH]))
    if data.count(b"=") >= _LEAST and data.count(b"=3D") + data.count(b"=20") >= _LEAST:
        yield Run("quoted-printable", 0, binascii.a2b_qp(data))
    if data.count(b"%") >= _LEAST and data.count(b"%20") + data.count(b"%0A") >= _LEAST:
        yield Run("percent", 0, unquote_to_bytes(data.replace(b"+", b" ")))


def _uudecoded(data: bytes) -> bytes:
    """The lines of a uuencoded file up to its end, or up to the first that is none."""
    pieces = list[bytes]()
    for line in data.splitlines():
        if line == b"end":
            break
        try:
            pieces.append(binascii.a2b_uu(line))
        except binascii.Error:
            try:  # some encoders write more than the line's length says
                pieces.append(binascii.a2b_uu(line[: (((line[0] - 32) & 63) * 4 + 5) // 3]))
            except binascii.Error:
                break
    return b"".join(pieces)


def pdf_streams(data: bytes, limit: int) -> Iterator[tuple[int, bytes, bool]]:
    """Each deflated stream of a PDF: where it begins, content and the text that it shows, cut or not."""
    for match in _STREAM.finditer(data):
        decoder = zlib.decompressobj()
        try:
            content = decoder.decompress(memoryview(data)[match.end() :], limit)
        except zlib.error:
            continue
        yield match.start(), content + b"\n" + _shown(content), not decoder.eof


def _shown(content: bytes) -> bytes:
    """The strings that a page's operators show; each showing or moving operator ends a line."""
    pieces = list[bytes]()
    for token in _LITERAL.findall(content):
        pieces.append(_BACKSLASH.sub(_meant, token[1:-1]) if token.startswith(b"(") else b"\n")
    return b"".join(pieces)


def _meant(match: re.Match[bytes]) -> bytes:
    what = match.group(1)
    if what[:1] in (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7"):
        return bytes([int(what, 8) & 255])
    return _NAMED.get(what, b"" if what.endswith(b"\n") else what)
