"""What a fix newly defines in product code: names, parameters, texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from race.core.interface.symbols import Class, Function, Module, Symbol, dotted
from race.core.interface.tree import SourceTree, classes_of

_TEXT_MINIMUM = 3


class Changes:
    """The product files that differ between two trees, as definitions."""

    def __init__(self, before: SourceTree, after: SourceTree) -> None:
        self.before, self.after = before, after
        self.paths = [
            path
            for path in sorted(after.files)
            if path.endswith(".py")
            and not after.is_test(path)
            and after.files[path] != before.files.get(path)
        ]

    def class_before(self, cls: Class) -> Class | None:
        """The class of the same place and name in the earlier tree."""
        module = self.before.at(cls.path)
        return _find_class(module, cls.qualname) if module else None

    def function_before(self, function: Function) -> Function | None:
        """The function of the same place and name in the earlier tree, inherited ones too."""
        if function.owner is None:
            module = self.before.at(function.path)
            found = module.members.get(function.name) if module else None
            return found if isinstance(found, Function) else None
        owner = self.class_before(function.owner)
        if owner is None:
            return None
        member = self.before.member(owner, function.name)
        return member if isinstance(member, Function) else None

    @cached_property
    def members(self) -> dict[str, list[tuple[Class | Module, Symbol]]]:
        """Name -> where the fix newly defines it: a module's or a class's member."""
        found: dict[str, list[tuple[Class | Module, Symbol]]] = {}
        for path in self.paths:
            module = self.after.at(path)
            if module is None:
                continue
            old = self.before.at(path)
            known = set(old.members) if old else set()
            for name, symbol in module.members.items():
                if name not in known:
                    found.setdefault(name, []).append((module, symbol))
            for cls in classes_of(module):
                earlier = _find_class(old, cls.qualname) if old else None
                for name, member in cls.members.items():
                    if earlier is None or not _explicit(self.before, earlier, name):
                        found.setdefault(name, []).append((cls, member))
        return found

    @cached_property
    def parameters(self) -> dict[str, list[Function]]:
        """Parameter -> functions that newly take it."""
        found: dict[str, list[Function]] = {}
        for path in self.paths:
            module = self.after.at(path)
            for function in functions_of(module) if module else ():
                old = self.function_before(function)
                for name in [*function.positional(), *function.keywords()]:
                    if old is None or name not in [*old.positional(), *old.keywords()]:
                        owners = found.setdefault(name, [])
                        if function not in owners:
                            owners.append(function)
        return found

    @cached_property
    def texts(self) -> dict[str, str]:
        """Texts that the fix brings and no product file had -> exception raised with it, or ''."""
        known = self.texts_before
        found: dict[str, str] = {}
        for path in self.paths:
            module = self.after.at(path)
            for text, owner in texts_of(module) if module else ():
                if text not in known and len(text) >= _TEXT_MINIMUM:
                    found[text] = found.get(text) or owner
        return found

    @cached_property
    def texts_before(self) -> frozenset[str]:
        """Every text of the earlier product code; `\\0` stands for what an f-string puts in."""
        return frozenset(
            text for module in self.before.modules(tests=False) for text, _ in texts_of(module)
        )


def _find_class(module: Module | None, qualname: str) -> Class | None:
    if module is None:
        return None
    head, *rest = qualname.split(".")
    found = module.members.get(head)
    for part in rest:
        found = found.members.get(part) if isinstance(found, Class) else None
    return found if isinstance(found, Class) else None


def _explicit(tree: SourceTree, cls: Class, name: str) -> bool:
    return any(name in item.members for item in tree.lineage(cls))


def functions_of(module: Module) -> Iterator[Function]:
    """Functions and methods of a module, not those nested in functions."""
    for symbol in module.members.values():
        if isinstance(symbol, Function):
            yield symbol
    for cls in classes_of(module):
        for member in cls.members.values():
            if isinstance(member, Function):
                yield member


def texts_of(module: Module) -> Iterator[tuple[str, str]]:
    """String constants of a module with the exception that is raised with them; no docstrings."""
    skip: set[int] = set()
    raised: dict[int, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skip.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skip.update(id(part) for part in node.values)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).split(".")[-1]
            for part in ast.walk(node.exc):
                raised[id(part)] = name
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("set_exception"):
            for given in node.args:
                for part in ast.walk(given):
                    raised[id(part)] = dotted(given).split(".")[-1]
    for node in ast.walk(module.tree):
        if id(node) in skip:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, raised.get(id(node), "")
        elif isinstance(node, ast.JoinedStr):
            yield template(node), raised.get(id(node), "")


def template(node: ast.JoinedStr) -> str:
    """An f-string with `\\0` for each value that it puts in."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)


def says(text: str, wanted: str, *, pattern: bool) -> bool:
    """Whether product text (a template) can be what a test expects: equal, a part, or a match."""
    if pattern:
        try:
            if "\0" not in text and len(text) >= _TEXT_MINIMUM and re.search(wanted, text):
                return True
        except re.error:
            return False
        wanted = re.sub(r"\\(.)", r"\1", wanted.strip("^$"))
    if "\0" not in text:
        return wanted == text or (len(wanted) >= 8 and " " in wanted and wanted in text)
    pieces = [piece for piece in text.split("\0") if piece.strip()]
    if sum(len(piece.strip()) for piece in pieces) < 6:
        return False
    expression = "(?s:.{0,200}?)".join(re.escape(piece) for piece in text.split("\0"))
    if re.fullmatch(expression, wanted):
        return True
    return len(wanted) >= 8 and " " in wanted and any(wanted in piece for piece in pieces)
