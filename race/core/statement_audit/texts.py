"""How texts and code are compared with each other: squeezed lines, tokens, runs, identifiers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from race.core.interface.applying import FileChange
from race.core.interface.symbols import Module
from race.core.interface.tree import SourceTree

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
TOKEN = re.compile(r"\w+|[^\w\s]")


def squeezed(line: str) -> str:
    """A line without any white space: how code is compared."""
    return "".join(line.split())


def tokens(text: str) -> list[str]:
    """Words and signs."""
    return TOKEN.findall(text)


def token_runs(lines: Iterable[str], size: int) -> frozenset[tuple[str, ...]]:
    """All runs of `size` tokens with at least three words in them, in small letters."""
    runs: set[tuple[str, ...]] = set()
    for line in lines:
        words = [word.lower() for word in tokens(line.strip().lstrip("#"))]
        for at in range(len(words) - size + 1):
            run = tuple(words[at : at + size])
            if sum(len(word) > 1 for word in run) >= 3:
                runs.add(run)
    return frozenset(runs)


def identifiers(module: Module) -> set[str]:
    """Every identifier of a module."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        for attribute in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, attribute, None)
            if isinstance(value, str):
                names.update(value.split("."))
    return names


def definitions(tree: SourceTree, path: str) -> dict[str, str]:
    """Functions and classes of a file by name, with their code as one text."""
    module = tree.at(path)
    if module is None:
        return {}
    return {
        node.name: ast.dump(node)
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }


def added_lines(changes: Iterable[FileChange]) -> Iterator[str]:
    """All added lines."""
    for change in changes:
        yield from change.lines(b"+")


def removed_lines(changes: Iterable[FileChange]) -> Iterator[str]:
    """All removed lines."""
    for change in changes:
        yield from change.lines(b"-")
