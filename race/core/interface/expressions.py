"""Expressions of test code: what they are worth, and what they use on the way."""

from __future__ import annotations

import ast
import builtins

from race.core.interface.scope import Env, Late, Scope
from race.core.interface.symbols import Class, Function, Import, Module, Variable
from race.core.interface.syntax import targets
from race.core.interface.tree import External, Missing
from race.core.interface.uses import Use
from race.core.interface.values import Foreign, Instance, Local, Method, Text, Values, known, merge


class Expressions(Scope):
    """Evaluates expressions without running them."""

    def expression(self, node: ast.expr, env: Env) -> Values:
        """What an expression may be worth; records every use on the way."""
        values = self._worth(node, env)
        if self.narrowed and isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            return self.narrowed.get(ast.unparse(node), values)
        return values

    def _worth(self, node: ast.expr, env: Env) -> Values:
        if isinstance(node, ast.Name):
            return self._name(node.id, env)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, env)
        if isinstance(node, ast.Call):
            return self.call(node, env)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.record(Use("text", node.value, context=self.context))
                return (Text(node.value),)
            return (Foreign("constant"),)
        if isinstance(node, ast.Await):
            return self._await(node, env)
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            values = self.expression(node.value, env) if node.value is not None else ()
            self.returned.append(values)
            return ()
        if isinstance(node, ast.NamedExpr):
            values = self.expression(node.value, env)
            self.bind(node.target, values, env)
            return values
        if isinstance(node, ast.Lambda):
            inner: Env = Late({}, env)
            for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                inner[item.arg] = ()
            self.expression(node.body, inner)
            return (Local(node),)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self._comprehension(node, env)
        if isinstance(node, ast.IfExp):
            self.expression(node.test, env)
            return merge(self.expression(node.body, env), self.expression(node.orelse, env))
        if isinstance(node, ast.BoolOp):
            return merge(*(self.expression(item, env) for item in node.values))
        if isinstance(node, ast.Compare):
            outer, self.context = self.context, "compare"
            self.generic(node, env)
            self.context = outer
            return (Foreign("bool"),)
        if isinstance(node, ast.Subscript):
            values = self.expression(node.value, env)
            self.expression(node.slice, env)
            return tuple(Foreign(f"{item.name}[]") for item in values if isinstance(item, Foreign))
        if isinstance(node, ast.JoinedStr):
            self.generic(node, env)
            return (Foreign("str"),)
        self.generic(node, env)
        if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.Set)):
            return (Foreign(type(node).__name__.lower()),)
        return ()

    def generic(self, node: ast.AST, env: Env) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child, env)
            elif isinstance(child, ast.expr):
                self.expression(child, env)
            else:
                self.generic(child, env)

    def _name(self, name: str, env: Env) -> Values:
        if name in env:
            return env[name]
        if self.module is None:
            return ()
        symbol = self.module.members.get(name)
        if symbol is None and not self.module.stars:
            return (External(name),) if hasattr(builtins, name) else ()
        if isinstance(symbol, Import):
            found = self.tree.follow(symbol)
        else:
            found = self.tree.get(self.module.name, name)
        if isinstance(found, Missing):
            return (External(name),) if hasattr(builtins, name) else ()
        if isinstance(found, Variable) and self.tree.is_test(found.path):
            values = self.inference.variable(found)
            return values or ()
        return self.settled(known(found))

    def _attribute(self, node: ast.Attribute, env: Env) -> Values:
        return self.take(self.expression(node.value, env), node.attr)

    def take(self, values: Values, name: str) -> Values:
        """`.name` of these values, recorded."""
        if not values:
            self.record(Use("loose", name))
        for value in values:
            if isinstance(value, Module):
                self.record(Use("name", name, value))
            elif isinstance(value, Class):
                self.record(Use("member", name, value))
            elif isinstance(value, Instance):
                self.record(Use("member", name, value.cls))
            elif isinstance(value, (Function, Method, Local)):
                self.record(Use("loose", name))
        return self.settled(merge(*(self.inference.attribute(value, name) for value in values)))

    def _await(self, node: ast.Await, env: Env) -> Values:
        values = self.expression(node.value, env)
        self.awaited(node.value, env)
        return values

    def awaited(self, node: ast.expr, env: Env) -> None:
        """A call whose result something awaits."""
        if isinstance(node, ast.Call):
            for callee in self.callees(node.func, env):
                if isinstance(callee, (Function, Method)):
                    function = callee.function if isinstance(callee, Method) else callee
                    self.record(Use("awaited", owner=function))

    def callees(self, node: ast.expr, env: Env) -> Values:
        kept = dict(self.uses)
        values = self.expression(node, env)
        self.uses = kept
        return values

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Env
    ) -> Values:
        inner: Env = Late({}, env)
        for generator in node.generators:
            self.expression(generator.iter, inner)
            self.bind(generator.target, (), inner)
            for condition in generator.ifs:
                self.expression(condition, inner)
        if isinstance(node, ast.DictComp):
            self.expression(node.key, inner)
            self.expression(node.value, inner)
        else:
            self.expression(node.elt, inner)
        return (Foreign("list"),)

    def bind(self, goal: ast.expr, values: Values, env: Env) -> None:
        for single in targets(goal):
            if isinstance(single, ast.Name):
                env[single.id] = values if single is goal or len(values) == 1 else ()
            else:
                self.expression(single, env)
