"""Calls in test code: of the product, of helpers, of everything else."""

from __future__ import annotations

import ast

from race.core.interface.expressions import Expressions
from race.core.interface.scope import Env
from race.core.interface.special import special_call
from race.core.interface.symbols import Class, Function, dotted
from race.core.interface.tree import External
from race.core.interface.uses import Use
from race.core.interface.values import Foreign, Local, Method, Value, Values, merge


class Calls(Expressions):
    """Records calls and follows those that stay on the test side."""

    def call(self, node: ast.Call, env: Env) -> Values:
        callees = self.expression(node.func, env)
        handled = special_call(self, node, callees, env)
        arguments = tuple(self.expression(item, env) for item in node.args)
        named: Env = {}
        for pair in node.keywords:
            outer = self.context
            if pair.arg == "match":
                self.context = "pattern"
            values = self.expression(pair.value, env)
            self.context = outer
            if pair.arg:
                named[pair.arg] = values
        for values in (*arguments, *named.values()):
            self._follow(values)
        if handled is not None:
            self._record_call(node, tuple(c for c in callees if isinstance(c, (External, Foreign))), ())
            return handled
        self._record_call(node, callees, tuple(named))
        results: list[Values] = []
        for callee in callees:
            if isinstance(callee, Local) and id(callee.node) in self.inner:
                self._hand_over(callee.node, self.inner[id(callee.node)], arguments, named)
            results.append(self._result(callee, arguments, named))
        return merge(*results)

    def _follow(self, values: Values) -> None:
        """A helper that is given away (to a thread, a process, a callback) will be called."""
        for value in values:
            function = value.function if isinstance(value, Method) else value
            if isinstance(function, Function) and self.tree.is_test(function.path):
                self.run(function, value.cls if isinstance(value, Method) else None, (), {})

    def _hand_over(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        inner: Env,
        arguments: tuple[Values, ...],
        named: Env,
    ) -> None:
        """Tell a nested function, whose body comes later, what it is called with."""
        names = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
        for name, values in (*zip(names, arguments, strict=False), *named.items()):
            if values and not dict.get(inner, name):
                inner[name] = values

    def _record_call(self, node: ast.Call, callees: Values, keywords: tuple[str, ...]) -> None:
        starred = any(isinstance(item, ast.Starred) for item in node.args)
        positional = sum(not isinstance(item, ast.Starred) for item in node.args)
        if not callees and not keywords and isinstance(node.func, ast.Name):
            self.record(Use("outside", node.func.id))
        if not callees and isinstance(node.func, ast.Attribute):
            self.record(Use("loose-call", node.func.attr, None, positional, keywords, starred))
        for callee in callees:
            receiver = None
            owner: Value = callee
            if isinstance(callee, Method):
                owner, receiver = callee.function, callee.cls
            if isinstance(owner, (External, Foreign)):
                self.record(Use("outside", owner.name))
            if isinstance(owner, (Function, Class)) and not self.tree.is_test(owner.path):
                name = dotted(node.func)
                self.record(Use("call", name, owner, positional, keywords, starred, receiver=receiver))

    def _result(self, callee: Value, arguments: tuple[Values, ...], named: Env) -> Values:
        function = callee.function if isinstance(callee, Method) else callee
        if isinstance(function, Function) and self.tree.is_test(function.path):
            cls = callee.cls if isinstance(callee, Method) else None
            return self.run(function, cls, arguments, named) or self.inference.called(callee)
        if isinstance(callee, Class) and self.tree.is_test(callee.path):
            bases = (cls for cls in self.tree.lineage(callee) if not self.tree.is_test(cls.path))
            base = next(bases, None)
            if base is not None:
                self.record(Use("made", owner=base))
            maker = self.tree.member(callee, "__init__")
            if isinstance(maker, Function) and self.tree.is_test(maker.path):
                self.run(maker, callee, arguments, named)
        return self.settled(self.inference.called(callee))
