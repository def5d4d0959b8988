"""Calls that name attributes, modules or expectations in a way of their own: getattr, mock, pytest."""

from __future__ import annotations

import ast
from typing import Protocol

from race.core.interface.symbols import Class, Module, dotted
from race.core.interface.tree import External, SourceTree
from race.core.interface.uses import RAISES, RUNS_COROUTINE, WARNS, Use
from race.core.interface.values import Caught, Foreign, Instance, Text, Values


class Walker(Protocol):
    """What a special call needs of the walk."""

    tree: SourceTree
    context: str

    def record(self, use: Use) -> None: ...
    def expression(self, node: ast.expr, env: dict[str, Values]) -> Values: ...
    def take(self, values: Values, name: str) -> Values: ...
    def awaited(self, node: ast.expr, env: dict[str, Values]) -> None: ...


_ATTRIBUTE_CALLS = ("getattr", "hasattr", "setattr", "delattr", "object", "attrgetter", "spy", "stub")


def special_call(walk: Walker, node: ast.Call, callees: Values, env: dict[str, Values]) -> Values | None:
    """The values of a call that has a meaning of its own, or None when it is an ordinary one."""
    names = {item.name for item in callees if isinstance(item, (External, Foreign))}
    written = dotted(node.func)
    name = next(iter(names), written)
    last = name.split(".")[-1].removesuffix("()")
    if last in _ATTRIBUTE_CALLS and len(node.args) >= 2 and _is_patching(name, last):
        named = _named_attribute(walk, node, env, last)
        if named is not None:
            return named
    if (
        last in ("setattr", "delattr", "patch", "import_module", "importorskip", "__import__")
        and node.args
    ):
        texts = [item for item in walk.expression(node.args[0], env) if isinstance(item, Text)]
        for text in texts:
            return _dotted_path(walk, text.value, module=last not in ("setattr", "delattr", "patch"))
    if last in ("cast",) and len(node.args) == 2:
        walk.expression(node.args[1], env)
        return _objects(walk.expression(node.args[0], env))
    if last in ("Mock", "MagicMock", "AsyncMock", "create_autospec", "NonCallableMock"):
        spec = next((pair.value for pair in node.keywords if pair.arg in ("spec", "spec_set")), None)
        if spec is None and last == "create_autospec" and node.args:
            spec = node.args[0]
        if spec is not None:
            return _objects(walk.expression(spec, env)) or None
    if written in RAISES or name in RAISES or name in WARNS:
        return _expected(walk, node, env) or None
    if last in RUNS_COROUTINE and node.args:
        for item in node.args:
            walk.awaited(item, env)
        if last in ("run", "wait_for", "run_until_complete", "shield") and names:
            return walk.expression(node.args[0], env)
    return None


def _is_patching(name: str, last: str) -> bool:
    """`object` only as in `patch.object`; `stub` and `spy` only of a mocker."""
    if last == "object":
        return name.endswith("patch.object")
    if last in ("spy", "stub", "attrgetter"):
        return "mocker" in name
    return True


def _named_attribute(walk: Walker, node: ast.Call, env: dict[str, Values], last: str) -> Values | None:
    receiver = walk.expression(node.args[0], env)
    texts = [item for item in walk.expression(node.args[1], env) if isinstance(item, Text)]
    for item in node.args[2:]:
        walk.expression(item, env)
    if not texts or any(isinstance(item, Text) for item in receiver):
        return None
    values: Values = ()
    for part in texts[0].value.split("."):
        values = walk.take(receiver, part)
        receiver = values
    return values if last == "getattr" else ()


def _dotted_path(walk: Walker, path: str, *, module: bool) -> Values:
    """A module, or an attribute of one, named by a string."""
    tree = walk.tree
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        found = tree.import_(".".join(parts[:cut]))
        if isinstance(found, Module):
            values: Values = (found,)
            for part in parts[cut:]:
                values = walk.take(values, part)
            walk.record(Use("module", ".".join(parts[:cut])))
            return values
    if module:
        walk.record(Use("module", path))
    return ()


def _expected(walk: Walker, node: ast.Call, env: dict[str, Values]) -> Values:
    """The exceptions or warnings that the test wants to see; what `as` binds."""
    wording = next((pair.value for pair in node.keywords if pair.arg == "match"), None)
    outer, walk.context = walk.context, "pattern"
    texts = walk.expression(wording, env) if wording is not None else ()
    walk.context = outer
    text = next((item.value for item in texts if isinstance(item, Text)), "")
    wanted = node.args[0] if node.args else None
    parts = wanted.elts if isinstance(wanted, ast.Tuple) else [wanted] if wanted else []
    caught: list[Caught] = []
    for part in parts:
        for value in walk.expression(part, env):
            if isinstance(value, Class):
                walk.record(Use("raises", value.name, value, context=text))
                caught.append(Caught(value))
            elif isinstance(value, External):
                walk.record(Use("raises", value.name, context=text))
    return tuple(caught)


_WORDS = {
    ast.Eq: "equals", ast.NotEq: "differs from", ast.Is: "is", ast.IsNot: "is not", ast.Lt: "is below",
    ast.LtE: "is at most", ast.Gt: "is above", ast.GtE: "is at least",
}  # fmt: skip


def claim(node: ast.expr) -> tuple[ast.expr | None, str]:
    """What an assertion is about, and in words what must hold; (None, '') when it is not plain."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _bare(node.operand), "is false or empty"
    if isinstance(node, (ast.Attribute, ast.Call, ast.Await)):
        return _bare(node), "is true"
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None, ""
    left, right = node.left, node.comparators[0]
    words = _WORDS.get(type(node.ops[0]), "")
    if isinstance(left, ast.Constant):
        left, right = right, left
    shown = _literal(right)
    if not words or not shown:
        return None, ""
    if isinstance(left, ast.Call) and dotted(left) == "len" and len(left.args) == 1:
        return _bare(left.args[0]), f"has a length that {words} `{shown}`"
    return _bare(left), f"{words} `{shown}`"


def _bare(node: ast.expr) -> ast.expr:
    """An expression without its await."""
    return node.value if isinstance(node, ast.Await) else node


def _literal(node: ast.expr) -> str:
    """A short plain value as Python writes it, or nothing."""
    try:
        text = repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""
    return text if len(text) <= 60 and "`" not in text and "\n" not in text else ""


def _objects(values: Values) -> Values:
    return tuple(Instance(item) if isinstance(item, Class) else item for item in values)
