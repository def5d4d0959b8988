"""Statements of test code: what they bind, assert and import."""

from __future__ import annotations

import ast

from race.core.interface.calls import Calls
from race.core.interface.scope import Env, Late
from race.core.interface.special import claim
from race.core.interface.symbols import Class, Function, dotted
from race.core.interface.syntax import imports, read_class
from race.core.interface.tree import Missing
from race.core.interface.uses import Use
from race.core.interface.values import Instance, Local, Method, Values, known, merge


class Statements(Calls):
    """Goes through statements in order."""

    def body(self, body: list[ast.stmt], env: Env) -> None:
        """Statements in order."""
        for statement in body:
            self.statement(statement, env)

    def statement(self, node: ast.stmt, env: Env) -> None:
        """One statement; changes `env` by what it binds."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, env)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._decorated(node, env)
            env[node.name] = (Local(node),)
            inner = self._local_parameters(node, env)
            self.inner[id(node)] = inner = Late(inner, env)
            if self.module is not None:
                self.later.append((self.module, node.body, inner))
        elif isinstance(node, ast.ClassDef):
            self._local_class(node, env)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._assign(node, env)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for entry in node.items:
                values = self.expression(entry.context_expr, env)
                values = self._entered(values, isinstance(node, ast.AsyncWith))
                if entry.optional_vars is not None:
                    self.bind(entry.optional_vars, values, env)
            self.body(node.body, env)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            values = self.expression(node.iter, env)
            self._iterated(values, isinstance(node, ast.AsyncFor))
            elements: Values = ()
            if isinstance(node.iter, (ast.List, ast.Tuple, ast.Set)):
                elements = merge(*(self.expression(item, env) for item in node.iter.elts))
            self.bind(node.target, elements, env)
            self.body(node.body + node.orelse, env)
        elif isinstance(node, ast.Try):
            self._try(node, env)
        elif isinstance(node, ast.Assert):
            self.expression(node.test, env)
            self._narrow(node.test, env)
            self._claim(node.test, env)
        elif isinstance(node, (ast.Return, ast.Expr)):
            if node.value is not None:
                values = self.expression(node.value, env)
                if isinstance(node, ast.Return):
                    self.returned.append(values)
        else:
            self.generic(node, env)

    def _try(self, node: ast.Try, env: Env) -> None:
        self.body(node.body, env)
        for handler in node.handlers:
            kinds = self.expression(handler.type, env) if handler.type is not None else ()
            if handler.name:
                env[handler.name] = tuple(Instance(kind) for kind in kinds if isinstance(kind, Class))
            self.body(handler.body, env)
        self.body(node.orelse + node.finalbody, env)

    def _narrow(self, node: ast.expr, env: Env) -> None:
        """`assert isinstance(x, cls)`: from here on the same text is an object of that class."""
        if isinstance(node, ast.Call) and dotted(node.func) == "isinstance" and len(node.args) == 2:
            for value in self.expression(node.args[1], env):
                if isinstance(value, Class):
                    self.narrowed[ast.unparse(node.args[0])] = (Instance(value),)
                    self.record(Use("raises", value.name, value))

    def _claim(self, node: ast.expr, env: Env) -> None:
        """An assertion about a member of a product object, when it compares with a plain value."""
        subject, words = claim(node)
        if subject is None:
            return
        if isinstance(subject, ast.Name) and subject.id in self.origins:
            self.record(Use("claim", "", self.origins[subject.id], context=words))
        called = isinstance(subject, ast.Call)
        member = subject.func if isinstance(subject, ast.Call) else subject
        if isinstance(subject, ast.Call):
            for callee in self.callees(subject.func, env):
                function = callee.function if isinstance(callee, Method) else callee
                if isinstance(function, Function) and not self.tree.is_test(function.path):
                    self.record(Use("result", owner=function))
        if isinstance(member, ast.Attribute):
            for value in self.callees(member.value, env):
                if isinstance(value, (Instance, Class)):
                    cls = value.cls if isinstance(value, Instance) else value
                    name = f"{member.attr}()" if called else member.attr
                    self.record(Use("claim", name, cls, context=words))

    def _import(self, node: ast.Import | ast.ImportFrom, env: Env) -> None:
        module = self.module
        if module is None:
            return
        package = module.name if module.is_package else module.name.rpartition(".")[0]
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.record(Use("module", alias.name))
        for bound, target, name in imports(node, package):
            if name is None:
                found = self.tree.import_(target)
            else:
                self.record(Use("module", target))
                if name == "*":
                    continue
                found = self.tree.get(target, name)
                source = self.tree.module(target)
                if source is not None:
                    self.record(Use("name", name, source))
                if isinstance(found, Missing):
                    found = None
            env[bound] = self.settled(known(found))

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, env: Env) -> None:
        """Decorators of a definition inside of a test; one of the product is called with it."""
        for item in node.decorator_list:
            functions = [] if isinstance(item, ast.Call) else self.callees(item, env)
            if any(isinstance(one, Function) and not self.tree.is_test(one.path) for one in functions):
                itself = ast.copy_location(ast.Constant(None), item)
                item = ast.copy_location(ast.Call(func=item, args=[itself], keywords=[]), item)
            self.expression(item, env)

    def _local_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef, env: Env) -> Env:
        inner: Env = {}
        module = self.module.name if self.module else ""
        for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner[item.arg] = self.inference.annotation(item.annotation, module)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.expression(default, env)
        return inner

    def _local_class(self, node: ast.ClassDef, env: Env) -> None:
        self._decorated(node, env)
        for item in node.bases:
            self.expression(item, env)
        if self.module is None:
            return
        cls = read_class(node, self.module.name, self.module.path)
        env[node.name] = (cls,)
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = self._local_parameters(statement, env)
                first = next(iter(statement.args.args), None)
                if first is not None:
                    inner[first.arg] = (Instance(cls),)
                self.later.append((self.module, statement.body, Late(inner, env)))
            else:
                self.statement(statement, env)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, env: Env) -> None:
        values = self.expression(node.value, env) if node.value is not None else ()
        if isinstance(node, ast.AnnAssign) and not values and self.module is not None:
            values = self.inference.annotation(node.annotation, self.module.name)
        self._remember(node, env)
        goals = node.targets if isinstance(node, ast.Assign) else [node.target]
        for goal in goals:
            parts = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else []
            if isinstance(goal, (ast.Tuple, ast.List)) and len(goal.elts) == len(parts):
                for single, part in zip(goal.elts, parts, strict=True):
                    self.bind(single, self.expression(part, env), env)
                continue
            if isinstance(goal, (ast.Tuple, ast.List)):
                self._unpacked(node.value, len(goal.elts), env)
                values = ()
            self.bind(goal, values, env)

    def _remember(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, env: Env) -> None:
        """Which product function a local name got its value from; that its result is used."""
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        goal = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(goal, ast.Name):
            return
        self.origins.pop(goal.id, None)
        if isinstance(value, ast.Call):
            for callee in self.callees(value.func, env):
                function = callee.function if isinstance(callee, Method) else callee
                if isinstance(function, Function) and not self.tree.is_test(function.path):
                    self.origins[goal.id] = function
                    self.record(Use("result", owner=function))

    def _unpacked(self, value: ast.expr | None, count: int, env: Env) -> None:
        inner = value.value if isinstance(value, ast.Await) else value
        if isinstance(inner, ast.Call):
            for callee in self.expression(inner.func, env):
                function = callee.function if isinstance(callee, Method) else callee
                if isinstance(function, Function):
                    self.record(Use("unpacked", owner=function, positional=count))

    def _entered(self, values: Values, asynchronous: bool) -> Values:
        name = "__aenter__" if asynchronous else "__enter__"
        for value in values:
            if isinstance(value, Instance):
                self.record(Use("member", name, value.cls))
        return merge(*(self.inference.entered(value, asynchronous=asynchronous) for value in values))

    def _iterated(self, values: Values, asynchronous: bool) -> None:
        for value in values:
            if isinstance(value, Instance):
                self.record(Use("member", "__aiter__" if asynchronous else "__iter__", value.cls))
