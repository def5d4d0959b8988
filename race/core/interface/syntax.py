"""One Python source as the names it defines: modules, classes, functions, variables, imports."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
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
    on_self: bool = False


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


def parse(source: bytes) -> ast.Module | None:
    """The syntax tree, or None when this Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the body runs, through if, try, with, for, while and match."""
    for statement in body:
        yield statement
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _flat(getattr(statement, part, []))
        for handler in getattr(statement, "handlers", []):
            yield from _flat(handler.body)
        for case in getattr(statement, "cases", []):
            yield from _flat(case.body)


def targets(node: ast.expr) -> Iterator[ast.expr]:
    """The single targets of an assignment, through tuples, lists and stars."""
    if isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            yield from targets(item)
    elif isinstance(node, ast.Starred):
        yield from targets(node.value)
    else:
        yield node


def _assigned(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """(target, value, annotation) of each binding; the value is None when it is taken apart."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            for single in targets(target):
                yield single, statement.value if single is target else None, None
    elif isinstance(statement, ast.AnnAssign):
        yield statement.target, statement.value, statement.annotation
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        for single in targets(statement.target):
            yield single, None, None
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for item in statement.items:
            if item.optional_vars is not None:
                for single in targets(item.optional_vars):
                    yield single, None, None
    elif isinstance(statement, ast.AugAssign):
        yield statement.target, None, None


def read_module(name: str, path: str, tree: ast.Module, is_package: bool) -> Module:
    """A parsed source as its names."""
    module = Module(name, path, tree, is_package)
    package = name if is_package else name.rpartition(".")[0]
    for statement in _flat(tree.body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _keep(module.members, Function(statement.name, name, path, statement))
        elif isinstance(statement, ast.ClassDef):
            _keep(module.members, read_class(statement, name, path))
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for bound, target, attribute in imports(statement, package):
                if bound == "*":
                    module.stars.append(target)
                else:
                    module.members.setdefault(bound, Import(target, attribute))
        for goal, value, annotation in _assigned(statement):
            if isinstance(goal, ast.Name):
                variable = Variable(goal.id, name, path, value, annotation)
                module.members.setdefault(goal.id, variable)
    return module


def imports(
    statement: ast.Import | ast.ImportFrom, package: str
) -> Iterator[tuple[str, str, str | None]]:
    """(bound name, module, name in it) of an import statement, relative ones made absolute."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname:
                yield alias.asname, alias.name, None
            else:
                yield alias.name.partition(".")[0], alias.name.partition(".")[0], None
        return
    target = statement.module or ""
    if statement.level:
        parts = package.split(".") if package else []
        parts = parts[: len(parts) - (statement.level - 1)]
        target = ".".join([*parts, target] if target else parts)
    for alias in statement.names:
        yield alias.asname or alias.name, target, alias.name


def _keep(members: dict[str, Symbol], symbol: Function | Class) -> None:
    """Later definitions win, but an overload or a setter does not hide the real one."""
    if isinstance(symbol, Function):
        marks = {mark.split(".")[-1] for mark in symbol.decorators}
        if symbol.name in members and marks & {"overload", "setter", "deleter"}:
            return
    members[symbol.name] = symbol


def read_class(node: ast.ClassDef, module: str, path: str, outer: str = "") -> Class:
    """A class with its members."""
    cls = Class(node.name, module, path, node, outer + node.name)
    found: dict[str, Symbol] = {}
    for statement in _flat(node.body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _keep(found, Function(statement.name, module, path, statement, cls))
        elif isinstance(statement, ast.ClassDef):
            found[statement.name] = read_class(statement, module, path, f"{cls.qualname}.")
        for target, value, annotation in _assigned(statement):
            if isinstance(target, ast.Name):
                found[target.id] = Variable(target.id, module, path, value, annotation, cls)
                if target.id == "__slots__" and value is not None:
                    for constant in ast.walk(value):
                        if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                            slot = Variable(constant.value, module, path, owner=cls, on_self=True)
                            found.setdefault(constant.value, slot)
    for symbol in list(found.values()):
        if isinstance(symbol, Function) and symbol.bound and symbol.node.args.args:
            for variable in _self_attributes(symbol, cls):
                known = found.get(variable.name)
                vague = isinstance(known, Variable) and known.value is None and known.annotation is None
                if known is None or (vague and known is not None):
                    found[variable.name] = variable
    cls.members = {key: value for key, value in found.items() if not isinstance(value, Import)}
    return cls


def _self_attributes(method: Function, cls: Class) -> Iterator[Variable]:
    arguments = method.node.args
    own = (arguments.posonlyargs + arguments.args)[0].arg
    for statement in _flat(method.node.body):
        for target, value, annotation in _assigned(statement):
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == own
            ):
                yield Variable(
                    target.attr, cls.module, cls.path, value, annotation, cls, method, on_self=True
                )
