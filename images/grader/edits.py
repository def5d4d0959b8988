"""False edits of a test function or a helper, and (neutral) ones that leave it as true as it was.

Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import itertools
import re

import riddles
from assertions import Edit, Text, in_place, is_raises, text_of
from subjects import subjects
from waits import edits_of_waits

INNER = "inner"
"""The owner of edits in a function that a test defines for itself, with the function's number."""
OUTER = "outer"
"""The owner of edits of helpers: functions of the tests' files that are no tests themselves."""


def name_place(source: bytes, function: ast.AST) -> tuple[int, int]:
    """Where a function's name stands."""
    text = text_of(source)
    start = text.lines[function.lineno - 1] + function.col_offset
    match = re.compile(rb"(?:async\s+)?def\s+").match(source, start)
    begin = match.end() if match else start
    return begin, begin + len(function.name.encode())


def edits_of(source: bytes, function: ast.AST) -> list[Edit]:
    """Every edit that can be made to a test function, in a fixed order.

    Edits in place come first: what they leave is a test like any other. What shows (an added line, a
    whole condition in parentheses) is made only where there is no place for the others. Functions that
    the test defines for itself get edits of their own: whatever runs them can swallow what they raise.
    """
    text = text_of(source)
    found = _of_function(text, function, "", source)
    found += _first_time(text, function)
    for number, inner in enumerate(inner_functions(own_nodes(function))):
        found += _of_function(text, inner, "%s %d" % (INNER, number), source)
    return found


def helper_edits(source: bytes, function: ast.AST, path: str, said: bytes) -> list[Edit]:
    """Edits of a helper and what it defines: false ones, first those made when it comes to its end.

    Then a neutral one of each of these functions. Only of what the tests' files, `said`, run to its end.
    None is sure: that it makes a test fail has to be tried.
    """
    text = text_of(source)
    rows, neutral = [], []
    for one in (function, *inner_functions(own_nodes(function))):
        if is_driven(one, said):
            edits = _of_function(text, one, OUTER, said)
            last = [edit for edit in edits if edit.last and not edit.neutral]
            more = [edit for edit in edits if not edit.last and not edit.neutral]
            rows.append(_kinds_in_turn(last) + _kinds_in_turn(more))
            first = {edit.kind: edit for edit in reversed(edits) if edit.neutral}
            neutral += first.values()
    found = _in_turn(rows) + neutral
    for edit in found:
        edit.path = path
    return found


def is_driven(function: ast.AST, said: bytes) -> bool:
    """Does whoever uses a function wait for its end, so that a test cannot pass before it is there?

    Called or awaited by its name, or run by an event loop, or a fixture; no callback, thread or task.
    """
    name = re.escape(function.name.encode())
    if any(b"fixture" in ast.dump(entry).encode() for entry in function.decorator_list):
        return True
    if isinstance(function, ast.AsyncFunctionDef):
        return bool(re.search(rb"(\b(run\w*|wait_for|gather)\(\s*|\bawait\s+)(\w+\.)*%s\b" % name, said))
    called = rb"(?<!def )(?<![\w])%s\(" % name
    return function.name.lower().startswith(("setup", "set_up")) or bool(re.search(called, said))


def _kinds_in_turn(edits: list[Edit]) -> list[Edit]:
    rows: dict[str, list[Edit]] = {}
    for edit in edits:
        rows.setdefault(edit.kind, []).append(edit)
    return _in_turn(list(rows.values()))


def _in_turn(rows: list[list[Edit]]) -> list[Edit]:
    """The first of each row, then the second of each, and so on."""
    return [edit for turn in itertools.zip_longest(*rows) for edit in turn if edit is not None]


def _of_function(text: Text, function: ast.AST, owner: str, said: bytes) -> list[Edit]:
    """Edits of a function's own body; with an `owner`, which their kinds then name, none is sure.

    Those at its end are `last`: whatever leaves the function early, and says that it did not, is found
    out by them. A plain helper that asserts nothing has none, nor has what nobody waits for.
    """
    nodes = own_nodes(function)
    early = owner or any(isinstance(node, ast.Return) for node in nodes)
    found, wrapped = in_place(text, nodes, set() if early else {id(node) for node in function.body})
    found, more = (found, wrapped) if found else (wrapped, [])
    last = _blocks(function)[-1][-1]
    start, end = text.span(last)
    loops = isinstance(last, (ast.For, ast.AsyncFor, ast.While))  # ends long after it first comes by
    waited = not owner or is_driven(function, said)
    silent = owner and not found and not isinstance(function, ast.AsyncFunctionDef)
    if waited and not silent and (loops or not _mark(found, start, end)):
        more = [edit for edit in more if not loops and start <= edit.start and edit.end <= end]
        more = more or _final_edits(text, function, nodes)
        _mark(more, 0, len(text.source) + 1)
        found = found + more
    found = found + edits_of_waits(text, nodes)
    for edit in found:
        if owner:
            edit.kind, edit.owner, edit.sure = owner + " " + edit.kind, owner, False
    return found


def _mark(edits: list[Edit], start: int, end: int) -> bool:
    """Mark the edits of this part of the text as the last; are there any?"""
    for edit in edits:
        edit.last = start <= edit.start and edit.end <= end
    return any(edit.last for edit in edits)


def _blocks(function: ast.AST) -> list[list[ast.AST]]:
    """The blocks that a function ends with, one in the other; the statement that it ends with is last.

    A block that has to raise is a statement like any other: what follows in it is never run.
    """
    found = [function.body]
    while True:
        last = found[-1][-1]
        if isinstance(last, (ast.With, ast.AsyncWith)):
            if any(isinstance(item.context_expr, ast.Call) and is_raises(item.context_expr)
                   for item in last.items):  # fmt: skip
                return found
            found.append(last.body)
        elif isinstance(last, ast.Try):
            found.append(last.orelse or last.body)
        else:
            return found


def own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function's body in order, without the insides of functions and classes in it."""
    found: list[ast.AST] = []
    pending = list(reversed(function.body))
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def inner_functions(nodes: list[ast.AST]) -> list[ast.AST]:
    """Functions and methods that these nodes define, such as the coroutine that a test runs."""
    found: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found += inner_functions(own_nodes(node))
    return found


def _room(text: Text, function: ast.AST) -> tuple[int, bytes] | None:
    """Where a function's first statement begins a line of its own, and how far it is indented."""
    first = function.body[0]
    line = text.lines[first.lineno - 1]
    indent = text.source[line : line + first.col_offset]
    if indent.strip() or first.lineno == function.lineno or getattr(first, "decorator_list", ()):
        return None
    return line, indent


def _first_time(text: Text, function: ast.AST) -> list[Edit]:
    """One more assertion at the start, which fails the first time that it is reached, then never.

    Whatever runs a test again until it passes is found out by it. The neutral one never fails.
    """
    room = _room(text, function)
    if room is None:
        return []
    line, indent = room
    lead = indent + b'assert globals().setdefault("{word}_{number}", []) or '
    last = b'globals()["{word}_{number}"].append({number})\n'
    return [Edit("again", line, line, lead + last, sure=True),
            Edit("ready", line, line, lead + b"not " + last, sure=True, neutral=True)]  # fmt: skip


def _final_edits(text: Text, function: ast.AST, nodes: list[ast.AST]) -> list[Edit]:
    """A riddle at the end, about something that the function knows; false or true."""
    found: list[Edit] = []
    blocks = _blocks(function)
    for depth in dict.fromkeys((len(blocks), 1)):
        place = _end_of(text, blocks[depth - 1])
        if place is None:
            continue
        at, lead, tail = place
        indent = lead.lstrip(b"\r\n")
        names, bound = subjects(function, nodes, blocks[:depth])
        for name in names:
            for kind, true in (("end", False), ("goes on", True)):
                if bound or not true:
                    said = lead + riddles.template(indent, name.encode(), true) + tail
                    found.append(Edit(kind, at, at, said, neutral=true))
    return found


def _end_of(text: Text, block: list[ast.AST]) -> tuple[int, bytes, bytes] | None:
    """Where a statement can be added to the end of a block, and what comes before and after it."""
    last = block[-1]
    line = text.lines[last.lineno - 1]
    indent = text.source[line : line + last.col_offset]
    if indent.strip() or not indent:
        return None
    if isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return line, indent, b"\n"
    end = text.after(last)
    return end, (b"" if text.source[:end].endswith((b"\n", b"\r")) else b"\n") + indent, b"\n"
