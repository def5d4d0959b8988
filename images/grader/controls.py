"""Variants of hidden tests: false ones, which must fail, and neutral ones, which must still pass.

A negative control is not an extra test. It is a hidden test itself, in its own file, in a run like
any other, with one small edit: an assertion negated, an expected value or exception swapped, or one
more assertion that is false of what the test looks at. Runs of the true tests alone get an edit of the
same look that changes nothing, and in both the test has a made-up name. Which edits are made is drawn
anew for each grading from a secret of the release. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import hashlib
import hmac
import random
import re

from edits import Edit, Text, edits_of, name_place

Function = tuple
"""A test function: path and names of classes and function, as `function_of` gives it."""
_WORDS = (
    "early", "late", "twice", "order", "empty", "full", "many", "pending", "again", "nested", "shared",
    "closed", "idle", "resumed", "outer", "inner", "first", "second", "default", "custom", "released",
)  # fmt: skip


def drawing(secret: bytes, nonce: str, purpose: str) -> random.Random:
    """A source of choices that only the holder of the secret can repeat."""
    seed = hmac.new(secret, (nonce + ":" + purpose).encode(), hashlib.sha256).digest()
    return random.Random(int.from_bytes(seed, "big"))


def function_of(nodeid: str) -> Function:
    """The function of a node id: path, and names of classes and function, without parameters."""
    path, _, rest = nodeid.partition("::")
    return path, tuple(re.sub(r"\[.*$", "", rest, flags=re.DOTALL).split("::"))


def by_function(ids: list[str]) -> dict[Function, list[str]]:
    """Ids grouped by their function, in order."""
    groups: dict[Function, list[str]] = {}
    for nodeid in ids:
        groups.setdefault(function_of(nodeid), []).append(nodeid)
    return groups


def functions_of(source: bytes) -> dict[tuple, ast.AST]:
    """Test functions of a file by names of classes and function; those that occur once."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found: dict[tuple, list[ast.AST]] = {}

    def visit(body: list, names: tuple) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault((*names, node.name), []).append(node)
            elif isinstance(node, ast.ClassDef):
                visit(node.body, (*names, node.name))
            elif isinstance(node, (ast.If, ast.Try, ast.With)):
                visit(node.body, names)
                visit(getattr(node, "orelse", []), names)

    visit(tree.body, ())
    return {names: nodes[0] for names, nodes in found.items() if len(nodes) == 1}


class Book:
    """The test functions that can be edited, with their edits: what both trial and grading draw from."""

    def __init__(self, files: dict[str, bytes], ids: list[str]) -> None:
        self.files = files
        self._nodes: dict[Function, ast.AST] = {}
        self.edits: dict[Function, list[Edit]] = {}
        parsed = {path: functions_of(source) for path, source in files.items()}
        for function in by_function(ids):
            path, names = function
            node = parsed.get(path, {}).get(names)
            if node is not None:
                self._nodes[function] = node
                self.edits[function] = edits_of(files[path], node)

    def numbered(self, function: Function, neutral: bool) -> list[tuple[int, Edit]]:
        """A function's false or neutral edits with their numbers; kinds take turns."""
        kinds: dict[str, list[tuple[int, Edit]]] = {}
        for number, edit in enumerate(self.edits.get(function, ())):
            if edit.neutral == neutral:
                kinds.setdefault(edit.kind, []).append((number, edit))
        rows = list(kinds.values())
        longest = max((len(row) for row in rows), default=0)
        return [row[place] for place in range(longest) for row in rows if place < len(row)]

    def owns(self, function: Function, edit: Edit) -> bool:
        """Does an edit lie within its function's own text, so that no other test is touched by it?"""
        node = self._nodes.get(function)
        if node is None or edit.kind == "again":
            return False
        start, end = Text(self.files[function[0]]).span(node)
        return start <= edit.start and edit.end <= end

    def new_name(self, function: Function, draw: random.Random, chosen: dict) -> str:
        """A name for a test that says nothing about it; none that `chosen`, as of `variant`, has."""
        taken = {name for _, name in chosen.values()}
        while True:
            name = "test_" + "_".join(draw.sample(_WORDS, 2))
            if name.encode() in self.files[function[0]]:
                name += "_%d" % draw.randrange(2, 99)
            if name not in taken:
                return name

    def variant(
        self, chosen: dict[Function, tuple[Edit | None, str]], draw: random.Random
    ) -> dict[str, bytes]:
        """The files with each function's edit made and its name changed, where one is given."""
        pieces: dict[str, list[tuple[int, int, bytes]]] = {}
        for function, (edit, name) in chosen.items():
            path = function[0]
            if edit is not None:
                pieces.setdefault(path, []).append((edit.start, edit.end, edit.written(draw)))
            if name:
                start, end = name_place(self.files[path], self._nodes[function])
                pieces.setdefault(path, []).append((start, end, name.encode()))
        made = {}
        for path, changes in pieces.items():
            source = self.files[path]
            for start, end, text in sorted(changes, reverse=True):
                source = source[:start] + text + source[end:]
            made[path] = source
        return made


def renamed(nodeid: str, name: str) -> str:
    """A node id with the function's name changed."""
    if not name:
        return nodeid
    path, names = function_of(nodeid)
    head = "::".join((path, *names))
    return "::".join((path, *names[:-1], name)) + nodeid[len(head) :]
