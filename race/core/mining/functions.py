"""The functions that a hunk touches, as syntax trees.

A hunk that carries its whole functions as context is cut at `def` lines; each piece is parsed on its
own, so that one file that does not parse (another Python, a template) spoils nothing else.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from race.core.mining.diffs import Line

_DEF = re.compile(r"^(?P<indent>[ \t]*)(?:async[ \t]+)?def[ \t]+(?P<name>\w+)")
_MOST_LINES = 600


@dataclass(frozen=True)
class Function:
    """One function of one side of a hunk. `changed` are line numbers of its own source, from 1.

    `whole` says that its `def` line was touched: it is new, gone, or its signature differs.
    `tree` is None when the piece does not parse.
    """

    name: str
    source: tuple[str, ...]
    changed: frozenset[int]
    whole: bool
    tree: ast.FunctionDef | ast.AsyncFunctionDef | None


def touched_functions(side: Sequence[Line]) -> Iterator[Function]:
    """Outermost functions of one side that hold a changed line."""
    index = 0
    while index < len(side):
        match = _DEF.match(side[index].text)
        if not match:
            index += 1
            continue
        end = _end(side, index, len(match["indent"].expandtabs(8)))
        piece = side[index:end]
        if any(line.changed for line in piece):
            yield _function(match["name"], side[_start(side, index) : end], index - _start(side, index))
        index = end


def loose_lines(side: Sequence[Line]) -> list[str]:
    """Changed lines outside every function: module level, class bodies."""
    loose, index = [], 0
    while index < len(side):
        match = _DEF.match(side[index].text)
        if match:
            index = _end(side, index, len(match["indent"].expandtabs(8)))
            continue
        if side[index].changed:
            loose.append(side[index].text)
        index += 1
    return loose


def _end(side: Sequence[Line], start: int, indent: int) -> int:
    """The line after a function: the first that is not deeper than its `def`, brackets aside."""
    index = start + 1
    while index < len(side):
        text = side[index].text
        if text.strip() and not text.lstrip().startswith("#"):
            depth = len(text.expandtabs(8)) - len(text.expandtabs(8).lstrip())
            if depth <= indent and not text.lstrip().startswith((")", "]", "}")):
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
    return Function(name, source, changed, piece[offset].changed, _parse(source))


def _parse(source: Sequence[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    if len(source) > _MOST_LINES:
        return None
    text = textwrap.dedent("\n".join(source).expandtabs(8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    first = body[0] if body else None
    return first if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef) else None
