"""What conda and pixi files name for tests: the last place to look, for their names are their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from race.core.environment.declared import Tree, parsed, read_toml, table

ENVIRONMENT = re.compile(
    r"^(?:(?:ci|continuous_integration|conda|requirements|devtools|\.github)/)?"
    r"(?:conda[-_])?env(?:ironment)?(?:[-_.][\w.-]+)?\.ya?ml$"
)
NOT_AN_INDEX = {"python", "pip", "conda", "mamba", "compilers", "c-compiler", "cxx-compiler", "gcc"}
RENAMED = {
    "msgpack-python": "msgpack",
    "dask-core": "dask",
    "pytables": "tables",
    "matplotlib-base": "matplotlib",
    "filesystem-spec": "fsspec",
}
SECTION = re.compile(r"^dependencies:[^\n]*\n(.*?)(?=^[A-Za-z]|\Z)", re.MULTILINE | re.DOTALL)
FEATURE = re.compile(r"^(tests?|testing|pytest|test-.*)$")


def conda_groups(tree: Tree, python: str = "3.11") -> Iterator[tuple[str, tuple[str, ...]]]:
    """(where, requirements): pixi features named for tests, then one environment file."""
    pixi = read_toml(tree, "pixi.toml")
    for name, feature in table(pixi, "feature").items():
        if FEATURE.match(name):
            tables = [table(feature, key) for key in ("dependencies", "pypi-dependencies")]
            items = [_pin(key, value) for one in tables for key, value in one.items()]
            yield f"pixi.toml feature {name}", _known(items)
    files = sorted(path for path in tree if ENVIRONMENT.match(path))
    chosen = [path for path in files if python in path] or files
    if chosen:
        text = tree[chosen[0]].decode("utf-8", "replace")
        inside = "".join(SECTION.findall(text))
        lines = re.findall(r"^\s*-[ \t]+([A-Za-z0-9][^#\n]*)", inside, re.MULTILINE)
        lines = [line for line in lines if not line.strip().endswith(":") and "://" not in line]
        yield chosen[0], _known([_conda(line.strip()) for line in lines])


def _pin(name: str, value: Any) -> str:
    return _conda(f"{name}{value}" if isinstance(value, str) and value != "*" else name)


def _conda(text: str) -> str:
    """A conda specification as a requirement: `a=1.2` pins the series, channels are dropped."""
    text = text.split("::")[-1].replace(" ", "").strip("\"'")
    match = re.fullmatch(r"([A-Za-z0-9._-]+)=([0-9][0-9.]*)(?:=.*)?", text)
    if match:
        text = f"{match[1]}=={match[2].rstrip('.')}.*"
    head = re.match(r"[A-Za-z0-9._-]+", text)
    name = head[0].lower() if head else ""
    return text.replace(head[0], RENAMED.get(name, name), 1) if head else text


def _known(items: list[str]) -> tuple[str, ...]:
    found = []
    for item in items:
        requirement = parsed(item)
        if requirement is not None and requirement.name not in NOT_AN_INDEX:
            found.append(item)
    return tuple(dict.fromkeys(found))
