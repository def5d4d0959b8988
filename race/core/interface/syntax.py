"""Reads one Python source into the symbols that it defines. Nothing is imported or run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from race.core.interface.symbols import Class, Function, Import, Module, Symbol, Variable


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
                            slot = Variable(constant.value, module, path, owner=cls)
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
                yield Variable(target.attr, cls.module, cls.path, value, annotation, cls, method)
