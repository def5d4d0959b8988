"""Stubs for a statement's interface: what somebody who has only the statement would put in first.

Nothing works afterwards, but everything that the statement names is there: modules can be imported,
names exist, calls are accepted. Used to check that a statement names enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from race.core.interface.items import InterfaceItem
from race.core.interface.symbols import Class, Function, Module
from race.core.interface.tree import SourceTree

_PRELUDE = '''

def _statement_stub(name, base=None, awaited=False):
    """A callable that takes anything and is not written yet."""
    if awaited:
        async def stub(*args, **kwargs):
            raise NotImplementedError(name)
    else:
        def stub(*args, **kwargs):
            raise NotImplementedError(name)
    stub.__name__ = stub.__qualname__ = name
    return stub


def _statement_class(name, *bases):
    """A class that can be made with anything."""
    def __init__(self, *args, **kwargs):
        if bases and issubclass(bases[0], BaseException):
            bases[0].__init__(self, *args)
    return type(name, bases or (object,), {"__init__": __init__, "__module__": __name__})


def _statement_accepting(function, keywords, positional, awaited=False):
    """The function, taking more: new keywords and positions are dropped, a result can be awaited."""
    import functools, inspect
    plain = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function

    @functools.wraps(plain)
    def wide(*args, **kwargs):
        for keyword in keywords:
            kwargs.pop(keyword, None)
        result = plain(*args[:positional] if positional else args, **kwargs)
        if awaited and not inspect.isawaitable(result):
            async def finished():
                return result
            return finished()
        return result
    return type(function)(wide) if isinstance(function, (staticmethod, classmethod)) else wide
'''


def stubbed(files: Mapping[str, bytes], items: Sequence[InterfaceItem]) -> dict[str, bytes]:
    """The tree with stubs for these items. Items that cannot be placed are left out."""
    tree = SourceTree(files)
    result = dict(files)
    appended: dict[str, list[str]] = {}
    order = ["module", "exception", "warning", "class", "function", "name", "method", "attribute"]
    ranked = sorted(items, key=lambda item: order.index(item.kind) if item.kind in order else 9)
    for item in ranked:
        if item.kind == "module":
            for path in _module_files(tree, result, item.name):
                result[path] = b""
            tree = SourceTree(result)
            continue
        place = _place(tree, item)
        if place is None:
            continue
        path, line = place
        appended.setdefault(path, []).append(line)
    for path, lines in appended.items():
        text = result.get(path, b"").rstrip(b"\n") + _PRELUDE.encode()
        result[path] = text + "\n".join(lines).encode() + b"\n"
    return result


def _module_files(tree: SourceTree, files: Mapping[str, bytes], name: str) -> list[str]:
    """Where a new module goes: beside the package's other modules, else at the tree's source root."""
    parent, _, last = name.rpartition(".")
    owner = tree.module(parent) if parent else None
    if owner is not None and owner.is_package:
        return [owner.path.rpartition("/")[0] + f"/{last}/__init__.py"]
    if owner is not None:
        return []
    root = "src/" if any(path.startswith("src/") and path.endswith(".py") for path in files) else ""
    return [f"{root}{name.replace('.', '/')}/__init__.py"]


def _place(tree: SourceTree, item: InterfaceItem) -> tuple[str, str] | None:
    """(file, line to append to it) for one item."""
    if item.kind in ("parameter", "coroutine"):
        return _widened(tree, item)
    if item.kind in ("message", "text", "result", "fixture"):
        return None
    owner_name, _, last = item.name.rpartition(".")
    module, inner = _owner(tree, owner_name)
    if module is None:
        return None
    target = f"{inner}.{last}" if inner else last
    if item.kind in ("exception", "warning"):
        base = item.detail if item.detail.isidentifier() else "Exception"
        return module.path, f"{target} = _statement_class({last!r}, {base})"
    if item.kind == "class":
        return module.path, f"{target} = _statement_class({last!r})"
    if item.kind in ("function", "method"):
        return module.path, f"{target} = _statement_stub({last!r}, awaited={item.asynchronous})"
    return module.path, f"{target} = None"


def _owner(tree: SourceTree, dotted_name: str) -> tuple[Module | None, str]:
    """(module whose file the name belongs into, class path inside it or '')."""
    module = tree.module(dotted_name)
    if module is not None:
        return module, ""
    parts = dotted_name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        holder = tree.module(".".join(parts[:cut]))
        if holder is None:
            continue
        found = tree.get(holder.name, parts[cut])
        if isinstance(found, Class) and not tree.is_test(found.path):
            home = tree.at(found.path)
            if home is not None:
                return home, ".".join([found.qualname, *parts[cut + 1 :]])
        return holder, ".".join(parts[cut:])
    return None, ""


def _widened(tree: SourceTree, item: InterfaceItem) -> tuple[str, str] | None:
    """A line that makes an existing callable accept a new parameter or give something to await."""
    name = item.detail if item.kind == "parameter" else item.name
    owner_name, _, last = name.rpartition(".")
    module, inner = _owner(tree, owner_name)
    if module is None:
        return None
    if not inner:
        found = tree.get(module.name, last)
        if isinstance(found, Function):
            return found.path, _wide_line("", found.name, item)
        if isinstance(found, Class):
            return found.path, _wide_line(found.qualname, "__init__", item)
        return None
    return module.path, _wide_line(inner, last, item)


def _wide_line(owner: str, name: str, item: InterfaceItem) -> str:
    target = f"{owner}.{name}" if owner else name
    current = f"{owner}.__dict__.get({name!r}, {target})" if owner else name
    keywords = [item.name] if item.kind == "parameter" else []
    keep = 0
    if item.position:
        keep = item.position - 1 + (1 if owner else 0)
    awaited = item.kind == "coroutine"
    return f"{target} = _statement_accepting({current}, {keywords!r}, {keep}, {awaited})"
