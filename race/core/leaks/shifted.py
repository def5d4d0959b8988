"""Text whose every byte was turned by the same key: xor with one byte, a number added, rot47, yEnc.

The commonest byte of a text is the blank, so that the commonest byte of a turned one tells the key. It
is taken for the key only when what it gives looks like text and what lies there does not. All is judged
by a file's beginning: a turned piece within another file is not noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

_LOOK, _LEAST = 4096, 64
_BLANKS = b" \n"
_SHOWN = bytes(range(32, 127)) + b"\t\r\n"
_SMALL = bytes(range(97, 123))
_LETTERS, _FEWEST_LETTERS = frozenset(_SMALL), 12
_MOST_BYTES = 110
_GLANCE, _MOST_AT_A_GLANCE = 256, 80
"""Different bytes of a turned text, of all that is looked at and of its first ones; most binary files
have more."""

_ROT47 = bytes(33 + (c - 33 + 47) % 94 if 33 <= c < 127 else c for c in range(256))
_TURNED_SMALL = b":;<=>?@"
"""Small letters, turned by rot47."""

_YENC = re.compile(rb"^=ybegin [^\r\n]*\r?\n(?:=ypart [^\r\n]*\r?\n)?", re.MULTILINE)
_YEND = re.compile(rb"^=yend\b", re.MULTILINE)
_LESS_42 = bytes((c - 42) & 255 for c in range(256))
_ESCAPED = re.compile(rb"=(.)", re.DOTALL)


def turned(data: bytes) -> Iterator[tuple[str, bytes]]:
    """How a file's bytes were turned, and the file as it was; nothing for any other."""
    some = data[:_LOOK]
    if len(some) < _LEAST:
        return
    plain = some.isascii()
    if plain and _share(some, _TURNED_SMALL) > 0.08 and _like_text(some.translate(_ROT47)):
        yield "rot47", data.translate(_ROT47)
    if plain and _share(some, _BLANKS) > 0.04:
        return
    if len(set(some[:_GLANCE])) > _MOST_AT_A_GLANCE:
        return
    counts = np.bincount(np.frombuffer(some, dtype=np.uint8), minlength=256)
    if np.count_nonzero(counts) > _MOST_BYTES or _like_text(some):
        return
    most = int(counts.argmax())
    for how, table in (
        (f"xor {most ^ 32}", bytes(c ^ most ^ 32 for c in range(256))),
        (f"plus {(most - 32) & 255}", bytes((c - most + 32) & 255 for c in range(256))),
    ):
        if _like_text(some.translate(table)):
            yield how.split()[0], data.translate(table)


def yenc_runs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each yEnc block begins, and what it stands for."""
    for match in _YENC.finditer(data):
        end = _YEND.search(data, match.end())
        body = data[match.end() : end.start() if end else len(data)].translate(None, b"\r\n")
        plain = _ESCAPED.sub(lambda found: bytes([(found.group(1)[0] - 64) & 255]), body)
        yield match.start(), plain.translate(_LESS_42)


def _share(some: bytes, of: bytes) -> float:
    return 1 - len(some.translate(None, of)) / len(some)


def _like_text(some: bytes) -> bool:
    """Whether bytes look like prose or code: shown ones, many small letters and blanks among them."""
    return (
        _share(some, _SHOWN) > 0.97
        and _share(some, _SMALL) > 0.3
        and _share(some, _BLANKS) > 0.08
        and len(_LETTERS.intersection(some)) >= _FEWEST_LETTERS
    )
