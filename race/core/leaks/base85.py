"""Base85 inside a file, decoded: Python's and git's alphabet, Adobe's (ascii85), and Z85.

A run is text without blanks that starts with a line of at least 48 characters, over as many lines as
follow. Nearly all characters of a source line are in one of the alphabets, so a run has to be as mixed
as encoded text is. Text before it shifts it: it is decoded from each of the five places in which a group
may begin, and alone where it is plain what stands before it. A group that stands for no four bytes gives
some four bytes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import numpy as np

from race.core.leaks.encoded import places

SHORTEST_RUN = 48
_REACH = 64 * 2**20
_CLASS = bytes(65 if 0x21 <= c <= 0x7E else 32 for c in range(256))
_WHOLE = b"A" * SHORTEST_RUN
_RUN = re.compile(rb"[!-~]{48,}(?:\r?\n[ \t]*[!-~]{48,})*(?:\r?\n[ \t]*[!-~]+)?")
_JOINED = re.compile(rb"""["']\s*\\?\s*[bBrR]{0,2}["']|\s+|\\[rn]""")
"""Between two pieces of one text: literals in a row, or the ends of lines."""

_BEFORE = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]*[=:(]+")
"""A name that the text is given to, or a call that it is handed to; the text can look like one."""

_QUOTE = re.compile(rb"""[bB]?["']""")
_NAMES = 6
"""So many of them in a row are taken for what stands before a text."""

_SPACE = re.compile(rb"\s+")
_RARE, _CHARACTERS = 4, 24
"""How many different ones the first characters of a run must have, also of those that names do not."""

_LOOK = 256
_COMMON = bytes(c for c in range(128) if chr(c).isalnum()) + b"/_.,=-:'\"()[]"

_PYTHON = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_ADOBE = bytes(range(33, 118))
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class _Alphabet:
    """One alphabet: how to find its text and what each character stands for."""

    def __init__(self, letters: bytes, also: bytes, between: re.Pattern[bytes]) -> None:
        inside = re.escape(letters + also)
        self._pieces = re.compile(rb"[" + inside + rb"]{%d,}" % SHORTEST_RUN)
        self._between, self._also = between, also
        self._values = np.zeros(256, dtype=np.uint64)
        self._values[np.frombuffer(letters, dtype=np.uint8)] = np.arange(85, dtype=np.uint64)

    def decoded(self, run: bytes) -> Iterator[bytes]:
        """What a run's pieces stand for, from each of five places."""
        for match in self._pieces.finditer(self._between.sub(b"", run)):
            if not _mixed(match.group()):
                continue
            for skipped in sorted({*range(5), *_beginnings(match.group())}):
                text = match.group()[skipped:]
                yield self.bytes_of(text.replace(b"z", b"!!!!!") if self._also else text)

    def bytes_of(self, text: bytes) -> bytes:
        """What a text stands for, from its first character."""
        lacks = -len(text) % 5
        places = self._values[np.frombuffer(text + b"~" * lacks, dtype=np.uint8)]
        if lacks:
            places[-lacks:] = 84
        groups = places.reshape(-1, 5) @ np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.uint64)
        data = (groups & np.uint64(0xFFFFFFFF)).astype(">u4").tobytes()
        return data[: len(data) - lacks]


def _beginnings(text: bytes) -> Iterator[int]:
    """Where the encoded text may begin behind names, calls and a quote."""
    at = 0
    for _ in range(_NAMES):
        name = _BEFORE.match(text, at)
        if name is None:
            return
        at = name.end()
        yield at
        quote = _QUOTE.match(text, at)
        if quote is not None:
            yield quote.end()


def _mixed(text: bytes) -> bool:
    look = text[:_LOOK]
    rare = look.translate(None, _COMMON)
    if not len(look) <= 16 * len(rare) <= 8 * len(look):
        return False
    return len(set(rare)) >= _RARE and len(set(look)) >= _CHARACTERS


_GIT = _Alphabet(_PYTHON, b"", _SPACE)
_ALPHABETS = (
    _Alphabet(_PYTHON, b"", _JOINED),
    _Alphabet(_ADOBE, b"z", _SPACE),
    _Alphabet(_Z85, b"", _SPACE),
)


def base85_runs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each run begins, and each of the things that it may stand for."""
    end = 0

    def done() -> int:
        return end

    for at in places(data, _CLASS, _WHOLE, done):
        found = _RUN.match(data, at, min(len(data), at + _REACH)) if at >= end else None
        if found is None:
            continue
        end = found.end()
        if _mixed(found.group()):
            for alphabet in _ALPHABETS:
                for content in alphabet.decoded(found.group()):
                    yield at, content


_BINARY = re.compile(rb"^[+> ]?(?:literal|delta) \d+\r?\n((?:[+> ]?[A-Za-z][!-~]+\r?\n)+)", re.M)


def git_binaries(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each block of a binary patch of git begins, and its inflated content: a file, or how it
    differs from one."""
    for match in _BINARY.finditer(data):
        pieces = list[bytes]()
        for line in match.group(1).split():
            size = line[0] - 64 if line[0] < 91 else line[0] - 70
            pieces.append(_GIT.bytes_of(line[1:])[:size])
        try:
            yield match.start(), zlib.decompressobj().decompress(b"".join(pieces), _REACH)
        except zlib.error:
            continue
