"""Text that a person still reads, or reads with a known trick, but that plain search does not find.

Colours of a terminal, tags of a page, wide letters, the letters of an old mainframe: undone wherever a
file has them. Turned letters (rot13), reversed text, short encoded pieces and names spelled with other
separators are only undone where a needle of that form was found (see `variants`).
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from race.core.leaks.forms import worded

_ANSI = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_TAG = re.compile(rb"</?[A-Za-z!][^<>]{0,2000}>")
_START = re.compile(rb"\A\s*(?:<!doctype html|<html|<\?xml)", re.IGNORECASE)
_FEW = 8
_WIDE = b"\xef\xbc"
_ROT = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    b"NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm",
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}")
_HEX = re.compile(rb"[0-9a-fA-F]{18,}")
_STANDARD = bytes.maketrans(b"-_", b"+/")
_LONG = 60
"""Longer text is found by its length: see `encoded`."""

_SHORT = 12
"""Letters of an encoded needle, and of a name without its separators."""


def undone(data: bytes) -> Iterator[tuple[str, bytes]]:
    """How a text was disguised, and the text without that."""
    if b"\x1b" in data and data.count(b"\x1b[") >= _FEW:
        yield "colours", _ANSI.sub(b"", data)
    if _START.match(data) or _many(data, b"</") or _many(data, b"&#"):
        text = _TAG.sub(b"", data).decode("utf-8", "replace")
        yield "markup", html.unescape(text).encode("utf-8", "replace")
    if not data.isascii() and data.count(_WIDE) >= _FEW:
        yield "wide letters", unicodedata.normalize("NFKC", data.decode("utf-8", "replace")).encode()
    start = data[:2048]
    if start.count(b"\x40") * 12 > len(start) and b" " not in start and b"\x81" in start:
        yield "EBCDIC", data.decode("cp037", "replace").replace("\x85", "\n").encode()


def _many(data: bytes, mark: bytes) -> bool:
    """Whether a mark stands there a few times; its first character alone is looked for faster."""
    return data.count(mark[:1]) >= _FEW and data.count(mark) >= _FEW


def variants(lines: Iterable[bytes], names: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Needles, in their worded form, by which a disguised line or name is noticed."""
    for text in lines:
        yield "rot13", worded(text.translate(_ROT))
        yield "reversed", worded(text)[::-1]
        if len(text) <= _LONG:
            yield from _encoded(text)
    for text in names:
        yield "rot13", worded(text.translate(_ROT))
        yield "reversed", worded(text)[::-1]
        yield from _encoded(text)
        plain = text.replace(b"_", b"")
        if text.count(b"_") >= 3 and len(plain) >= _SHORT:
            yield "spelled", plain.lower()


def _encoded(text: bytes) -> Iterator[tuple[str, bytes]]:
    """What a short text is in hexadecimal, and in base64 from each of three places."""
    yield "hex", binascii.hexlify(text)
    for shift in range(3):
        inner = base64.b64encode(b"\0" * shift + text)[4 if shift else 0 : -4]
        if len(inner) >= _SHORT:
            yield "base64", worded(inner)


def _turned(data: bytes, _: Iterable[bytes]) -> bytes:
    return data.translate(_ROT)


def _reversed(data: bytes, _: Iterable[bytes]) -> bytes:
    return data[::-1]


def _short_base64(data: bytes, _: Iterable[bytes]) -> bytes:
    pieces = list[bytes]()
    for match in _BASE64.finditer(data):
        for skipped in range(4):
            part = match.group()[skipped:].translate(_STANDARD)
            part = part[: len(part) - 1] if len(part) % 4 == 1 else part
            pieces.append(binascii.a2b_base64(part + b"=" * (-len(part) % 4)))
    return b"\n".join(pieces)


def _short_hex(data: bytes, _: Iterable[bytes]) -> bytes:
    found = (match.group() for match in _HEX.finditer(data))
    return b"\n".join(
        binascii.unhexlify(text[skipped : skipped + (len(text) - skipped) // 2 * 2])
        for text in found
        for skipped in (0, 1)
    )


def _spelled(data: bytes, names: Iterable[bytes]) -> bytes:
    """The names that stand there with blanks, dashes or capitals in the place of underscores."""
    found = list[bytes]()
    for name in names:
        words = [re.escape(word) for word in name.split(b"_") if word]
        pattern = rb"(?<![A-Za-z0-9])" + rb"[\s_.-]{0,2}".join(words) + rb"(?![A-Za-z0-9])"
        if re.search(pattern, data, re.IGNORECASE):
            found.append(name)
    return b"\n".join(found)


UNDO: dict[str, Callable[[bytes, Iterable[bytes]], bytes]] = {
    "rot13": _turned,
    "reversed": _reversed,
    "base64": _short_base64,
    "hex": _short_hex,
    "spelled": _spelled,
}
