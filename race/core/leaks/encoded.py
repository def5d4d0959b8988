"""Base64, base32 and hexadecimal runs inside a file, decoded.

A run is at least 56 characters of the alphabet: in one piece, or over lines of at least 16, with or
without quotes and indentation between them (a wrapped block, implicitly joined string literals).
Text before a run shifts it, so that short runs are decoded from each of the four places in which a
group of four can begin.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from race.core.leaks.kinds import kind_of

SHORTEST_RUN = 56
_LONG = 160
"""Decoded bytes from which a run is a part of its own; shorter ones are searched together."""
_REACH = 64 * 2**20
WINDOW = 4 * 2**20
"""Longer files are looked through in pieces of this size."""

_SHIFTED = 2**16
"""Longer runs are decoded from their first character only."""

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_LETTERS = frozenset(_ALPHABET)
_CLASS = bytes(65 if c in _ALPHABET else 78 if c in b"\"'\\\r\n" else 32 for c in range(256))
"""A: of the alphabet; N: the end of a line, a quote or a backslash; else a blank."""

_WHOLE = b"A" * SHORTEST_RUN
_HALF = b"A" * 16
_LINE_END = _HALF + b"N"
_NEXT_LINE = (_HALF, b"N", b" ")
"""What follows the end of a line in a wrapped block."""

_BETWEEN = rb"""(?:\\[rn]|["'\s,\\]){1,48}"""
_RUN = re.compile(
    rb"[A-Za-z0-9+/_-]{16,}(?:" + _BETWEEN + rb"[A-Za-z0-9+/_-]{16,})*"
    rb"(?:" + _BETWEEN + rb"[A-Za-z0-9+/_-]{2,})?={0,2}"
)
_DIGIT, _UPPER, _LOWER = (re.compile(kind) for kind in (rb"[0-9]", rb"[A-Z]", rb"[a-z]"))
"""Encoded text of this length holds them all; a path or an identifier seldom does."""

_ESCAPED = (
    (b"\\x", re.compile(rb"(?:\\x[0-9a-fA-F]{2}){20,}")),
    (b"0x", re.compile(rb"0x[0-9a-fA-F]{2}(?:\s{0,40},\s{0,40}0x[0-9a-fA-F]{2}){20,}")),
)
"""Escapes in a string, and the numbers of an array in C."""

_NO_DIGIT = re.compile(rb"[^0-9a-fA-F]")
_BASE32 = re.compile(rb"\A(?:[A-Z2-7]+|[a-z2-7]+)={0,6}\Z")
_BASE32HEX = re.compile(rb"\A(?:[0-9A-V]+|[0-9a-v]+)={0,6}\Z")
_FROM_HEX = bytes.maketrans(b"0123456789ABCDEFGHIJKLMNOPQRSTUV", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
_HEX = re.compile(rb"\A[0-9a-fA-F]+\Z")
_SYMBOLS = (b"_Z", b"_R", b"ZN")
"""Names of functions as compilers of C++ and Rust write them into programs."""

_JOINTS = re.compile(_BETWEEN)
_STANDARD = bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True)
class Run:
    """Decoded bytes. `how` is base64, base32 or hex; `at` the place in the file, -1 for short runs
    together."""

    how: str
    at: int
    data: bytes


def runs(data: bytes) -> Iterator[Run]:
    """Every encoded run of a file: long ones alone, then what short ones gave, joined."""
    binary = b"\0" in data[:1024]
    short: list[bytes] = []
    at = 0

    def done() -> int:
        return at

    for place in _places(data, (_WHOLE,) if binary else (_WHOLE, _LINE_END), done):
        if place < at:
            continue
        begin = _line_start(data, place, at)
        found = _RUN.match(data, begin, min(len(data), begin + _REACH))
        at = found.end() if found else place + 1
        text = found.group() if found else b""
        if len(text) < SHORTEST_RUN or (binary and text.startswith(_SYMBOLS)):
            continue
        if _DIGIT.search(text):
            how, forms = _decoded(_JOINTS.sub(b"", text))
            if forms and len(forms[0]) >= _LONG:
                yield Run(how, begin, forms[0])
                forms = forms[1:]
            yield from (Run(how, begin, form) for form in forms if kind_of(form))
            short += forms
    for mark, pattern in () if binary else _ESCAPED:
        if data.count(mark[:1]) > 20 and data.count(mark) > 20:
            for match in pattern.finditer(data):
                digits = _NO_DIGIT.sub(b"", match.group().replace(b"0x", b"").replace(b"0X", b""))
                yield Run("hex", match.start(), binascii.unhexlify(digits))
    if short:
        yield Run("base64", -1, b"\n".join(short))


def _places(data: bytes, starts: tuple[bytes, ...], done: Callable[[], int]) -> Iterator[int]:
    """Where any of the starts is found, in order. `done` says up to where the file is read by now;
    a place before it may still come, and is to be passed over."""
    whole = data.translate(_CLASS) if len(data) <= WINDOW else None
    found = [
        places(data, _CLASS, start, done) if whole is None else _finds(whole, start, done)
        for start in starts
    ]
    return found[0] if len(found) == 1 else heapq.merge(*found)


def places(data: bytes, classes: bytes, start: bytes, done: Callable[[], int]) -> Iterator[int]:
    """Where a start is found among a file's classes of characters, worked out a window at a time."""
    for first in range(0, len(data), WINDOW):
        window = data[first : first + WINDOW + len(start) - 1].translate(classes)
        yield from (first + at for at in _finds(window, start, lambda: done() - first))  # noqa: B023


def _finds(classes: bytes, start: bytes, done: Callable[[], int]) -> Iterator[int]:
    at = max(0, done())
    while (at := classes.find(start, at)) >= 0:
        after = at + len(start)
        if start is not _LINE_END or _goes_on(classes, after):
            yield at
        at = max(after, done())


def _goes_on(classes: bytes, after: int) -> bool:
    """Whether what follows the end of a line may be the next of a wrapped block."""
    return classes.startswith(_NEXT_LINE, after) or after + len(_HALF) > len(classes)


def _line_start(data: bytes, place: int, least: int) -> int:
    """Where the alphabet's characters that end here begin."""
    while place > least and data[place - 1] in _LETTERS:
        place -= 1
    return place


def _decoded(text: bytes) -> tuple[str, list[bytes]]:
    """What a run's characters stand for, from each place in which it may begin."""
    if len(text) > 128 and _HEX.match(text.removeprefix(b"0x")):
        text = text.removeprefix(b"0x")
        return "hex", [binascii.unhexlify(text[: len(text) // 2 * 2])]
    if _BASE32.match(text) or _BASE32HEX.match(text):
        body = text.rstrip(b"=").upper()
        body = body[: len(body) // 8 * 8]
        if not body:
            return "base32", []
        plain = [body] if _BASE32.match(text) else []
        turned = [body.translate(_FROM_HEX)] if _BASE32HEX.match(text) else []
        return "base32", [base64.b32decode(one) for one in plain + turned]
    if not (_UPPER.search(text) and _LOWER.search(text)):
        return "base64", []
    body = text.rstrip(b"=").translate(_STANDARD)
    forms = []
    for skipped in range(4 if len(body) <= _SHIFTED else 1):
        part = body[skipped:]
        part = part[: len(part) - 1] if len(part) % 4 == 1 else part
        forms.append(binascii.a2b_base64(part + b"=" * (-len(part) % 4)))
    return "base64", forms
