"""What a walk over test code carries: names, the module it is in, and what it found."""

from __future__ import annotations

import ast

from race.core.interface.fixtures import Fixtures
from race.core.interface.symbols import Class, Function, Module, Variable
from race.core.interface.tree import SourceTree
from race.core.interface.uses import Use
from race.core.interface.values import Inference, Values, merge

Env = dict[str, Values]


class Late(dict[str, Values]):
    """The names of a nested function, then those of its surroundings as they are when it runs."""

    def __init__(self, own: Env, outer: Env) -> None:
        super().__init__(own)
        self._outer = outer

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._outer

    def __missing__(self, name: str) -> Values:
        return self._outer[name]


class Scope:
    """The state of one walk; `uses` holds what it found, each use once, in order."""

    def __init__(self, tree: SourceTree, inference: Inference, fixtures: Fixtures) -> None:
        self.tree, self.inference, self.fixtures = tree, inference, fixtures
        self.uses: dict[Use, None] = {}
        self.context = "plain"
        self.module: Module | None = None
        self.gave: dict[int, Values] = {}
        self.later: list[tuple[Module, list[ast.stmt], Env]] = []
        self.returned: list[Values] = []
        self.depth = 0
        self.origins: dict[str, Function] = {}
        self.narrowed: dict[str, Values] = {}
        self.inner: dict[int, Env] = {}

    def record(self, use: Use) -> None:
        """Keep a use."""
        self.uses[use] = None

    def settled(self, values: Values) -> Values:
        """Variables replaced by what they hold."""
        return merge(
            *(
                self.inference.variable(value) or (value,) if isinstance(value, Variable) else (value,)
                for value in values
            )
        )

    def run(
        self, function: Function, cls: Class | None, arguments: tuple[Values, ...], named: Env
    ) -> Values:
        """Walk a test-side function once; what it returns or yields."""
        raise NotImplementedError

    def call(self, node: ast.Call, env: Env) -> Values:
        """A call: what it is worth, with everything recorded."""
        raise NotImplementedError

    def statement(self, node: ast.stmt, env: Env) -> None:
        """One statement; changes `env` by what it binds."""
        raise NotImplementedError
