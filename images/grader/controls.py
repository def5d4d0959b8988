"""Variants of hidden tests: false ones, which must fail, and neutral ones, which must still pass.

A negative control is not an extra test. It is a hidden test itself, in its own file, in a run like
any other, with one small edit: an assertion negated, an expected value or exception swapped, or one
more assertion that is false. In runs of false and of true tests every function that such an assertion
may be added to has one of the same look, which is true unless it is the one that is turned false, and
in both the test has a made-up name. Which edits are made is drawn anew for each grading from a secret
of the release. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import hmac
import random
import re
from typing import Sequence

from assertions import Edit, text_of
from edits import OUTER, edits_of, name_place

Function = tuple
"""A test function: path and names of classes and function, as `function_of` gives it."""
STILL_PASSES = (
    "%s still passes after an assertion in it, or in a helper of it, was made false: it is not the "
    "behaviour under test that makes it pass"
)
"""What is said of a negative control that did not fail."""
_NEUTRAL = {"again": "ready", "end": "goes on", "late": "in time"}
"""False kinds with their neutral twins."""
_WORDS = (
    "early", "late", "twice", "order", "empty", "full", "many", "pending", "again", "nested", "shared",
    "closed", "idle", "resumed", "outer", "inner", "first", "second", "default", "custom", "released",
)  # fmt: skip


def drawing(secret: bytes, nonce: str, purpose: str) -> random.Random:
    """A source of choices that only the holder of the secret can repeat."""
    seed = hmac.new(secret, (nonce + ":" + purpose).encode(), hashlib.sha256).digest()
    return random.Random(int.from_bytes(seed, "big"))


def neutral_kind(kind: str) -> str:
    """The kind of neutral edits that stand where a false one of this kind does; empty if none do."""
    owner, _, last = kind.rpartition(" ")
    twin = _NEUTRAL.get(last, "")
    return (owner + " " + twin).strip() if twin else ""


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


@functools.lru_cache(maxsize=64)
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
        self.groups = by_function(ids)
        self._nodes: dict[Function, ast.AST] = {}
        self.edits: dict[Function, list[Edit]] = {}
        parsed = {path: functions_of(source) for path, source in files.items()}
        for function in self.groups:
            path, names = function
            node = parsed.get(path, {}).get(names)
            if node is not None:
                self._nodes[function] = node
                self.edits[function] = edits_of(files[path], node)

    def numbered(self, function: Function, neutral: bool) -> list[tuple[int, Edit]]:
        """A function's false or neutral edits with their numbers; kinds take turns, ends come first."""
        kinds: dict[str, list[tuple[int, Edit]]] = {}
        for number, edit in enumerate(self.edits.get(function, ())):
            if edit.neutral == neutral:
                kinds.setdefault(edit.kind, []).append((number, edit))
        rows = [sorted(row, key=lambda entry: not entry[1].last) for row in kinds.values()]
        longest = max((len(row) for row in rows), default=0)
        return [row[place] for place in range(longest) for row in rows if place < len(row)]

    def owns(self, function: Function, edit: Edit) -> bool:
        """Does an edit lie within its function's own text, so that no other test is touched by it?"""
        node = self._nodes.get(function)
        if node is None or edit.kind == "again":
            return False
        text = text_of(self.files[function[0]])
        start, end = text.span(node)
        return not edit.path and start <= edit.start and edit.end <= max(end, text.after(node))

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
        self,
        chosen: dict[Function, tuple[Edit | None, str]],
        draw: random.Random,
        more: Sequence[tuple[Function, Edit]] = (),
    ) -> dict[str, bytes]:
        """The files with each function's edit made and its name changed, where one is given.

        `more` are further edits, with the functions that they are made for.
        """
        pieces: dict[str, list[tuple[int, int, bytes]]] = {}
        edits = {id(edit): (edit.path or function[0], edit)  # one may be there for several functions
                 for function, edit in [*((f, edit) for f, (edit, _) in chosen.items()), *more]
                 if edit is not None}  # fmt: skip
        for path, edit in edits.values():
            pieces.setdefault(path, []).append((edit.start, edit.end, edit.written(draw)))
        for function, (_, name) in chosen.items():
            path = function[0]
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


class HelperEdit:
    """An edit of a helper, and whom it concerns: what the trial found out, as it is written down.

    `ids` fail with it, or pass when it is neutral; `reached` are all fail-to-pass functions that may
    come to the helper, which `helper` tells from others. `known`: the base has the same file, so that an
    edit can be seen.
    """

    def __init__(
        self, edit: Edit, helper: int, ids: list[str], reached: list[Function], known: bool = False
    ) -> None:
        self.edit, self.helper, self.ids, self.reached = edit, helper, set(ids), set(reached)
        self.known = known

    @classmethod
    def read(cls, row: dict) -> HelperEdit:
        """From a row of the trial's `outer`."""
        text = row["text"].encode("utf-8", "surrogateescape")
        place = row["start"], row["end"]
        edit = Edit(row["kind"], *place, text, row["path"], neutral=row["neutral"])
        edit.last, edit.owner = row["last"], OUTER
        reached = [(entry[0], tuple(entry[1:])) for entry in row["reached"]]
        return cls(edit, row["helper"], row["ids"], reached, row["known"])

    def row(self) -> dict:
        """As JSON holds it."""
        edit = self.edit
        return {"kind": edit.kind, "path": edit.path, "start": edit.start, "end": edit.end,
                "last": edit.last, "neutral": edit.neutral,
                "text": edit.text.decode("utf-8", "surrogateescape"),
                "helper": self.helper, "known": self.known,
                "ids": sorted(self.ids),
                "reached": sorted([path, *names] for path, names in self.reached)}  # fmt: skip


HelperPick = tuple
"""A test function with the helper's edit (a HelperEdit) that is to make it fail."""


def helper_rounds(
    functions: list[Function], edits: list[HelperEdit], ids: dict, draw: random.Random, most: int
) -> list[list[HelperPick]]:
    """Which helpers' edits are made in which run: up to `most` for each function.

    In one run no function may come to a helper that is edited for another function's sake, unless it is
    the same edit and works for both. `ids` are those of each function.
    """
    rounds: list[list[HelperPick]] = []
    for function in functions:
        own = [edit for edit in edits if edit.ids.intersection(ids[function])]
        for choices in _ways_of_helpers(own, draw)[:most]:
            for there in rounds:
                pick = next((edit for edit in choices if _goes_with(function, edit, there)), None)
                if pick is not None:
                    there.append((function, pick))
                    break
            else:
                rounds.append([(function, choices[0])])
    return rounds


def _ways_of_helpers(edits: list[HelperEdit], draw: random.Random) -> list[list[HelperEdit]]:
    """First one way for each helper, then others, and those last that can be known.

    Each way is a list of edits of one kind, in a drawn order: those at the helper's end, if any.
    Another expected value comes before the opposite.
    """
    helpers: dict[int, dict[str, list[HelperEdit]]] = {}
    for edit in draw.sample(edits, len(edits)):
        helpers.setdefault(edit.helper, {}).setdefault(edit.edit.kind, []).append(edit)
    first, others = [], []
    for kinds in helpers.values():
        ways = [[edit for edit in kinds[kind] if edit.edit.last] or kinds[kind] for kind in kinds]
        ways.sort(key=lambda way: not way[0].edit.kind.endswith("value"))
        first.append(ways[0])
        others += ways[1:]
    draw.shuffle(others)
    return sorted(first + others, key=lambda way: way[0].known)


def _goes_with(function: Function, edit: HelperEdit, there: list[HelperPick]) -> bool:
    return all(
        neighbour != function
        and (other is edit or (function not in other.reached and neighbour not in edit.reached))
        for neighbour, other in there
    )


def renamed(nodeid: str, name: str) -> str:
    """A node id with the function's name changed."""
    if not name:
        return nodeid
    path, names = function_of(nodeid)
    head = "::".join((path, *names))
    return "::".join((path, *names[:-1], name)) + nodeid[len(head) :]
