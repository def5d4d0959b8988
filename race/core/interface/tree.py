"""A source tree as Python modules, and where a dotted name in it leads."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from race.core.interface.module_names import ModuleNames
from race.core.interface.symbols import Class, Function, Import, Module, Symbol, Variable, dotted
from race.core.interface.syntax import parse, read_module
from race.core.paths import TEST_SIDE, Layout
from race.core.records import sha256


@dataclass(frozen=True)
class External:
    """Something outside the tree, by its dotted name: the standard library or another project."""

    name: str


@dataclass(frozen=True)
class Missing:
    """A name that the tree's module or class does not have."""

    owner: str
    name: str


Resolved = Module | Class | Function | Variable | External | Missing | None
"""None: there is no telling (a dynamic module, an unknown base class)."""


class SourceTree:
    """The Python files of a tree. Files that do not parse count as dynamic.

    `parsed` is shared between trees, so that an unchanged file is parsed once.
    """

    def __init__(
        self, files: Mapping[str, bytes], parsed: dict[tuple[str, str], Module | None] | None = None
    ) -> None:
        self.files = {
            path: data for path, data in files.items() if path.endswith((".py", ".pyi", ".pyx"))
        }
        self._parsed = parsed if parsed is not None else {}
        self._layout = Layout([*files])
        self._tests: dict[str, bool] = {}
        self._read: dict[str, Module | None] = {}
        paths = sorted(self.files, key=lambda item: (self.is_test(item), item))
        self._names = ModuleNames([path for path in paths if path.endswith(".py")])

    def is_test(self, path: str) -> bool:
        """Whether a file is a test or a test's helper."""
        if path not in self._tests:
            self._tests[path] = self._layout.kind(path) in TEST_SIDE
        return self._tests[path]

    def at(self, path: str) -> Module | None:
        """The module in a file; None when it is not there or does not parse."""
        if path not in self._read:
            self._read[path] = self._parse(path)
        return self._read[path]

    def _parse(self, path: str) -> Module | None:
        data = self.files.get(path)
        if data is None or not path.endswith(".py"):
            return None
        name = self._names.of(path)
        key = (f"{path}:{name}", sha256(data))
        if key not in self._parsed:
            tree = parse(data)
            package = path.endswith("__init__.py")
            self._parsed[key] = read_module(name, path, tree, package) if tree else None
        return self._parsed[key]

    def has_module(self, name: str) -> bool:
        """A module or a folder of modules of that name is in the tree."""
        return name in self._names.paths or name in self._names.folders

    def module(self, name: str) -> Module | None:
        """A module by its dotted name."""
        path = self._names.paths.get(name)
        return self.at(path) if path is not None else None

    def modules(self, *, tests: bool) -> Iterator[Module]:
        """Every module that parses; `tests` chooses test files or all others."""
        for path in sorted(self.files):
            if self.is_test(path) == tests and path.endswith(".py"):
                module = self.at(path)
                if module is not None:
                    yield module

    def get(self, module_name: str, name: str, depth: int = 0) -> Resolved:
        """What `module.name` is, through re-exports and star imports."""
        if depth > 12:
            return None
        path = self._names.paths.get(module_name)
        if path is None:
            if self.has_module(f"{module_name}.{name}"):
                return self.import_(f"{module_name}.{name}")
            if module_name in self._names.folders:
                return Missing(module_name, name)
            return External(f"{module_name}.{name}") if module_name else External(name)
        module = self.at(path)
        if module is None:
            return None
        symbol = module.members.get(name)
        if symbol is not None:
            return self.follow(symbol, depth + 1)
        if self.has_module(f"{module_name}.{name}"):
            return self.import_(f"{module_name}.{name}")
        unknown = module.dynamic
        for star in module.stars:
            found = self.get(star, name, depth + 1)
            if found is not None and not isinstance(found, (Missing, External)):
                return found
            unknown = unknown or found is None or not self.has_module(star)
        if name in ("__name__", "__file__", "__doc__", "__path__", "__all__", "__dict__"):
            return None
        return None if unknown else Missing(module_name, name)

    def import_(self, name: str) -> Resolved:
        """What `import name` gives: the module, something outside, or no such module here."""
        found = self.module(name)
        if found is not None:
            return found
        if name in self._names.paths:
            return None
        if name in self._names.folders:
            return External(name)
        head = name.split(".")[0]
        if self.has_module(head):
            return Missing(name.rpartition(".")[0], name.rpartition(".")[2])
        return External(name)

    def follow(self, symbol: Symbol, depth: int = 0) -> Resolved:
        """A symbol, or what the import that it is leads to."""
        if not isinstance(symbol, Import):
            if isinstance(symbol, Variable) and symbol.value is not None and depth < 12:
                return self._alias(symbol, depth)
            return symbol
        if symbol.name is None:
            return self.import_(symbol.target)
        found = self.get(symbol.target, symbol.name, depth + 1)
        if isinstance(found, Missing) and not self.has_module(symbol.target):
            return External(f"{symbol.target}.{symbol.name}")
        return found

    def _alias(self, variable: Variable, depth: int) -> Resolved:
        """`Name = other.Name` at module level is the other thing, when that is in the tree."""
        if variable.owner is None and isinstance(variable.value, (ast.Name, ast.Attribute)):
            found = self.lookup(variable.module, dotted(variable.value), depth + 1)
            if isinstance(found, (Class, Function)):
                return found
        return variable

    def lookup(self, module_name: str, name: str, depth: int = 0) -> Resolved:
        """A dotted name as written inside a module."""
        if not name or depth > 12:
            return None
        head, *rest = name.split(".")
        found = self.get(module_name, head, depth + 1)
        if isinstance(found, Missing):
            found = External(head) if hasattr(builtins, head) else None
        for part in rest:
            found = self.attribute(found, part, depth + 1)
        return found

    def attribute(self, value: Resolved, name: str, depth: int = 0) -> Resolved:
        """`value.name` where the value is a module, a class or something outside."""
        if isinstance(value, Module):
            return self.get(value.name, name, depth)
        if isinstance(value, Class):
            return self.member(value, name)
        if isinstance(value, External):
            return External(f"{value.name}.{name}")
        return None

    def bases(self, cls: Class) -> list[Resolved]:
        """The base classes as they resolve in the class's module."""
        return [self.lookup(cls.module, dotted(base)) for base in cls.node.bases]

    def lineage(self, cls: Class) -> list[Class]:
        """The class and its bases in the tree, nearest first, each once."""
        seen: list[Class] = []
        queue = [cls]
        while queue and len(seen) < 60:
            head = queue.pop(0)
            if head in seen:
                continue
            seen.append(head)
            queue += [base for base in self.bases(head) if isinstance(base, Class)]
        return seen

    def open_ended(self, cls: Class) -> bool:
        """The class may have attributes that its source does not show."""
        for item in self.lineage(cls):
            if "__getattr__" in item.members or "__getattribute__" in item.members:
                return True
            for base in self.bases(item):
                plain = isinstance(base, External) and base.name in (
                    "object", "typing.Generic", "Generic", "typing.Protocol", "Protocol", "abc.ABC",
                    "ABC", "typing_extensions.Protocol",
                )  # fmt: skip
                if not plain and not isinstance(base, Class):
                    return True
        return False

    def member(self, cls: Class, name: str) -> Resolved:
        """`cls.name` through its bases in the tree."""
        for item in self.lineage(cls):
            found = item.members.get(name)
            if found is not None:
                return found
        return None if self.open_ended(cls) else Missing(cls.qualname, name)

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """Every name that product code defines: module members, class members, parameters excluded."""
        names: set[str] = set()
        for module in self.modules(tests=False):
            names.update(module.members)
            for cls in classes_of(module):
                names.update(cls.members)
        return frozenset(names)


def classes_of(module: Module) -> Iterator[Class]:
    """All classes of a module, nested ones too."""
    queue = [item for item in module.members.values() if isinstance(item, Class)]
    while queue:
        cls = queue.pop()
        yield cls
        queue += [item for item in cls.members.values() if isinstance(item, Class)]
