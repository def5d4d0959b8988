"""The functions that a hunk touches, as syntax trees.

A hunk that carries its whole functions as context is cut at `def` lines; each piece is parsed on its
own, so that one file that does not parse (another Python, a template) spoils nothing else.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from race.core.mining.diffs import Line

_DEF = re.compile(r"^(?P<indent>[ \t]*)(?:async[ \t]+)?def[ \t]+(?P<name>\w+)")
_MOST_LINES = 600


@dataclass(frozen=True)
class Function:
    """One function of one side of a hunk. `changed` are line numbers of its own source, from 1.

    `whole` says that its `def` line was touched: it is new, gone, or its signature differs.
    """

    name: str
    source: tuple[str, ...]
    changed: frozenset[int]
    whole: bool

    @property
    def asynchronous(self) -> bool:
        """Is it a coroutine function?"""
        first = next(text for text in self.source if _DEF.match(text))
        return first.lstrip().startswith("async")

    @cached_property
    def tree(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Its syntax tree, or None when the piece does not parse."""
        return _parse(self.source)


def cut(side: Sequence[Line]) -> tuple[list[Function], list[str]]:
    """One side of a hunk: its outermost functions that hold a changed line, and the changed lines
    outside of every function (module level, class bodies)."""
    functions: list[Function] = []
    loose: list[str] = []
    index = 0
    while index < len(side):
        text, changed = side[index]
        match = _DEF.match(text) if "def" in text else None
        if match is None:
            if changed:
                loose.append(text)
            index += 1
            continue
        end = _end(side, index, _depth(match["indent"] + "x"))
        if any(line.changed for line in side[index:end]):
            start = _start(side, index)
            functions.append(_function(match["name"], side[start:end], index - start))
        index = end
    return functions, loose


def _depth(text: str) -> int:
    """How far a line is indented."""
    if "\t" in text:
        text = text.expandtabs(8)
    return len(text) - len(text.lstrip(" "))


def _end(side: Sequence[Line], start: int, indent: int) -> int:
    """The line after a function: the first that is not deeper than its `def`, brackets aside."""
    index = start + 1
    while index < len(side):
        text = side[index].text
        body = text.lstrip()
        if body and _depth(text) <= indent and body[0] not in "#)]}":
            return index
        index += 1
    return index


def _start(side: Sequence[Line], index: int) -> int:
    """Where the decorators of the function at `index` begin."""
    while index and side[index - 1].text.lstrip().startswith("@"):
        index -= 1
    return index


def _function(name: str, piece: Sequence[Line], offset: int) -> Function:
    source = tuple(line.text for line in piece)
    changed = frozenset(number for number, line in enumerate(piece, 1) if line.changed)
    return Function(name, source, changed, piece[offset].changed)


def _dedented(text: str) -> str:
    """`textwrap.dedent`, quickly where every line is as deep as the first."""
    depth = len(text) - len(text.lstrip(" "))
    if not depth:
        return text
    lines = text.split("\n")
    margin = " " * depth
    if all(line.startswith(margin) or not line.strip() for line in lines):
        return "\n".join(line[depth:] for line in lines)
    return textwrap.dedent(text)


def _parse(source: Sequence[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    if len(source) > _MOST_LINES:
        return None
    text = "\n".join(source)
    text = _dedented(text.expandtabs(8) if "\t" in text else text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    first = body[0] if body else None
    return first if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef) else None
