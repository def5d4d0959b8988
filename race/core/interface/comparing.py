"""From what a test uses to what of it the base does not have, one use at a time."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

from race.core.interface.changes import Changes, says
from race.core.interface.items import InterfaceItem, ItemKind
from race.core.interface.naming import public_name
from race.core.interface.signatures import accepted, call_shape, result_sizes, result_type, returns_value
from race.core.interface.symbols import Class, Function, Module, Variable
from race.core.interface.tree import External, Missing, Resolved, SourceTree
from race.core.interface.uses import Use

_SOFT = frozenset({"__init__", "__new__", "__class__", "__dict__", "__name__", "__doc__", "__call__"})


class Comparison:
    """Compares uses between the tree before the fix and the tree after it."""

    def __init__(self, before: SourceTree, after: SourceTree, changes: Changes) -> None:
        self._before, self._after, self._changes = before, after, changes

    def items(self, uses: list[Use]) -> Iterator[InterfaceItem]:
        """What these uses of one test need, in their order; the same item may come again."""
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
                old = self._changes.function_before(use.owner)
                if use.owner.is_async and old is not None and not old.is_async:
                    yield InterfaceItem(kind="coroutine", name=self._public(use.owner))
            elif use.kind == "unpacked" and isinstance(use.owner, Function):
                yield from self._result(use.owner, use.positional)
            elif use.kind == "result" and isinstance(use.owner, Function):
                yield from self._newly_returns(use.owner)
            elif use.kind == "fixture" and isinstance(use.owner, Function):
                module = self._before.at(use.owner.path)
                if module is None or use.owner.name not in module.members:
                    yield InterfaceItem(kind="fixture", name=use.name)
            elif use.kind == "text":
                yield from self._text(use)

    def _module(self, use: Use) -> Iterator[InterfaceItem]:
        parts = use.name.split(".")
        for cut in range(1, len(parts) + 1):
            name = ".".join(parts[:cut])
            if self._after.has_module(name) and not self._before.has_module(name):
                yield InterfaceItem(kind="module", name=name)

    def _name(self, module: Module, name: str, uses: list[Use]) -> Iterator[InterfaceItem]:
        if self._after.is_test(module.path) or name == "*":
            return
        found = self._after.get(module.name, name)
        outside = isinstance(found, External) and name in self._changes.members
        if found is None or (isinstance(found, (Missing, External, Module)) and not outside):
            return
        if self._before.has_module(module.name):
            earlier = self._before.get(module.name, name)
            if not isinstance(earlier, Missing):
                return
        yield self._item(found, f"{module.name}.{name}", uses)

    def _item(self, found: Resolved, name: str, uses: list[Use]) -> InterfaceItem:
        """A new symbol as an item, with the shape of the calls that these uses make of it."""
        kind: ItemKind = "name"
        detail, asynchronous = "", False
        if isinstance(found, Class):
            base = self._exception_base(found)
            kind, detail = ("class", call_shape(self._after, found, uses))
            if base:
                kind, detail = ("warning" if base.endswith("Warning") else "exception", base)
        elif isinstance(found, Function):
            kind = "method" if found.owner is not None else "function"
            detail, asynchronous = call_shape(self._after, found, uses), found.is_async
            if found.is_property:
                kind, detail, asynchronous = "attribute", "", False
        elif isinstance(found, Variable) and found.owner is not None:
            kind = "attribute"
        return InterfaceItem(kind=kind, name=name, detail=detail, asynchronous=asynchronous)

    def _exception_base(self, cls: Class) -> str:
        """The nearest base outside the tree, when the class is an exception."""
        for item in self._after.lineage(cls):
            for base in self._after.bases(item):
                if isinstance(base, External):
                    kind = getattr(builtins, base.name.split(".")[-1], None)
                    if isinstance(kind, type) and issubclass(kind, BaseException):
                        return base.name.split(".")[-1]
        return ""

    def _member(self, receiver: Class, name: str, uses: list[Use]) -> Iterator[InterfaceItem]:
        if name in _SOFT:
            return
        holder = next((c for c in self._after.lineage(receiver) if name in c.members), None)
        if holder is None or self._after.is_test(holder.path):
            return
        for cls in (holder, *self._after.lineage(receiver)):
            earlier = self._changes.class_before(cls)
            if earlier is not None and self._had(earlier, name):
                return
        shown = next(
            (c for c in self._after.lineage(receiver) if not self._after.is_test(c.path)), holder
        )
        found = holder.members[name]
        yield self._item(found, f"{self._public(shown)}.{name}", uses)

    def _had(self, cls: Class, name: str) -> bool:
        for item in self._before.lineage(cls):
            if name in item.members:
                return True
            for base in self._before.bases(item):
                if isinstance(base, External) and hasattr(getattr(builtins, base.name, None), name):
                    return True
        return False

    def _loose(self, use: Use, uses: list[Use]) -> Iterator[InterfaceItem]:
        """A name used of something unknown counts when only the fix defines it anywhere."""
        if use.kind == "loose-call":
            for keyword in use.keywords:
                for function in self._changes.parameters.get(keyword, ()):
                    if function.name == use.name and self._changes.function_before(function):
                        yield self._parameter(function, keyword, 0)
        if use.name in self._before.attribute_names or use.kind != "loose":
            return
        for owner, symbol in self._changes.members.get(use.name, ()):
            if isinstance(owner, Class):
                found = self._item(
                    symbol if isinstance(symbol, (Class, Function, Variable)) else None,
                    f"{self._public(owner)}.{use.name}",
                    uses,
                )
                yield found if found.kind != "name" else found.model_copy(update={"kind": "attribute"})

    def _call(self, use: Use) -> Iterator[InterfaceItem]:
        callee = use.owner
        if isinstance(callee, Class):
            earlier: Class | Function | None = self._changes.class_before(callee)
        elif isinstance(callee, Function):
            earlier = self._changes.function_before(callee)
        else:
            return
        if earlier is None:
            return
        now, then = accepted(self._after, callee), accepted(self._before, earlier)
        if now is None or then is None:
            return
        for keyword in use.keywords:
            newly = keyword in now.keywords and not (keyword in then.keywords or then.any_keyword)
            passed_on = (
                keyword not in now.keywords
                and now.any_keyword
                and keyword in self._changes.parameters
                and not any(keyword in names for names in (then.keywords, self._before.attribute_names))
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
            kind="parameter", name=name, detail=self._public(callee, receiver), position=place
        )

    def _result(self, function: Function, count: int) -> Iterator[InterfaceItem]:
        old = self._changes.function_before(function)
        if old is None:
            return
        now, then = result_sizes(function), result_sizes(old)
        if count in now and then and count not in then:
            yield InterfaceItem(kind="result", name=self._public(function), detail=f"{count} values")

    def _newly_returns(self, function: Function) -> Iterator[InterfaceItem]:
        """A function that gave nothing before gives something that a test looks at."""
        old = self._changes.function_before(function)
        if old is not None and not returns_value(old) and returns_value(function):
            detail = result_type(function)
            yield InterfaceItem(kind="result", name=self._public(function), detail=detail)

    def _text(self, use: Use) -> Iterator[InterfaceItem]:
        wanted = use.name
        if len(wanted.strip()) < 3 or len(wanted) > 400:
            return
        pattern = use.context == "pattern"
        fresh = [text for text in self._changes.texts if says(text, wanted, pattern=pattern)]
        if not fresh or any(says(text, wanted, pattern=pattern) for text in self._changes.texts_before):
            return
        owner = next((self._changes.texts[text] for text in fresh if self._changes.texts[text]), "")
        message = pattern or bool(owner) or (use.context == "compare" and " " in wanted)
        yield InterfaceItem(
            kind="message" if message else "text", name=wanted, detail=owner if message else ""
        )

    def _public(self, symbol: Class | Function, receiver: Class | None = None) -> str:
        return public_name(self._after, symbol, receiver)
