"""Edits of how long a test waits for something: not at all, or as long as before and longer.

A test may assert nothing and only wait, with a limit, for what does not come without the fix. A control
of it must make the wait itself fail. Only waits of asyncio's own objects are edited, which the function
made itself: without time they fail whatever else is done. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast

import riddles
from assertions import Edit, Text

_WAITS = ("wait", "get", "join", "acquire")
_OBJECTS = ("Event", "Queue", "LifoQueue", "PriorityQueue", "Condition", "Lock", "Semaphore")
LATE, IN_TIME = "late", "in time"


def edits_of_waits(text: Text, nodes: list[ast.AST]) -> list[Edit]:
    """False and neutral edits of each limited wait among the nodes of a function."""
    own = {node.targets[0].id for node in nodes if isinstance(node, ast.Assign) and _is_made(node)}
    found = []
    for node in nodes:
        limit = _limit(node, own) if isinstance(node, ast.Call) else None
        if limit is not None:
            for kind, template in ((LATE, riddles.NONE), (IN_TIME, riddles.SOME)):
                said = text.of(limit) + b" * " + template
                found.append(Edit(kind, *text.span(limit), said, neutral=kind == IN_TIME))
    return found


def _is_made(node: ast.Assign) -> bool:
    """Does a name get an object of asyncio here, as in `called = asyncio.Event()`?"""
    called = node.value.func if isinstance(node.value, ast.Call) else None
    return (
        isinstance(node.targets[0], ast.Name)
        and isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id == "asyncio"
        and called.attr in _OBJECTS
    )


def _limit(node: ast.Call, own: set[str]) -> ast.Constant | None:
    """The limit of `asyncio.wait_for(called.wait(), 5)`, if what is waited for is `own`."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    limits = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "timeout")]
    if name != "wait_for" or not node.args or len(limits) != 1:
        return None
    waited, limit = node.args[0], limits[0]
    method = waited.func if isinstance(waited, ast.Call) else None
    if not isinstance(method, ast.Attribute) or method.attr not in _WAITS:
        return None
    of = method.value
    known = isinstance(of, ast.Name) and of.id in own
    number = isinstance(limit, ast.Constant) and type(limit.value) in (int, float)
    return limit if known and number and limit.value > 0 else None


def is_late(edit: Edit) -> bool:
    """Does an edit take the time from a wait?"""
    return edit.kind.endswith(LATE)
