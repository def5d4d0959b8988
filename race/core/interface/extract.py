"""The interface of a task: what its tests use, compared between the two trees."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping

from race.core.interface.changes import Changes, says
from race.core.interface.fixtures import Fixtures
from race.core.interface.items import InterfaceItem, ItemKind
from race.core.interface.signatures import accepted, call_shape, result_sizes, result_type, returns_value
from race.core.interface.syntax import Class, Function, Module, Variable
from race.core.interface.tree import External, Missing, Resolved, SourceTree
from race.core.interface.uses import Use
from race.core.interface.values import Inference
from race.core.interface.walk import Walk

_SOFT = frozenset({"__init__", "__new__", "__class__", "__dict__", "__name__", "__doc__", "__call__"})


class Interface:
    """Both trees and what hidden tests use of them.

    `before` is the base with the test patch, `after` has the fix as well; both map paths to bytes.
    """

    def __init__(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
        parsed: dict[tuple[str, str], Module | None] = {}
        self.before, self.after = SourceTree(before, parsed), SourceTree(after, parsed)
        self.changes = Changes(self.before, self.after)
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
            for item in self._items_of(uses):
                found.setdefault(item, []).append(test_id)
        merged = [
            item.model_copy(update={"tests": tuple(dict.fromkeys(ids))}) for item, ids in found.items()
        ]
        return _tidied(merged)

    def _items_of(self, uses: list[Use]) -> Iterator[InterfaceItem]:
        for use in uses:
            if use.kind == "module":
                yield from self._module(use)
            elif use.kind == "name" and isinstance(use.owner, Module):
                yield from self._name(use.owner, use.name, uses)
            elif use.kind == "member" and isinstance(use.owner, Class):
                yield from self._member(use.owner, use.name, uses)
            elif use.kind in ("loose", "loose-call"):
                yield from self._loose(use, uses)
            elif use.kind == "call":
                yield from self._call(use)
            elif use.kind == "awaited" and isinstance(use.owner, Function):
                old = self.changes.function_before(use.owner)
                if use.owner.is_async and old is not None and not old.is_async:
                    yield InterfaceItem(kind="coroutine", name=self.public(use.owner))
            elif use.kind == "unpacked" and isinstance(use.owner, Function):
                yield from self._result(use.owner, use.positional)
            elif use.kind == "result" and isinstance(use.owner, Function):
                yield from self._newly_returns(use.owner)
            elif use.kind == "fixture" and isinstance(use.owner, Function):
                module = self.before.at(use.owner.path)
                if module is None or use.owner.name not in module.members:
                    yield InterfaceItem(kind="fixture", name=use.name)
            elif use.kind == "text":
                yield from self._text(use)

    def _module(self, use: Use) -> Iterator[InterfaceItem]:
        parts = use.name.split(".")
        for cut in range(1, len(parts) + 1):
            name = ".".join(parts[:cut])
            if self.after.has_module(name) and not self.before.has_module(name):
                yield InterfaceItem(kind="module", name=name)

    def _name(self, module: Module, name: str, uses: list[Use]) -> Iterator[InterfaceItem]:
        if self.after.is_test(module.path) or name == "*":
            return
        found = self.after.get(module.name, name)
        outside = isinstance(found, External) and name in self.changes.members
        if found is None or (isinstance(found, (Missing, External, Module)) and not outside):
            return
        if self.before.has_module(module.name):
            earlier = self.before.get(module.name, name)
            if not isinstance(earlier, Missing):
                return
        yield self.item(found, f"{module.name}.{name}", uses)

    def item(self, found: Resolved, name: str, uses: list[Use]) -> InterfaceItem:
        """A new symbol as an item, with the shape of the calls that these uses make of it."""
        kind: ItemKind = "name"
        detail, asynchronous = "", False
        if isinstance(found, Class):
            base = self._exception_base(found)
            kind, detail = ("class", call_shape(self.after, found, uses))
            if base:
                kind, detail = ("warning" if base.endswith("Warning") else "exception", base)
        elif isinstance(found, Function):
            kind = "method" if found.owner is not None else "function"
            detail, asynchronous = call_shape(self.after, found, uses), found.is_async
            if found.is_property:
                kind, detail, asynchronous = "attribute", "", False
        elif isinstance(found, Variable) and found.owner is not None:
            kind = "attribute"
        return InterfaceItem(kind=kind, name=name, detail=detail, asynchronous=asynchronous)

    def _exception_base(self, cls: Class) -> str:
        """The nearest base outside the tree, when the class is an exception."""
        for item in self.after.lineage(cls):
            for base in self.after.bases(item):
                if isinstance(base, External):
                    kind = getattr(builtins, base.name.split(".")[-1], None)
                    if isinstance(kind, type) and issubclass(kind, BaseException):
                        return base.name.split(".")[-1]
        return ""

    def _member(self, receiver: Class, name: str, uses: list[Use]) -> Iterator[InterfaceItem]:
        if name in _SOFT:
            return
        holder = next((c for c in self.after.lineage(receiver) if name in c.members), None)
        if holder is None or self.after.is_test(holder.path):
            return
        for cls in (holder, *self.after.lineage(receiver)):
            earlier = self.changes.class_before(cls)
            if earlier is not None and self._had(earlier, name):
                return
        shown = next((c for c in self.after.lineage(receiver) if not self.after.is_test(c.path)), holder)
        found = holder.members[name]
        yield self.item(found, f"{self.public(shown)}.{name}", uses)

    def _had(self, cls: Class, name: str) -> bool:
        for item in self.before.lineage(cls):
            if name in item.members:
                return True
            for base in self.before.bases(item):
                if isinstance(base, External) and hasattr(getattr(builtins, base.name, None), name):
                    return True
        return False

    def _loose(self, use: Use, uses: list[Use]) -> Iterator[InterfaceItem]:
        """A name used of something unknown counts when only the fix defines it anywhere."""
        if use.kind == "loose-call":
            for keyword in use.keywords:
                for function in self.changes.parameters.get(keyword, ()):
                    if function.name == use.name and self.changes.function_before(function):
                        yield self._parameter(function, keyword, 0)
        if use.name in self.before.attribute_names or use.kind != "loose":
            return
        for owner, symbol in self.changes.members.get(use.name, ()):
            if isinstance(owner, Class):
                found = self.item(
                    symbol if isinstance(symbol, (Class, Function, Variable)) else None,
                    f"{self.public(owner)}.{use.name}",
                    uses,
                )
                yield found if found.kind != "name" else found.model_copy(update={"kind": "attribute"})

    def _call(self, use: Use) -> Iterator[InterfaceItem]:
        callee = use.owner
        if isinstance(callee, Class):
            earlier: Class | Function | None = self.changes.class_before(callee)
        elif isinstance(callee, Function):
            earlier = self.changes.function_before(callee)
        else:
            return
        if earlier is None:
            return
        now, then = accepted(self.after, callee), accepted(self.before, earlier)
        if now is None or then is None:
            return
        for keyword in use.keywords:
            newly = keyword in now.keywords and not (keyword in then.keywords or then.any_keyword)
            passed_on = (
                keyword not in now.keywords
                and now.any_keyword
                and keyword in self.changes.parameters
                and not any(keyword in names for names in (then.keywords, self.before.attribute_names))
            )
            if newly or passed_on:
                yield self._parameter(callee, keyword, 0, use.receiver)
        if then.positional is None or use.starred:
            return
        for place in range(len(then.positional), use.positional):
            if now.positional is not None and place < len(now.positional):
                yield self._parameter(callee, now.positional[place], place + 1, use.receiver)

    def _parameter(
        self, callee: Function | Class, name: str, place: int, receiver: Class | None = None
    ) -> InterfaceItem:
        return InterfaceItem(
            kind="parameter", name=name, detail=self.public(callee, receiver), position=place
        )

    def _result(self, function: Function, count: int) -> Iterator[InterfaceItem]:
        old = self.changes.function_before(function)
        if old is None:
            return
        now, then = result_sizes(function), result_sizes(old)
        if count in now and then and count not in then:
            yield InterfaceItem(kind="result", name=self.public(function), detail=f"{count} values")

    def _newly_returns(self, function: Function) -> Iterator[InterfaceItem]:
        """A function that gave nothing before gives something that a test looks at."""
        old = self.changes.function_before(function)
        if old is not None and not returns_value(old) and returns_value(function):
            detail = result_type(function)
            yield InterfaceItem(kind="result", name=self.public(function), detail=detail)

    def _text(self, use: Use) -> Iterator[InterfaceItem]:
        wanted = use.name
        if len(wanted.strip()) < 3 or len(wanted) > 400:
            return
        pattern = use.context == "pattern"
        fresh = [text for text in self.changes.texts if says(text, wanted, pattern=pattern)]
        if not fresh or any(says(text, wanted, pattern=pattern) for text in self.changes.texts_before):
            return
        owner = next((self.changes.texts[text] for text in fresh if self.changes.texts[text]), "")
        message = pattern or bool(owner) or (use.context == "compare" and " " in wanted)
        yield InterfaceItem(
            kind="message" if message else "text", name=wanted, detail=owner if message else ""
        )

    def public(self, symbol: Class | Function, receiver: Class | None = None) -> str:
        """The shortest dotted name that leads to a class, function or method from outside."""
        if isinstance(symbol, Function) and symbol.owner is not None:
            owner = receiver if receiver and not self.after.is_test(receiver.path) else symbol.owner
            return f"{self.public(owner)}.{symbol.name}"
        qualname = symbol.qualname if isinstance(symbol, Class) else symbol.name
        head = qualname.split(".")[0]
        parts = symbol.module.split(".")
        target = self.after.get(symbol.module, head)
        for cut in range(1, len(parts)):
            package = ".".join(parts[:cut])
            if target is not None and self.after.get(package, head) is target:
                return f"{package}.{qualname}"
        return f"{symbol.module}.{qualname}"


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
