"""What an expression is worth, as far as sources tell: types of attributes, returns and parameters."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from race.core.interface.symbols import Class, Function, Module, Variable, dotted
from race.core.interface.tree import External, Missing, Resolved, SourceTree


@dataclass(frozen=True)
class Instance:
    """An object of a class in the tree."""

    cls: Class


@dataclass(frozen=True)
class Foreign:
    """An object of something outside the tree; its attributes are none of our business."""

    name: str


@dataclass(frozen=True)
class Method:
    """A function taken from an object or class."""

    function: Function
    cls: Class


@dataclass(frozen=True)
class Caught:
    """What `pytest.raises(cls) as name` or `assertRaises` binds; the error is its `value`."""

    cls: Class


@dataclass(frozen=True)
class Text:
    """A string that the source spells out."""

    value: str


@dataclass(frozen=True)
class Local:
    """A function or lambda defined inside another function."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


Value = (
    Module | Class | Function | Variable | External | Instance | Foreign | Method | Text | Local | Caught
)
Values = tuple[Value, ...]

_WRAPPERS = {
    "Optional", "Union", "Annotated", "Iterator", "AsyncIterator", "Iterable", "AsyncIterable",
    "Generator", "AsyncGenerator", "ContextManager", "AsyncContextManager", "AbstractContextManager",
    "AbstractAsyncContextManager", "Awaitable", "ClassVar", "Final", "Required", "NotRequired",
}  # fmt: skip
_DEPTH = 8


def merge(*groups: Values) -> Values:
    """All values once, at most eight."""
    return tuple(dict.fromkeys(value for group in groups for value in group))[:8]


def known(found: Resolved) -> Values:
    """A resolved name as values; a missing or unknown one has none."""
    if found is None or isinstance(found, Missing):
        return ()
    return (found,)


class Inference:
    """Types of things in one tree, without running anything."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._busy: set[int] = set()

    def annotation(self, node: ast.expr | None, module: str, owner: Class | None = None) -> Values:
        """Objects that an annotation promises."""
        if node is None:
            return ()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError):
                return ()
        if isinstance(node, ast.BinOp):
            left = self.annotation(node.left, module, owner)
            return merge(left, self.annotation(node.right, module, owner))
        name = dotted(node)
        last = name.split(".")[-1]
        if isinstance(node, ast.Subscript):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if last in ("type", "Type"):
                values = self.annotation(inner[0], module, owner)
                return tuple(item.cls for item in values if isinstance(item, Instance))
            if last in ("Coroutine",) and len(inner) == 3:
                return self.annotation(inner[2], module, owner)
            if last == "Union":
                return merge(*(self.annotation(item, module, owner) for item in inner))
            if last in _WRAPPERS:
                return self.annotation(inner[0], module, owner)
        if last == "Self" and owner is not None:
            return (Instance(owner),)
        if last in ("None", "Any", "") or (isinstance(node, ast.Constant) and node.value is None):
            return ()
        found = self.tree.lookup(module, name)
        if isinstance(found, Class):
            return (Instance(found),)
        if isinstance(found, External) and last not in _WRAPPERS:
            return (Foreign(found.name),)
        return ()

    def returned(self, function: Function, owner: Class | None = None) -> Values:
        """What a call of a product function gives; awaiting and yielding look the same."""
        owner = owner or function.owner
        if function.node.returns is not None:
            values = self.annotation(function.node.returns, function.module, owner)
            if values:
                return values
        if id(function) in self._busy or len(self._busy) > _DEPTH:
            return ()
        self._busy.add(id(function))
        try:
            found: list[Values] = []
            for node in ast.walk(function.node):
                if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
                    found.append(self.light(node.value, function.module, owner, function))
            return merge(*found)
        finally:
            self._busy.discard(id(function))

    def called(self, value: Value) -> Values:
        """What calling a value gives."""
        if isinstance(value, Class):
            return (Instance(value),)
        if isinstance(value, Function):
            return self.returned(value)
        if isinstance(value, Method):
            return self.returned(value.function, value.cls)
        if isinstance(value, Instance):
            method = self.tree.member(value.cls, "__call__")
            return self.returned(method, value.cls) if isinstance(method, Function) else ()
        if isinstance(value, (External, Foreign)):
            return (Foreign(f"{value.name}()"),)
        return ()

    def attribute(self, value: Value, name: str) -> Values:
        """`value.name`."""
        if isinstance(value, (Module, External)):
            return known(self.tree.attribute(value, name))
        if isinstance(value, Foreign):
            return (Foreign(f"{value.name}.{name}"),)
        if isinstance(value, Caught) and name in ("value", "exception"):
            return (Instance(value.cls),)
        if not isinstance(value, (Class, Instance)):
            return ()
        cls = value if isinstance(value, Class) else value.cls
        found = self.tree.member(cls, name)
        if isinstance(found, Function):
            if found.is_property and isinstance(value, Instance):
                return self.returned(found, cls)
            return (Method(found, cls),)
        if isinstance(found, Variable):
            return self.variable(found)
        return known(found)

    def variable(self, variable: Variable) -> Values:
        """What a module variable, class attribute or `self` attribute holds."""
        values = self.annotation(variable.annotation, variable.module, variable.owner)
        if values or variable.value is None:
            return values
        if id(variable) in self._busy or len(self._busy) > _DEPTH:
            return ()
        self._busy.add(id(variable))
        try:
            return self.light(variable.value, variable.module, variable.owner, variable.function)
        finally:
            self._busy.discard(id(variable))

    def parameter(self, function: Function, name: str, owner: Class | None) -> Values:
        """A parameter by its annotation; the first one of a method is its object or class."""
        arguments = function.node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for at, item in enumerate(named):
            if item.arg != name:
                continue
            if at == 0 and function.bound and owner is not None:
                return (owner,) if "classmethod" in function.decorators else (Instance(owner),)
            return self.annotation(item.annotation, function.module, owner)
        return ()

    def light(
        self, node: ast.expr, module: str, owner: Class | None, function: Function | None
    ) -> Values:
        """An expression inside product code, by names and annotations alone."""
        if isinstance(node, ast.Await):
            return self.light(node.value, module, owner, function)
        if isinstance(node, ast.Constant):
            return (Text(node.value),) if isinstance(node.value, str) else (Foreign("constant"),)
        if isinstance(node, ast.Name):
            if function is not None:
                values = self.parameter(function, node.id, owner)
                if values:
                    return values
            found = self.tree.get(module, node.id)
            if isinstance(found, Variable):
                return self.variable(found)
            if isinstance(found, Missing):
                return (External(node.id),) if hasattr(builtins, node.id) else ()
            return known(found)
        if isinstance(node, ast.Attribute):
            return merge(
                *(
                    self.attribute(value, node.attr)
                    for value in self.light(node.value, module, owner, function)
                )
            )
        if isinstance(node, ast.Call):
            return merge(
                *(self.called(value) for value in self.light(node.func, module, owner, function))
            )
        if isinstance(node, ast.IfExp):
            return merge(
                self.light(node.body, module, owner, function),
                self.light(node.orelse, module, owner, function),
            )
        if isinstance(node, ast.BoolOp):
            return merge(*(self.light(item, module, owner, function) for item in node.values))
        if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.DictComp,
                             ast.JoinedStr, ast.Compare, ast.GeneratorExp)):  # fmt: skip
            return (Foreign(type(node).__name__.lower()),)
        return ()

    def entered(self, value: Value, *, asynchronous: bool) -> Values:
        """What `with value as x` binds."""
        if isinstance(value, Instance):
            method = self.tree.member(value.cls, "__aenter__" if asynchronous else "__enter__")
            if isinstance(method, Function):
                return self.returned(method, value.cls) or (value,)
        return (value,)
