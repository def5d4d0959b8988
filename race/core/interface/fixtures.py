"""Which function stands behind a fixture name, as pytest would find it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from race.core.interface.symbols import Class, Function, Import, Module, dotted
from race.core.interface.tree import SourceTree
from race.core.interface.uses import BUILTIN_FIXTURES


class Fixtures:
    """Fixtures of one tree."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree

    def is_fixture(self, function: Function) -> bool:
        """Marked as a fixture by any of pytest's plugins."""
        return any(name.split(".")[-1] in ("fixture", "yield_fixture") for name in function.decorators)

    def find(
        self, name: str, function: Function, cls: Class | None
    ) -> Function | Literal["builtin"] | None:
        """The fixture that this function gets under this name.

        Looked for in its class, module, conftest files upwards, then the product's own plugins.
        """
        if cls is not None:
            member = self.tree.member(cls, name)
            if isinstance(member, Function) and member is not function and self.is_fixture(member):
                return member
        for module in self._around(function.path):
            for found in self._of_module(module):
                if self._called(found) == name and found is not function:
                    return found
        if name in BUILTIN_FIXTURES:
            return "builtin"
        return self._of_plugins.get(name)

    def automatic(self, path: str, cls: Class | None) -> Iterator[Function]:
        """Fixtures that apply by themselves to tests of this file."""
        for module in self._around(path):
            for found in self._of_module(module):
                if self._keyword(found, "autouse") is True:
                    yield found
        if cls is not None:
            for member in cls.members.values():
                fixture = isinstance(member, Function) and self.is_fixture(member)
                if isinstance(member, Function) and fixture and self._keyword(member, "autouse"):
                    yield member

    def parametrised(self, function: Function) -> dict[str, list[ast.expr]]:
        """Names that marks or fixture parameters give values to, with the values' expressions."""
        found: dict[str, list[ast.expr]] = {}
        for mark in function.node.decorator_list:
            if not isinstance(mark, ast.Call) or not dotted(mark).endswith("parametrize"):
                continue
            if len(mark.args) < 2 or not isinstance(mark.args[1], (ast.List, ast.Tuple, ast.Set)):
                continue
            names = _argument_names(mark.args[0])
            for row in mark.args[1].elts:
                cells = _cells(row, len(names))
                for name, cell in zip(names, cells, strict=False):
                    found.setdefault(name, []).append(cell)
        return found

    def _around(self, path: str) -> Iterator[Module]:
        module = self.tree.at(path)
        if module is not None:
            yield module
        folder = path
        while folder:
            folder = folder.rpartition("/")[0]
            conftest = self.tree.at(f"{folder}/conftest.py" if folder else "conftest.py")
            if conftest is not None and conftest is not module:
                yield conftest

    def _of_module(self, module: Module) -> Iterator[Function]:
        for symbol in module.members.values():
            if isinstance(symbol, Function) and self.is_fixture(symbol):
                yield symbol
            elif isinstance(symbol, Import) and symbol.name is not None:
                found = self.tree.follow(symbol)
                if isinstance(found, Function) and self.is_fixture(found):
                    yield found
        for star in module.stars:
            source = self.tree.module(star)
            if source is not None and source is not module:
                yield from (
                    item
                    for item in source.members.values()
                    if isinstance(item, Function) and self.is_fixture(item)
                )

    @cached_property
    def _of_plugins(self) -> dict[str, Function]:
        """Fixtures that product code or test plugins define anywhere else."""
        found: dict[str, Function] = {}
        for tests in (False, True):
            for module in self.tree.modules(tests=tests):
                for symbol in module.members.values():
                    if isinstance(symbol, Function) and self.is_fixture(symbol):
                        found.setdefault(self._called(symbol), symbol)
        return found

    def _called(self, function: Function) -> str:
        name = self._keyword(function, "name")
        return name if isinstance(name, str) else function.name

    def _keyword(self, function: Function, key: str) -> object:
        for mark in function.node.decorator_list:
            if isinstance(mark, ast.Call):
                for pair in mark.keywords:
                    if pair.arg == key and isinstance(pair.value, ast.Constant):
                        return pair.value.value
        return None


def _argument_names(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [item.strip() for item in node.value.split(",") if item.strip()]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [str(item.value) for item in node.elts if isinstance(item, ast.Constant)]
    return []


def _cells(row: ast.expr, count: int) -> list[ast.expr]:
    if isinstance(row, ast.Call) and dotted(row).split(".")[-1] == "param":
        return list(row.args)
    if count > 1 and isinstance(row, (ast.Tuple, ast.List)):
        return list(row.elts)
    return [row]
