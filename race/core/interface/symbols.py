"""What Python source defines: modules, classes, functions, variables, imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass(eq=False)
class Function:
    """A function or method. `owner` is the class it is defined in."""

    name: str
    module: str
    path: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: Class | None = None

    @property
    def is_async(self) -> bool:
        """Defined with `async def`."""
        return isinstance(self.node, ast.AsyncFunctionDef)

    @property
    def decorators(self) -> list[str]:
        """Dotted names of the decorators, without their arguments."""
        return [dotted(item) for item in self.node.decorator_list]

    @property
    def is_property(self) -> bool:
        """Read without a call."""
        return any(
            name.split(".")[-1] in ("property", "cached_property", "abstractproperty", "setter")
            for name in self.decorators
        )

    @property
    def bound(self) -> int:
        """How many leading parameters a caller does not pass."""
        if self.owner is None or "staticmethod" in self.decorators:
            return 0
        return 1

    def positional(self) -> list[str]:
        """Names of the parameters that may be passed by position, without self or cls."""
        arguments = self.node.args
        return [item.arg for item in (*arguments.posonlyargs, *arguments.args)][self.bound :]

    def keywords(self) -> list[str]:
        """Names of the parameters that may be passed by keyword."""
        arguments = self.node.args
        names = [item.arg for item in arguments.args]
        skip = max(self.bound - len(arguments.posonlyargs), 0)
        return names[skip:] + [item.arg for item in arguments.kwonlyargs]

    def required(self) -> list[str]:
        """Names of the parameters without a default."""
        arguments = self.node.args
        named = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
        required = named[: len(named) - len(arguments.defaults)][self.bound :]
        pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return required + [item.arg for item, default in pairs if default is None]


@dataclass(eq=False)
class Variable:
    """A name bound to a value: at module level, in a class body, or as `self.name` in a method."""

    name: str
    module: str
    path: str
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    owner: Class | None = None
    function: Function | None = None


@dataclass(eq=False)
class Import:
    """A name bound by an import: a module, or `name` of a module."""

    target: str
    name: str | None


@dataclass(eq=False)
class Class:
    """A class. `members` holds methods, class attributes, nested classes and `self` attributes."""

    name: str
    module: str
    path: str
    node: ast.ClassDef
    qualname: str
    members: dict[str, Function | Variable | Class] = field(default_factory=dict)

    @property
    def declares_fields(self) -> bool:
        """Its constructor comes from annotated fields (dataclass, attrs, NamedTuple, pydantic)."""
        marks = [dotted(item) for item in (*self.node.decorator_list, *self.node.bases)]
        last = {mark.split(".")[-1] for mark in marks}
        return bool(last & {"dataclass", "define", "attrs", "s", "frozen", "NamedTuple", "BaseModel",
                            "TypedDict", "Struct", "mutable"})  # fmt: skip

    def fields(self) -> list[str]:
        """Names of the annotated fields, in order."""
        return [
            item.target.id
            for item in self.node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]


Symbol = Function | Variable | Class | Import


@dataclass(eq=False)
class Module:
    """One source file, parsed."""

    name: str
    path: str
    tree: ast.Module
    is_package: bool
    members: dict[str, Symbol] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    @property
    def dynamic(self) -> bool:
        """It has a module `__getattr__`: any name may exist."""
        return "__getattr__" in self.members


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name, attribute or call of one; empty for anything else."""
    if isinstance(node, ast.Call):
        return dotted(node.func)
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return node.id if isinstance(node, ast.Name) else ""
