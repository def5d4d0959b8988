"""What a callable accepts and gives, as its source declares it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from race.core.interface.symbols import Class, Function, dotted
from race.core.interface.tree import SourceTree
from race.core.interface.uses import Use


@dataclass(frozen=True)
class Accepted:
    """Parameters of a callable. `positional` is None when it takes any number."""

    keywords: frozenset[str]
    any_keyword: bool
    positional: tuple[str, ...] | None


def accepted(tree: SourceTree, callee: Function | Class) -> Accepted | None:
    """The parameters of a function, or of a class's constructor; None when sources do not tell."""
    if isinstance(callee, Function):
        arguments = callee.node.args
        names = None if arguments.vararg else tuple(callee.positional())
        return Accepted(frozenset(callee.keywords()), arguments.kwarg is not None, names)
    for cls in tree.lineage(callee):
        for name in ("__init__", "__new__"):
            maker = cls.members.get(name)
            if isinstance(maker, Function):
                return accepted(tree, maker)
        if cls.declares_fields:
            fields = [name for item in reversed(tree.lineage(callee)) for name in item.fields()]
            return Accepted(frozenset(fields), False, tuple(dict.fromkeys(fields)))
    return None


def call_shape(tree: SourceTree, callee: Function | Class, uses: list[Use]) -> str:
    """The call that tests make of something new, as `(a, *, b=...)`.

    Only what tests pass and what must be passed is named: the rest of a signature is the fix's own.
    """
    maker = callee
    if isinstance(callee, Class):
        found = tree.member(callee, "__init__")
        if not isinstance(found, Function):
            takes = accepted(tree, callee)
            return f"({', '.join(takes.positional or ())})" if takes else "()"
        maker = found
    assert isinstance(maker, Function)
    keywords: set[str] = set()
    count = 0
    for use in uses:
        loose = use.kind == "loose-call" and use.name == maker.name
        if loose or (use.kind == "call" and use.owner in (callee, maker)):
            keywords.update(use.keywords)
            count = max(count, use.positional)
    required = set(maker.required())
    positional = [
        name for place, name in enumerate(maker.positional()) if place < count or name in required
    ]
    named = [
        name
        for name in dict.fromkeys([*maker.keywords(), *sorted(keywords)])
        if name not in positional and (name in keywords or name in required)
    ]
    parts = positional + (["*"] if named else [])
    parts += [name if name in required else f"{name}=..." for name in named]
    return f"({', '.join(parts)})"


def result_sizes(function: Function) -> set[int]:
    """How many values a function returns, for each way that is spelled out as a tuple."""
    returns = function.node.returns
    if isinstance(returns, ast.Subscript) and dotted(returns).split(".")[-1].lower() == "tuple":
        inner = returns.slice
        if isinstance(inner, ast.Tuple) and not any(
            isinstance(item, ast.Constant) and item.value is Ellipsis for item in inner.elts
        ):
            return {len(inner.elts)}
    return {
        len(node.value.elts)
        for node in ast.walk(function.node)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
    }


def returns_value(function: Function) -> bool:
    """It returns or yields something other than None in a statement of its own."""
    queue: list[ast.AST] = list(function.node.body)
    while queue:
        node = queue.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        given = node.value if isinstance(node, ast.Return) else None
        if given is not None and not (isinstance(given, ast.Constant) and given.value is None):
            return True
        queue.extend(ast.iter_child_nodes(node))
    return False


def result_type(function: Function) -> str:
    """What it returns in a word or two: the outermost name of its annotation, or `a value`."""
    name = dotted(function.node.returns) if function.node.returns is not None else ""
    last = name.rpartition(".")[2]
    return f"a {last}" if last and last not in ("None", "Any", "Optional", "Union") else "a value"
