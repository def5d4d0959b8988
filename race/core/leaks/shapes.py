"""A copy of the fix in which the names were changed: the same tokens but for its identifiers.

Changing names leaves punctuation alone, so that a file is first searched for the punctuation of a
few neighbouring lines of the fix; what holds it is then compared token by token, where each name
must stand for the same other name throughout, and keywords, numbers and strings for themselves.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from race.core.leaks.matcher import Matcher

SUFFIXES = (".py", ".pyi", ".pyx")
SHORTEST = 22
"""Punctuation marks of the shortest shape."""

LEAST_TOKENS = 36
LEAST_NAMES = 6
"""Different names in a shape; fewer are the skeleton of too many functions."""

MOST_LINES = 9
MOST = 80

_DELETED = bytes(c for c in range(256) if chr(c).isalnum() or c in b"_ \t\r\n\x0b\x0c\x00" or c > 126)
_TOKEN = re.compile(
    rb"[A-Za-z_]\w*|\d[\w.]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|#[^\n]*|[^\s\w]", re.ASCII
)
_FIXED = frozenset(
    name.encode() for name in (*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "self", "cls")
)


@dataclass(frozen=True)
class Shape:
    """Some lines by their tokens; `marks` is their punctuation."""

    tokens: tuple[bytes, ...]
    marks: bytes


def marks(text: bytes) -> bytes:
    """The punctuation of a text, comments and all."""
    return text.translate(None, _DELETED)


def tokens(text: bytes) -> list[bytes]:
    """Tokens of Python code, comments left out."""
    return [token for token in _TOKEN.findall(text) if not token.startswith(b"#")]


def shape_of(lines: Sequence[bytes]) -> Shape | None:
    """The shape of some lines; None when it would be anybody's."""
    if any(b"#" in line or b'"""' in line or b"'''" in line for line in lines):
        return None
    text = b"\n".join(lines)
    found, punctuation = tokens(text), marks(text)
    names = {token for token in found if _is_name(token)}
    if len(found) < LEAST_TOKENS or len(punctuation) < SHORTEST or len(names) < LEAST_NAMES:
        return None
    return Shape(tuple(found), punctuation)


def windows(after: Sequence[tuple[int, bytes, bool]]) -> Iterator[tuple[frozenset[int], list[bytes]]]:
    """Neighbouring lines of a hunk's new side, at least half of them new: the shortest that have a
    shape, from each line on. Gives the numbers of the new lines, and the lines."""
    full = [(number, line) for number, line, _ in after if line.strip()]
    for start in range(len(full)):
        for size in range(3, MOST_LINES + 1):
            some = full[start : start + size]
            if len(some) < size:
                break
            fresh = frozenset(number for number, _ in some if number >= 0)
            if len(fresh) * 2 >= size and shape_of([line for _, line in some]) is not None:
                yield fresh, [line for _, line in some]
                break


def _is_name(token: bytes) -> bool:
    return (token[:1].isalpha() or token[:1] == b"_") and token not in _FIXED


def same_shape(shape: Shape, some: Sequence[bytes]) -> bool:
    """Whether tokens are those of a shape with its names changed, each to another one throughout."""
    there: dict[bytes, bytes] = {}
    back: dict[bytes, bytes] = {}
    for mine, other in zip(shape.tokens, some, strict=True):
        if _is_name(mine) and _is_name(other):
            if there.setdefault(mine, other) != other or back.setdefault(other, mine) != mine:
                return False
        elif mine != other:
            return False
    return True


class ShapeSearch:
    """Looks for shapes in Python files."""

    def __init__(self, shapes: Iterable[tuple[int, Shape]]) -> None:
        self._shapes = list(shapes)
        self._matcher = Matcher([shape.marks for _, shape in self._shapes])

    def __bool__(self) -> bool:
        return bool(self._shapes)

    def find(self, data: bytes) -> dict[int, bytes]:
        """Numbers of the shapes that a file holds, each with where it does."""
        likely = {number for _, number in self._matcher.find(marks(data))} if self._shapes else set()
        if not likely:
            return {}
        places = [m for m in _TOKEN.finditer(data) if not m.group().startswith(b"#")]
        every = [m.group() for m in places]
        found = {}
        for index in sorted(likely):
            number, shape = self._shapes[index]
            at = _place(shape, every)
            if at >= 0:
                last = places[at + len(shape.tokens) - 1]
                found[number] = data[places[at].start() : last.end()]
        return found


def _place(shape: Shape, every: Sequence[bytes]) -> int:
    size = len(shape.tokens)
    marks_only = [token if not _is_name(token) else b"" for token in shape.tokens]
    for at in range(len(every) - size + 1):
        if marks_only[0] and every[at] != marks_only[0]:
            continue
        if same_shape(shape, every[at : at + size]):
            return at
    return -1
