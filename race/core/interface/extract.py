"""The interface of a task: what its tests use, compared between the two trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from race.core.interface.changes import Changes
from race.core.interface.comparing import Comparison
from race.core.interface.fixtures import Fixtures
from race.core.interface.items import InterfaceItem
from race.core.interface.naming import public_name
from race.core.interface.symbols import Class, Function, Module
from race.core.interface.tree import Resolved, SourceTree
from race.core.interface.uses import Use
from race.core.interface.values import Inference
from race.core.interface.walk import Walk


class Interface:
    """Both trees and what hidden tests use of them.

    `before` is the base with the test patch, `after` has the fix as well; both map paths to bytes.
    """

    def __init__(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
        parsed: dict[tuple[str, str], Module | None] = {}
        self.before, self.after = SourceTree(before, parsed), SourceTree(after, parsed)
        self.changes = Changes(self.before, self.after)
        self._comparison = Comparison(self.before, self.after, self.changes)
        self._inference = Inference(self.after)
        self._fixtures = Fixtures(self.after)
        self._uses: dict[str, list[Use]] = {}
        self._own: dict[str, list[Use]] = {}

    def uses(self, test_id: str) -> list[Use]:
        """What one test uses, with what its module and conftest files use when imported."""
        path = test_id.split("[", 1)[0].split("::")[0]
        if path not in self._uses:
            walk = Walk(self.after, self._inference, self._fixtures)
            for module in self._imported(path):
                walk.module_level(module)
            self._uses[path] = list(walk.uses)
        return self._uses[path] + self.own_uses(test_id)

    def own_uses(self, test_id: str) -> list[Use]:
        """What one test uses when it runs, without what importing its module does."""
        path, *names = test_id.split("[", 1)[0].split("::")
        key = "::".join([path, *names])
        if key not in self._own:
            walk = Walk(self.after, self._inference, self._fixtures)
            found, cls = self.function(test_id)
            if found is not None:
                walk.test(found, cls)
            self._own[key] = list(walk.uses)
        return self._own[key]

    def _imported(self, path: str) -> Iterator[Module]:
        folder = path
        while folder:
            folder = folder.rpartition("/")[0]
            conftest = self.after.at(f"{folder}/conftest.py" if folder else "conftest.py")
            if conftest is not None:
                yield conftest
        module = self.after.at(path)
        if module is not None:
            yield module
            yield from self._helpers(module, {module.path})

    def _helpers(self, module: Module, seen: set[str]) -> Iterator[Module]:
        """Test-side modules that a test module imports, and theirs."""
        walk = Walk(self.after, self._inference, self._fixtures)
        walk.module_level(module)
        for use in walk.uses:
            if use.kind != "module":
                continue
            helper = self.after.module(use.name)
            if helper and helper.path not in seen and self.after.is_test(helper.path):
                seen.add(helper.path)
                yield helper
                yield from self._helpers(helper, seen)

    def function(self, test_id: str) -> tuple[Function | None, Class | None]:
        """The function of a test and the class it runs in."""
        path, *names = test_id.split("[", 1)[0].split("::")
        module = self.after.at(path)
        if module is None or not names:
            return None, None
        holder: Resolved = self.after.get(module.name, names[0])
        cls: Class | None = None
        for name in names[1:]:
            if not isinstance(holder, Class):
                return None, None
            cls = holder
            holder = self.after.member(cls, name)
        return (holder, cls) if isinstance(holder, Function) else (None, None)

    def items(self, tests: Iterable[str]) -> list[InterfaceItem]:
        """The interface of these tests (pytest node ids), sorted by name."""
        found: dict[InterfaceItem, list[str]] = {}
        for test_id in tests:
            uses = self.uses(test_id)
            for item in self._comparison.items(uses):
                found.setdefault(item, []).append(test_id)
        merged = [
            item.model_copy(update={"tests": tuple(dict.fromkeys(ids))}) for item, ids in found.items()
        ]
        return _tidied(merged)

    def public(self, symbol: Class | Function, receiver: Class | None = None) -> str:
        """The shortest dotted name that leads to a class, function or method from outside."""
        return public_name(self.after, symbol, receiver)


def _tidied(items: list[InterfaceItem]) -> list[InterfaceItem]:
    """Sorted; one item per kind and name, with all its tests."""
    merged: dict[tuple[str, str, str], InterfaceItem] = {}
    for item in items:
        owner = item.detail if item.kind in ("parameter", "message") else ""
        key = (item.kind, item.name, owner)
        other = merged.get(key)
        if other is None:
            merged[key] = item
            continue
        richer = max(item, other, key=lambda each: (len(each.detail), each.position))
        tests = tuple(sorted({*item.tests, *other.tests}))
        merged[key] = richer.model_copy(update={"tests": tests})
    return sorted(merged.values(), key=lambda item: (item.kind, item.name, item.detail))
