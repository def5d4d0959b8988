"""setup.cfg and setup.py, read without running them: literal values only."""

from __future__ import annotations

import ast
import configparser
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from race.core.environment.declared import Tree


@dataclass(frozen=True)
class Setup:
    """Requirements and extras that are written down literally; `known` says whether any were."""

    name: str = ""
    requires_python: str = ""
    requirements: tuple[str, ...] = ()
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tests: tuple[str, ...] = ()


def read_ini(tree: Tree, path: str) -> configparser.RawConfigParser:
    """An ini file of the tree; empty when it is missing or does not parse."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    text = tree.get(path, b"").decode("utf-8-sig", "replace")
    try:
        parser.read_string(text)
    except configparser.Error:
        return configparser.RawConfigParser()
    return parser


def ini_list(text: str | None) -> tuple[str, ...]:
    """A value with one item to a line (or separated by semicolons in old files)."""
    lines = (line.split(" #")[0].strip() for line in (text or "").splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def read_setup(tree: Tree) -> Setup:
    """What setup.cfg and setup.py say; setup.py wins where both do."""
    ini = read_ini(tree, "setup.cfg")
    extras: dict[str, tuple[str, ...]] = {}
    if ini.has_section("options.extras_require"):
        extras = {key: ini_list(value) for key, value in ini.items("options.extras_require")}
    found = Setup(
        name=ini.get("metadata", "name", fallback="") or "",
        requires_python=ini.get("options", "python_requires", fallback="") or "",
        requirements=ini_list(ini.get("options", "install_requires", fallback="")),
        extras=extras,
        tests=ini_list(ini.get("options", "tests_require", fallback="")),
    )
    script = _setup_call(tree.get("setup.py", b""))
    return Setup(
        name=script.name or found.name,
        requires_python=script.requires_python or found.requires_python,
        requirements=script.requirements or found.requirements,
        extras={**found.extras, **script.extras},
        tests=script.tests or found.tests,
    )


def _setup_call(source: bytes) -> Setup:
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return Setup()
    names: dict[str, Any] = {}
    for node in module.body:
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
        ):
            value = _literal(node.value, names)
            if value is not None:
                names[node.targets[0].id] = value
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and _called(call) == "setup":
            given = {word.arg: _literal(word.value, names) for word in call.keywords if word.arg}
            extras = given.get("extras_require")
            extras = extras if isinstance(extras, dict) else {}
            return Setup(
                name=_text(given.get("name")),
                requires_python=_text(given.get("python_requires")),
                requirements=_list(given.get("install_requires")),
                extras={str(key): _list(value) for key, value in extras.items()},
                tests=_list(given.get("tests_require")),
            )
    return Setup()


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _literal(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """A literal, a name bound to one, or sums of such lists; None for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left, names), _literal(node.right, names)
        return left + right if isinstance(left, list) and isinstance(right, list) else None
    if isinstance(node, ast.Dict):
        pairs = [
            (key, _literal(value, names)) for key, value in zip(node.keys, node.values, strict=True)
        ]
        return {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_literal(item, names) for item in node.elts]
        return [item for item in items if item is not None]
    return node.value if isinstance(node, ast.Constant) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return ini_list(value)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
