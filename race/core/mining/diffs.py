"""A git diff as sections, one per file, without losing a byte.

Made for `git diff --no-renames`, where a section has one path. The bytes of a section are kept as
they are, so that a patch put together from sections applies like the whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

_START = re.compile(rb"^diff --git ", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@", re.MULTILINE)
_MODE = re.compile(rb"^(old mode|new mode|new file mode|deleted file mode) (\d+)$", re.MULTILINE)
_ESCAPE = re.compile(rb'\\([abfnrtv"\\]|[0-7]{3})')
_CONTROL = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11, b'"': 34, b"\\": 92}


class Line(NamedTuple):
    """A line of one side of a hunk: its text, and whether the pull request touched it."""

    text: str
    changed: bool


@dataclass(frozen=True)
class Hunk:
    """The two sides of a hunk, whole."""

    old: tuple[Line, ...]
    new: tuple[Line, ...]


@dataclass(frozen=True)
class Section:
    """The part of a diff that is about one file."""

    path: str
    data: bytes

    @cached_property
    def head(self) -> bytes:
        """The lines before the first hunk."""
        first = _HUNK.search(self.data)
        return self.data[: first.start()] if first else self.data

    @cached_property
    def modes(self) -> dict[str, str]:
        """The mode lines of the head: `old mode`, `new mode`, `new file mode`, `deleted file mode`."""
        return {match[1].decode(): match[2].decode() for match in _MODE.finditer(self.head)}

    @property
    def binary(self) -> bool:
        """No text hunks: a binary file."""
        return b"\nGIT binary patch\n" in self.head or b"\nBinary files " in self.head

    @property
    def submodule(self) -> bool:
        """The entry is a commit of another repository."""
        return "160000" in self.modes.values() or bool(
            re.search(rb"^index [0-9a-f]+\.\.[0-9a-f]+ 160000$", self.head, re.MULTILINE)
        )

    @cached_property
    def hunks(self) -> tuple[Hunk, ...]:
        """Both sides of every hunk, decoded leniently."""
        starts = [match.start() for match in _HUNK.finditer(self.data)]
        return tuple(_hunk(self.data[a:b]) for a, b in pairwise([*starts, len(self.data)]))

    def changed_lines(self) -> tuple[list[str], list[str]]:
        """Lines taken away and lines added."""
        old, new = [], []
        for line in self.data[len(self.head) :].split(b"\n"):
            if line[:1] == b"-":
                old.append(line[1:].decode(errors="replace"))
            elif line[:1] == b"+":
                new.append(line[1:].decode(errors="replace"))
        return old, new


def _hunk(data: bytes) -> Hunk:
    old: list[Line] = []
    new: list[Line] = []
    for raw in data.decode(errors="replace").split("\n")[1:]:
        mark, text = raw[:1], raw[1:].rstrip("\r")
        if mark == " ":
            line = Line(text, False)
            old.append(line)
            new.append(line)
        elif mark == "-":
            old.append(Line(text, True))
        elif mark == "+":
            new.append(Line(text, True))
    return Hunk(tuple(old), tuple(new))


def sections(diff: bytes) -> Iterator[Section]:
    """The sections of a diff, in order; together they are the diff."""
    starts = [match.start() for match in _START.finditer(diff)]
    for start, end in pairwise([*starts, len(diff)]):
        data = diff[start:end]
        yield Section(_path(data), data)


def _path(data: bytes) -> str:
    """`diff --git a/X b/X`: both halves are the same path, quoted when it holds odd characters."""
    line = data[len(b"diff --git ") : data.find(b"\n") if b"\n" in data else len(data)]
    half = line[: (len(line) - 1) // 2]
    if half.startswith(b'"') and half.endswith(b'"'):
        half = _ESCAPE.sub(_unescape, half[1:-1])
    return os.fsdecode(half[2:])


def _unescape(match: re.Match[bytes]) -> bytes:
    said = match[1]
    return bytes([_CONTROL[said] if said in _CONTROL else int(said, 8)])
