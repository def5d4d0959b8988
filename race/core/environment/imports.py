"""What test files use that no requirement names: imported modules, fixtures and markers of plugins."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from race.core.environment.declared import Tree
from race.core.environment.known import DISTRIBUTIONS, FIXTURES, MARKERS

CONDITION = re.compile(r"TYPE_CHECKING|version_info|platform|os\.name|implementation")
MISSING = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named ['\"]?([\w.]+)")


def distribution_of(module: str) -> str:
    """The distribution that most likely provides an imported module."""
    head = module.split(".")[0]
    return DISTRIBUTIONS.get(module) or DISTRIBUTIONS.get(head) or head.replace("_", "-").lower()


def missing_modules(output: str) -> list[str]:
    """Modules that a failed run says are not there, in order."""
    return list(dict.fromkeys(MISSING.findall(output)))


def local_modules(tree: Iterable[str]) -> set[str]:
    """Names that the project's own files can be imported under."""
    found: set[str] = set()
    for path in tree:
        if path.endswith((".py", ".pyi", ".pyx", ".so")):
            parts = path.split("/")
            found |= set(parts[:-1])
            found.add(parts[-1].split(".")[0])
    return found


@dataclass(frozen=True)
class Use:
    """A distribution that a test file uses: through a module, or (module empty) a plugin's name."""

    distribution: str
    module: str
    why: str


def used_by_tests(files: Mapping[str, bytes], tree: Tree) -> list[Use]:
    """All that these test files use and the project does not hold itself, one for a distribution.

    An import guarded by `try` or `pytest.importorskip` is not demanded. Fixtures count only where no
    file defines one of that name.
    """
    local = local_modules([*tree, *files])
    defined = _fixtures_defined({**_tests_of(tree), **files})
    found: dict[str, Use] = {}

    def add(distribution: str, module: str, why: str) -> None:
        found.setdefault(distribution, Use(distribution, module, why))

    for path in sorted(files):
        try:
            module = ast.parse(files[path])
        except (SyntaxError, ValueError):
            continue
        for name in _imports(module):
            head = name.split(".")[0]
            if head not in sys.stdlib_module_names and head not in local:
                add(distribution_of(name), head, f"{path} imports {name}")
        for fixture in sorted(_arguments(module) - defined):
            if fixture in FIXTURES:
                add(FIXTURES[fixture], "", f"{path} uses fixture {fixture}")
        for marker in sorted(_markers(module)):
            for distribution in MARKERS.get(marker, "").split():
                add(distribution, "", f"{path} uses marker {marker}")
    return list(found.values())


def _tests_of(tree: Tree) -> dict[str, bytes]:
    return {
        path: data for path, data in tree.items() if re.search(r"(^|/)(conftest|fixtures?)\.py$", path)
    }


def _imports(module: ast.Module) -> list[str]:
    """Absolute imports, also inside functions; not those in `try` blocks or under a condition on
    type checking, version or platform."""
    found: list[str] = []

    def walk(nodes: Iterable[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                found.extend(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.append(node.module)
            elif isinstance(node, ast.If) and CONDITION.search(ast.unparse(node.test)):
                continue
            elif not isinstance(node, (ast.Try, ast.TryStar)):
                for name in ("body", "orelse", "finalbody"):
                    walk(getattr(node, name, []))

    walk(module.body)
    return found


def _arguments(module: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(module):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if node.name.startswith("test") or _is_fixture(node):
            found |= {argument.arg for argument in node.args.args}
    return found


def _fixtures_defined(files: Mapping[str, bytes]) -> set[str]:
    found: set[str] = set()
    for data in files.values():
        try:
            module = ast.parse(data)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_fixture(node):
                found.add(node.name)
    return found


def _is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)


def _markers(module: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(module):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Attribute):
            continue
        if node.value.attr == "mark" and isinstance(node.value.value, ast.Name):
            found.add(node.attr)
    return found
