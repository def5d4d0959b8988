"""Walks the code that one hidden test runs and records what it uses of the product.

The walk goes through fixtures, conftest, helpers, parametrised values and nested functions, carrying
what it knows about every name. It never goes into product code.
"""

from __future__ import annotations

import ast
import builtins

from race.core.interface.fixtures import Fixtures
from race.core.interface.special import claim, special_call
from race.core.interface.syntax import (
    Class,
    Function,
    Import,
    Module,
    Variable,
    dotted,
    imports,
    read_class,
    targets,
)
from race.core.interface.tree import External, Missing, SourceTree
from race.core.interface.uses import Use
from race.core.interface.values import (
    Foreign,
    Inference,
    Instance,
    Local,
    Method,
    Text,
    Value,
    Values,
    known,
    merge,
)

Env = dict[str, Values]
_DEPTH = 12


class Walk:
    """One walk; `uses` holds what it found, each use once, in order."""

    def __init__(self, tree: SourceTree, inference: Inference, fixtures: Fixtures) -> None:
        self.tree, self.inference, self.fixtures = tree, inference, fixtures
        self.uses: dict[Use, None] = {}
        self.context = "plain"
        self._module: Module | None = None
        self._gave: dict[int, Values] = {}
        self._later: list[tuple[Module, list[ast.stmt], Env]] = []
        self._returned: list[Values] = []
        self._depth = 0
        self._origins: dict[str, Function] = {}
        self._narrowed: dict[str, Values] = {}
        self._inner: dict[int, Env] = {}

    def record(self, use: Use) -> None:
        """Keep a use."""
        self.uses[use] = None

    # -- entry points -------------------------------------------------------------------------

    def module_level(self, module: Module) -> None:
        """Everything that runs when a test module or conftest is imported."""
        self._module = module
        for statement in module.tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._signature(statement)
            elif isinstance(statement, ast.ClassDef):
                self._class_level(statement)
            else:
                self.statement(statement, {})
        self._finish()

    def test(self, function: Function, cls: Class | None) -> None:
        """A test function with its fixtures, set-up and everything it calls on the test side."""
        for fixture in self.fixtures.automatic(function.path, cls):
            self.run(fixture, cls, (), {})
        if cls is not None:
            for name in ("setup_method", "setUp", "asyncSetUp", "setup_class", "setUpClass", "setup",
                         "tearDown", "asyncTearDown", "teardown_method"):  # fmt: skip
                method = self.tree.member(cls, name)
                if isinstance(method, Function) and self.tree.is_test(method.path):
                    self.run(method, cls, (), {})
        self.run(function, cls, (), {})
        self._finish()

    def run(
        self, function: Function, cls: Class | None, arguments: tuple[Values, ...], named: Env
    ) -> Values:
        """Walk a test-side function once; what it returns or yields."""
        if id(function) in self._gave or self._depth > _DEPTH:
            return self._gave.get(id(function), ())
        self._gave[id(function)] = ()
        module = self.tree.at(function.path)
        if module is None:
            return ()
        outer = self._module, self._returned, self.context
        self._module, self._returned, self.context = module, [], "plain"
        self._depth += 1
        env = self._parameters(function, cls, arguments, named)
        self.body(function.node.body, env)
        gave = merge(*self._returned)
        self._depth -= 1
        self._module, self._returned, self.context = outer
        self._gave[id(function)] = gave
        return gave

    def _finish(self) -> None:
        """Bodies of nested functions see the names that their surroundings end up with."""
        while self._later:
            self._module, body, env = self._later.pop()
            self._returned = []
            self.body(body, env)

    # -- functions ----------------------------------------------------------------------------

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

    # -- statements ---------------------------------------------------------------------------

    def body(self, body: list[ast.stmt], env: Env) -> None:
        """Statements in order."""
        for statement in body:
            self.statement(statement, env)

    def statement(self, node: ast.stmt, env: Env) -> None:
        """One statement; changes `env` by what it binds."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, env)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for item in node.decorator_list:
                self.expression(item, env)
            env[node.name] = (Local(node),)
            inner = self._local_parameters(node, env)
            self._inner[id(node)] = inner = _Late(inner, env)
            if self._module is not None:
                self._later.append((self._module, node.body, inner))
        elif isinstance(node, ast.ClassDef):
            self._local_class(node, env)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._assign(node, env)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for entry in node.items:
                values = self.expression(entry.context_expr, env)
                values = self._entered(values, isinstance(node, ast.AsyncWith))
                if entry.optional_vars is not None:
                    self._bind(entry.optional_vars, values, env)
            self.body(node.body, env)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            values = self.expression(node.iter, env)
            self._iterated(values, isinstance(node, ast.AsyncFor))
            elements: Values = ()
            if isinstance(node.iter, (ast.List, ast.Tuple, ast.Set)):
                elements = merge(*(self.expression(item, env) for item in node.iter.elts))
            self._bind(node.target, elements, env)
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
                    self._returned.append(values)
        else:
            self._generic(node, env)

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
                    self._narrowed[ast.unparse(node.args[0])] = (Instance(value),)
                    self.record(Use("raises", value.name, value))

    def _claim(self, node: ast.expr, env: Env) -> None:
        """An assertion about a member of a product object, when it compares with a plain value."""
        subject, words = claim(node)
        if subject is None:
            return
        if isinstance(subject, ast.Name) and subject.id in self._origins:
            self.record(Use("claim", "", self._origins[subject.id], context=words))
        called = isinstance(subject, ast.Call)
        member = subject.func if isinstance(subject, ast.Call) else subject
        if isinstance(subject, ast.Call):
            for callee in self._callees(subject.func, env):
                function = callee.function if isinstance(callee, Method) else callee
                if isinstance(function, Function) and not self.tree.is_test(function.path):
                    self.record(Use("result", owner=function))
        if isinstance(member, ast.Attribute):
            for value in self._callees(member.value, env):
                if isinstance(value, (Instance, Class)):
                    cls = value.cls if isinstance(value, Instance) else value
                    name = f"{member.attr}()" if called else member.attr
                    self.record(Use("claim", name, cls, context=words))

    def _generic(self, node: ast.AST, env: Env) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child, env)
            elif isinstance(child, ast.expr):
                self.expression(child, env)
            else:
                self._generic(child, env)

    def _import(self, node: ast.Import | ast.ImportFrom, env: Env) -> None:
        module = self._module
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
            env[bound] = self._settled(known(found))

    def _settled(self, values: Values) -> Values:
        """Variables replaced by what they hold."""
        return merge(
            *(
                self.inference.variable(value) or (value,) if isinstance(value, Variable) else (value,)
                for value in values
            )
        )

    def _local_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef, env: Env) -> Env:
        inner: Env = {}
        module = self._module.name if self._module else ""
        for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            inner[item.arg] = self.inference.annotation(item.annotation, module)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.expression(default, env)
        return inner

    def _local_class(self, node: ast.ClassDef, env: Env) -> None:
        for item in (*node.decorator_list, *node.bases):
            self.expression(item, env)
        if self._module is None:
            return
        cls = read_class(node, self._module.name, self._module.path)
        env[node.name] = (cls,)
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = self._local_parameters(statement, env)
                first = next(iter(statement.args.args), None)
                if first is not None:
                    inner[first.arg] = (Instance(cls),)
                self._later.append((self._module, statement.body, _Late(inner, env)))
            else:
                self.statement(statement, env)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, env: Env) -> None:
        values = self.expression(node.value, env) if node.value is not None else ()
        if isinstance(node, ast.AnnAssign) and not values and self._module is not None:
            values = self.inference.annotation(node.annotation, self._module.name)
        self._remember(node, env)
        goals = node.targets if isinstance(node, ast.Assign) else [node.target]
        for goal in goals:
            parts = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else []
            if isinstance(goal, (ast.Tuple, ast.List)) and len(goal.elts) == len(parts):
                for single, part in zip(goal.elts, parts, strict=True):
                    self._bind(single, self.expression(part, env), env)
                continue
            if isinstance(goal, (ast.Tuple, ast.List)):
                self._unpacked(node.value, len(goal.elts), env)
                values = ()
            self._bind(goal, values, env)

    def _remember(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, env: Env) -> None:
        """Which product function a local name got its value from; that its result is used."""
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        goal = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(goal, ast.Name):
            return
        self._origins.pop(goal.id, None)
        if isinstance(value, ast.Call):
            for callee in self._callees(value.func, env):
                function = callee.function if isinstance(callee, Method) else callee
                if isinstance(function, Function) and not self.tree.is_test(function.path):
                    self._origins[goal.id] = function
                    self.record(Use("result", owner=function))

    def _unpacked(self, value: ast.expr | None, count: int, env: Env) -> None:
        inner = value.value if isinstance(value, ast.Await) else value
        if isinstance(inner, ast.Call):
            for callee in self.expression(inner.func, env):
                function = callee.function if isinstance(callee, Method) else callee
                if isinstance(function, Function):
                    self.record(Use("unpacked", owner=function, positional=count))

    def _bind(self, goal: ast.expr, values: Values, env: Env) -> None:
        for single in targets(goal):
            if isinstance(single, ast.Name):
                env[single.id] = values if single is goal or len(values) == 1 else ()
            else:
                self.expression(single, env)

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

    # -- expressions --------------------------------------------------------------------------

    def expression(self, node: ast.expr, env: Env) -> Values:
        """What an expression may be worth; records every use on the way."""
        values = self._worth(node, env)
        if self._narrowed and isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            return self._narrowed.get(ast.unparse(node), values)
        return values

    def _worth(self, node: ast.expr, env: Env) -> Values:
        if isinstance(node, ast.Name):
            return self._name(node.id, env)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, env)
        if isinstance(node, ast.Call):
            return self._call(node, env)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.record(Use("text", node.value, context=self.context))
                return (Text(node.value),)
            return (Foreign("constant"),)
        if isinstance(node, ast.Await):
            return self._await(node, env)
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            values = self.expression(node.value, env) if node.value is not None else ()
            self._returned.append(values)
            return ()
        if isinstance(node, ast.NamedExpr):
            values = self.expression(node.value, env)
            self._bind(node.target, values, env)
            return values
        if isinstance(node, ast.Lambda):
            inner: Env = _Late({}, env)
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
            self._generic(node, env)
            self.context = outer
            return (Foreign("bool"),)
        if isinstance(node, ast.Subscript):
            values = self.expression(node.value, env)
            self.expression(node.slice, env)
            return tuple(Foreign(f"{item.name}[]") for item in values if isinstance(item, Foreign))
        if isinstance(node, ast.JoinedStr):
            self._generic(node, env)
            return (Foreign("str"),)
        self._generic(node, env)
        if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.Set)):
            return (Foreign(type(node).__name__.lower()),)
        return ()

    def _name(self, name: str, env: Env) -> Values:
        if name in env:
            return env[name]
        if self._module is None:
            return ()
        symbol = self._module.members.get(name)
        if symbol is None and not self._module.stars:
            return (External(name),) if hasattr(builtins, name) else ()
        if isinstance(symbol, Import):
            found = self.tree.follow(symbol)
        else:
            found = self.tree.get(self._module.name, name)
        if isinstance(found, Missing):
            return (External(name),) if hasattr(builtins, name) else ()
        if isinstance(found, Variable) and self.tree.is_test(found.path):
            values = self.inference.variable(found)
            return values or ()
        return self._settled(known(found))

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
        return self._settled(merge(*(self.inference.attribute(value, name) for value in values)))

    def _await(self, node: ast.Await, env: Env) -> Values:
        values = self.expression(node.value, env)
        self.awaited(node.value, env)
        return values

    def awaited(self, node: ast.expr, env: Env) -> None:
        """A call whose result something awaits."""
        if isinstance(node, ast.Call):
            for callee in self._callees(node.func, env):
                if isinstance(callee, (Function, Method)):
                    function = callee.function if isinstance(callee, Method) else callee
                    self.record(Use("awaited", owner=function))

    def _callees(self, node: ast.expr, env: Env) -> Values:
        kept = dict(self.uses)
        values = self.expression(node, env)
        self.uses = kept
        return values

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Env
    ) -> Values:
        inner: Env = _Late({}, env)
        for generator in node.generators:
            self.expression(generator.iter, inner)
            self._bind(generator.target, (), inner)
            for condition in generator.ifs:
                self.expression(condition, inner)
        if isinstance(node, ast.DictComp):
            self.expression(node.key, inner)
            self.expression(node.value, inner)
        else:
            self.expression(node.elt, inner)
        return (Foreign("list"),)

    def _call(self, node: ast.Call, env: Env) -> Values:
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
        if handled is not None:
            self._record_call(node, tuple(c for c in callees if isinstance(c, (External, Foreign))), ())
            return handled
        self._record_call(node, callees, tuple(named))
        results: list[Values] = []
        for callee in callees:
            if isinstance(callee, Local) and id(callee.node) in self._inner:
                self._hand_over(callee.node, self._inner[id(callee.node)], arguments, named)
            results.append(self._result(callee, arguments, named))
        return merge(*results)

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
            maker = self.tree.member(callee, "__init__")
            if isinstance(maker, Function) and self.tree.is_test(maker.path):
                self.run(maker, callee, arguments, named)
        return self._settled(self.inference.called(callee))


class _Late(dict[str, Values]):
    """The names of a nested function, then those of its surroundings as they are when it runs."""

    def __init__(self, own: Env, outer: Env) -> None:
        super().__init__(own)
        self._outer = outer

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._outer

    def __missing__(self, name: str) -> Values:
        return self._outer[name]
