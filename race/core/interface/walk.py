"""Walks the code that one hidden test runs and records what it uses of the product.

The walk goes through fixtures, conftest, helpers, parametrised values and nested functions, carrying
what it knows about every name. It never goes into product code.
"""

from __future__ import annotations

import ast

from race.core.interface.scope import Env
from race.core.interface.statements import Statements
from race.core.interface.symbols import Class, Function, Module
from race.core.interface.tree import External
from race.core.interface.uses import Use
from race.core.interface.values import Instance, Values, merge

_DEPTH = 12
_SET_UP = ("setup_method", "setUp", "asyncSetUp", "setup_class", "setUpClass", "setup")
_TEAR_DOWN = ("tearDown", "asyncTearDown", "teardown_method")


class Walk(Statements):
    """One walk over a test, or over what importing a test module runs."""

    def module_level(self, module: Module) -> None:
        """Everything that runs when a test module or conftest is imported."""
        self.module = module
        for statement in module.tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._signature(statement)
            elif isinstance(statement, ast.ClassDef):
                self._class_level(statement)
            else:
                self.statement(statement, {})
        self.finish()

    def test(self, function: Function, cls: Class | None) -> None:
        """A test function with its fixtures, set-up and everything it calls on the test side."""
        for fixture in self.fixtures.automatic(function.path, cls):
            self.run(fixture, cls, (), {})
        self._of_its_class(_SET_UP, cls)
        self.run(function, cls, (), {})
        self._of_its_class(_TEAR_DOWN, cls)
        self.finish()

    def _of_its_class(self, names: tuple[str, ...], cls: Class | None) -> None:
        if cls is None:
            return
        for name in names:
            method = self.tree.member(cls, name)
            if isinstance(method, Function) and self.tree.is_test(method.path):
                self.run(method, cls, (), {})

    def run(
        self, function: Function, cls: Class | None, arguments: tuple[Values, ...], named: Env
    ) -> Values:
        """Walk a test-side function once; what it returns or yields."""
        if id(function) in self.gave or self.depth > _DEPTH:
            return self.gave.get(id(function), ())
        self.gave[id(function)] = ()
        module = self.tree.at(function.path)
        if module is None:
            return ()
        outer = self.module, self.returned, self.context
        self.module, self.returned, self.context = module, [], "plain"
        self.depth += 1
        env = self._parameters(function, cls, arguments, named)
        self.body(function.node.body, env)
        gave = merge(*self.returned)
        self.depth -= 1
        self.module, self.returned, self.context = outer
        self.gave[id(function)] = gave
        return gave

    def finish(self) -> None:
        """Bodies of nested functions see the names that their surroundings end up with."""
        while self.later:
            self.module, body, env = self.later.pop()
            self.returned = []
            self.body(body, env)

    def _parameters(
        self, function: Function, cls: Class | None, arguments: tuple[Values, ...], named: Env
    ) -> Env:
        env: Env = {}
        node = function.node.args
        parametrised = self.fixtures.parametrised(function)
        names = [item.arg for item in (*node.posonlyargs, *node.args)]
        if cls is not None and function.bound and names:
            env[names.pop(0)] = (Instance(cls),)
        requested = function.name.startswith("test") or self.fixtures.is_fixture(function)
        for at, name in enumerate(names + [item.arg for item in node.kwonlyargs]):
            values: Values = named.get(name, ())
            if not values and at < len(arguments):
                values = arguments[at]
            if not values and name in parametrised:
                values = merge(*(self.expression(item, {}) for item in parametrised[name]))
            if not values and requested:
                values = self._fixture(name, function, cls)
            env[name] = values or self.inference.parameter(function, name, cls)
        return env

    def _fixture(self, name: str, function: Function, cls: Class | None) -> Values:
        found = self.fixtures.find(name, function, cls)
        if isinstance(found, Function):
            if self.tree.is_test(found.path):
                return self.run(found, cls if found.owner is not None else None, (), {})
            self.record(Use("fixture", name, found))
            return self.inference.returned(found)
        return (External(f"fixture.{name}"),) if found == "builtin" else ()

    def _signature(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """What a definition evaluates at once: decorators, defaults, annotations."""
        for item in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if item is not None:
                self.expression(item, {})
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None and not isinstance(argument.annotation, ast.Constant):
                self.expression(argument.annotation, {})

    def _class_level(self, node: ast.ClassDef) -> None:
        for item in (*node.decorator_list, *node.bases, *(pair.value for pair in node.keywords)):
            self.expression(item, {})
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._signature(statement)
            elif isinstance(statement, ast.ClassDef):
                self._class_level(statement)
            else:
                self.statement(statement, {})
