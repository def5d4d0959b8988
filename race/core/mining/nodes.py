"""What the changed nodes of a syntax tree say and do, as short named facts to be counted."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from race.core.mining.vocabulary import families

_CANCELLED = re.compile(r"Cancel|BaseException|KeyboardInterrupt|GeneratorExit|get_cancelled_exc_class")
_GUARDED = re.compile(r"lock|mutex|sem|cond|limiter|guard|atomic", re.IGNORECASE)
_ENDED = (
    "done",
    "cancelled",
    "is_closed",
    "is_closing",
    "is_alive",
    "is_running",
    "closed",
    "is_set",
    "locked",
)


def facts_of(node: ast.AST) -> Sequence[str]:
    """What one node says and does."""
    read = _READERS.get(type(node))
    return read(node) if read is not None else ()


@lru_cache(maxsize=1 << 14)
def _said(identifier: str) -> tuple[str, ...]:
    return tuple(f"says:{family}" for family in families(identifier))


def _loop(node: ast.For | ast.AsyncFor | ast.comprehension) -> list[str]:
    copied = isinstance(node.iter, ast.Call) and called(node.iter.func) in ("list", "tuple", "copy")
    return [
        *(["for:copy"] if copied else []),
        *(["async for"] if isinstance(node, ast.AsyncFor) else []),
    ]


def _handler(node: ast.ExceptHandler) -> list[str]:
    said = ast.unparse(node.type) if node.type is not None else "BaseException"
    facts = ["except"]
    if _CANCELLED.search(said):
        facts.append("except:cancel")
        if any(isinstance(inner, ast.Raise) for inner in node.body):
            facts.append("except:cancel-again")
    named = ("RuntimeError", "InvalidStateError", "KeyError")
    return facts + [f"except:{name}" for name in named if name in said]


def _call(node: ast.Call) -> list[str]:
    name = called(node.func)
    facts = [f"call:{name}"]
    if name in ("skip", "skipif", "skipUnless", "skipIf", "xfail", "importorskip", "skipTest"):
        facts.append("skip")
    if name.lower().startswith("assert") or name in ("raises", "warns", "fail", "deprecated_call"):
        facts.append("check")
    if name == "parametrize":
        facts.append("parametrize")
    return facts


def _with(node: ast.With | ast.AsyncWith) -> list[str]:
    facts = ["async with"] if isinstance(node, ast.AsyncWith) else ["with"]
    said = " ".join(ast.unparse(item.context_expr) for item in node.items)
    if _GUARDED.search(said):
        facts.append("with:lock")
    if re.search(r"shield|fail_after|move_on|CancelScope|timeout|wait_for", said):
        facts.append("with:cancel")
    if re.search(r"TaskGroup|task_group|nursery|ThreadPool|Executor|Runner", said):
        facts.append("with:tasks")
    if "raises" in said and re.search(r"Cancel|Timeout|Closed|Broken|RuntimeError|Deadlock|Busy", said):
        facts.append("with:raises-async")
    return facts


def _condition(test: ast.expr) -> list[str]:
    said = {
        family
        for node in ast.walk(test)
        if isinstance(node, ast.Name | ast.Attribute)
        for family in families(node.id if isinstance(node, ast.Name) else node.attr)
    }
    facts = ["if"]
    if any(isinstance(n, ast.Call) and called(n.func) in _ENDED for n in ast.walk(test)):
        facts.append("if:ended")
    if said & {"close", "cancel", "race", "wake", "lock", "loop", "thread"}:
        facts.append("if:state")
    if any(isinstance(node, ast.Is | ast.IsNot) for node in ast.walk(test)):
        facts.append("if:identity")
    return facts


def called(func: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


_READERS: dict[type[ast.AST], Callable[[Any], Sequence[str]]] = {
    ast.Name: lambda node: _said(node.id),
    ast.Attribute: lambda node: _said(node.attr),
    ast.arg: lambda node: _said(node.arg),
    ast.Call: _call,
    ast.Await: lambda node: ("await",),
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: lambda node: ("try", "finally") if node.finalbody else ("try",),
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.comprehension: _loop,
    ast.Nonlocal: lambda node: ("nonlocal",),
    ast.FunctionDef: lambda node: ("def",),
    ast.AsyncFunctionDef: lambda node: ("async def",),
    ast.ExceptHandler: _handler,
    ast.If: lambda node: _condition(node.test),
    ast.While: lambda node: ["while", *_condition(node.test)],
    ast.Raise: lambda node: ("raise",),
    ast.Assert: lambda node: ("check",),
}


def changed_nodes(
    tree: ast.FunctionDef | ast.AsyncFunctionDef, changed: frozenset[int]
) -> Iterator[ast.AST]:
    """Nodes that begin on a changed line; subtrees without one are not entered."""
    offset = _offset(tree)
    lines = sorted(number - offset for number in changed)
    wanted = set(lines)
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if getattr(node, "lineno", None) in wanted:
            yield node
        for name in _FIELDS.get(type(node), ()):
            value = getattr(node, name, None)
            if isinstance(value, list):
                stack += [
                    child for child in value if isinstance(child, ast.AST) and _within(lines, child)
                ]
            elif isinstance(value, ast.AST) and _within(lines, value):
                stack.append(value)


def _within(lines: list[int], node: ast.AST) -> bool:
    """Is one of these sorted lines inside the node, its decorators included?"""
    first: int | None = getattr(node, "lineno", None)
    if first is None:
        return True
    decorators: list[ast.expr] | None = getattr(node, "decorator_list", None)
    if decorators:
        first = min(first, decorators[0].lineno)
    index = bisect_left(lines, first)
    return index < len(lines) and lines[index] <= getattr(node, "end_lineno", first)


_NO_CHILDREN = frozenset(
    ["ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment", "level",
     "conversion", "simple", "is_async", "module"]
)  # fmt: skip


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in _NO_CHILDREN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind is not ast.Constant
}
"""The fields of each kind of node that can hold nodes with facts."""


def _offset(tree: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """What to add to a node's line for its line in the function's source, decorators included."""
    return 1 - min([tree.lineno, *(d.lineno for d in tree.decorator_list)])
