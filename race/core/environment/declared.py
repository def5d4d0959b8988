"""What pyproject.toml declares, whatever tool it was written for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from race.errors import Malformed

Tree = Mapping[str, bytes]
"""The files of a project at one commit: path -> content."""

SELF = "race-this-project"
"""Stands for the project itself in requirements such as `.[trio]`."""
LEGACY = "setuptools.build_meta:__legacy__"


@dataclass(frozen=True)
class Declared:
    """Name, requirements, extras and groups as far as they are written down.

    `unknown` names what only the build back-end can tell: dependencies, extras, version, name.
    """

    name: str = ""
    version: str = ""
    requires_python: str = ""
    classifiers: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    group_source: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    backend: str = ""
    backend_path: tuple[str, ...] = ()
    build_requirements: tuple[str, ...] = ()
    tools: Mapping[str, Any] = field(default_factory=dict)
    installable: bool = True


def read_toml(tree: Tree, path: str) -> dict[str, Any]:
    """A TOML file of the tree; empty without it. Malformed when it does not parse."""
    data = tree.get(path)
    if data is None:
        return {}
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Malformed(path, "", f"does not parse: {error}") from error


def table(value: Any, *keys: str) -> dict[str, Any]:
    """A nested table, empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def strings(value: Any) -> tuple[str, ...]:
    """The strings of a list, each on one line; nothing for anything else."""
    items = value if isinstance(value, list) else []
    return tuple(" ".join(item.split()) for item in items if isinstance(item, str))


def declared(tree: Tree) -> Declared:
    """What the tree's pyproject.toml says; for a project without one, what setuptools would do."""
    whole = read_toml(tree, "pyproject.toml")
    tools = table(whole, "tool")
    project, build = table(whole, "project"), table(whole, "build-system")
    poetry = table(tools, "poetry")
    legacy = "setup.py" in tree or "setup.cfg" in tree
    backend = build.get("build-backend") or (LEGACY if legacy or build else "")
    requires = strings(build.get("requires"))
    if not requires and backend.startswith("setuptools"):
        requires = ("setuptools", "wheel")
    groups, source = _groups(whole, tools)
    dynamic = set(strings(project.get("dynamic")))
    if not project:
        dynamic = {"dependencies", "optional-dependencies", "version", "name"}
    name = str(
        project.get("name") or poetry.get("name") or table(tools, "flit", "metadata").get("module") or ""
    )
    extras = {key: strings(value) for key, value in table(project, "optional-dependencies").items()}
    return Declared(
        name=canonicalize_name(name) if name else "",
        version=str(project.get("version") or poetry.get("version") or ""),
        requires_python=str(project.get("requires-python") or _poetry_python(poetry)),
        classifiers=strings(project.get("classifiers")) or strings(poetry.get("classifiers")),
        requirements=strings(project.get("dependencies")),
        extras=extras,
        groups=groups,
        group_source=source,
        unknown=frozenset(dynamic & {"dependencies", "optional-dependencies", "version", "name"}),
        backend=backend,
        backend_path=strings(build.get("backend-path")),
        build_requirements=requires,
        tools=tools,
        installable=bool(backend)
        and (bool(project) or legacy or bool(poetry) or bool(tools.get("flit"))),
    )


def _groups(
    whole: dict[str, Any], tools: dict[str, Any]
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    groups: dict[str, tuple[str, ...]] = {}
    source: dict[str, str] = {}

    def add(name: str, items: tuple[str, ...], where: str) -> None:
        name = canonicalize_name(name)
        if items:
            groups[name] = (*groups.get(name, ()), *items)
            source.setdefault(name, where)

    pep735 = table(whole, "dependency-groups")
    for name in pep735:
        add(name, tuple(_expand(pep735, name, ())), f"pyproject.toml [dependency-groups] {name}")
    for name, items in table(tools, "pdm", "dev-dependencies").items():
        add(name, strings(items), f"pyproject.toml [tool.pdm.dev-dependencies] {name}")
    add("dev", strings(table(tools, "uv").get("dev-dependencies")), "pyproject.toml [tool.uv]")
    poetry = table(tools, "poetry")
    for name, group in table(poetry, "group").items():
        found = poetry_requirements(table(group, "dependencies"))
        add(name, found, f"pyproject.toml [tool.poetry.group.{name}]")
    old = poetry_requirements(table(poetry, "dev-dependencies"))
    add("dev", old, "pyproject.toml [tool.poetry.dev-dependencies]")
    for name, env in table(tools, "hatch", "envs").items():
        env = env if isinstance(env, dict) else {}
        found = strings(env.get("dependencies")) + strings(env.get("extra-dependencies"))
        add(f"hatch-{name}", found, f"pyproject.toml [tool.hatch.envs.{name}]")
    return groups, source


def _expand(groups: dict[str, Any], name: str, seen: tuple[str, ...]) -> list[str]:
    """A PEP 735 group with its included groups; a cycle is a malformed file."""
    if name in seen:
        cycle = " -> ".join((*seen, name))
        raise Malformed("pyproject.toml", "dependency-groups", f"groups include each other: {cycle}")
    known = {canonicalize_name(key): key for key in groups}
    found: list[str] = []
    items = groups.get(name)
    for item in items if isinstance(items, list) else []:
        if isinstance(item, str):
            found.append(" ".join(item.split()))
        elif isinstance(item, dict) and isinstance(item.get("include-group"), str):
            key = known.get(canonicalize_name(item["include-group"]))
            if key is not None:
                found += _expand(groups, key, (*seen, name))
    return found


def _poetry_python(poetry: dict[str, Any]) -> str:
    wanted = table(poetry, "dependencies").get("python")
    return caret(wanted) if isinstance(wanted, str) else ""


def caret(text: str) -> str:
    """A poetry version constraint as a PEP 440 specifier; alternatives keep the last one."""
    parts = []
    for piece in text.split("||")[-1].replace(" ", "").split(","):
        match = re.fullmatch(r"([\^~])([0-9]+(?:\.[0-9]+)*)", piece)
        if match:
            numbers = [int(part) for part in match[2].split(".")]
            parts += [f">={match[2]}", f"<{_ceiling(numbers, match[1])}"]
        elif re.fullmatch(r"[0-9][^*]*", piece) or re.fullmatch(r"[0-9]+(\.[0-9]+)*\.\*", piece):
            parts.append(f"=={piece}")
        elif piece not in ("*", ""):
            parts.append(piece)
    return ",".join(parts)


def _ceiling(numbers: list[int], kind: str) -> str:
    if kind == "~":
        keep = min(2, len(numbers))
    else:
        keep = next((index + 1 for index, number in enumerate(numbers) if number), len(numbers))
    raised = [*numbers[: keep - 1], numbers[keep - 1] + 1]
    return ".".join(str(number) for number in raised)


def poetry_requirements(dependencies: dict[str, Any]) -> tuple[str, ...]:
    """A poetry table as requirements; what comes from paths or git is left out."""
    found = []
    for name, wanted in dependencies.items():
        if name == "python":
            continue
        for one in wanted if isinstance(wanted, list) else [wanted]:
            detail = one if isinstance(one, dict) else {"version": one}
            if not isinstance(detail.get("version"), str):
                continue
            extras = ",".join(strings(detail.get("extras")))
            text = f"{name}[{extras}]" if extras else name
            text += caret(detail["version"])
            markers = detail.get("markers")
            if isinstance(detail.get("python"), str):
                bounds = [
                    f"python_version {_spaced(part)}"
                    for part in caret(detail["python"]).split(",")
                    if part
                ]
                markers = " and ".join([*([f"({markers})"] if markers else []), *bounds])
            found.append(f"{text}; {markers}" if markers else text)
    return tuple(found)


def _spaced(part: str) -> str:
    match = re.fullmatch(r"([<>=!~]+)(.*)", part)
    return f"{match[1]} '{match[2]}'" if match else f"== '{part}'"


def parsed(text: str) -> Requirement | None:
    """A requirement, or None when it is none that an index can answer (a path, a link, an option)."""
    try:
        found = Requirement(text.split(" #")[0].strip())
    except InvalidRequirement:
        return None
    return None if found.url else found


def without_project(
    name: str, items: tuple[str, ...], extras: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """Requirements with references of a project to its own extras replaced by what those hold."""
    found: list[str] = []
    known = {canonicalize_name(key): value for key, value in extras.items()}
    waiting, seen = [*items], set[str]()
    while waiting:
        text = waiting.pop(0)
        requirement = parsed(text)
        if requirement is None:
            continue
        if canonicalize_name(requirement.name) not in (name, SELF):
            found.append(text.split(" #")[0].strip())
            continue
        for extra in sorted(canonicalize_name(extra) for extra in requirement.extras):
            if extra not in seen:
                seen.add(extra)
                waiting += known.get(extra, ())
    return list(dict.fromkeys(found))
