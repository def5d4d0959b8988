"""What a project's tests need installed, and where that is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from race.core.environment.conda import conda_groups
from race.core.environment.declared import Declared, Tree, parsed, without_project
from race.core.environment.legacy import Setup
from race.core.environment.model import PytestSettings
from race.core.environment.requirement_files import read_requirements, requirement_files
from race.core.environment.runners import Runner

TEST_NAME = re.compile(
    r"^(hatch-)?(hatch-test|tests?|testing|pytest|unit(-?tests?)?|tests?-(deps|dependencies|requirements|unit|"
    r"core|base|runner|min)|(dev|ci|unit|run)-tests?)(\.\S+)?$"
)
DEV_NAME = re.compile(r"^(hatch-default|dev|develop|development|ci|all-dev|dev-dependencies)$")
NOT_FOR_TESTS = re.compile(
    r"^(ruff|mypy|black|blacken-docs|flake8.*|isort|pre-commit.*|sphinx.*|mkdocs.*|tox.*|nox.*|build|twine|"
    r"pyright|basedpyright|pylint.*|bandit|towncrier|bump2version|bump-my-version|bumpversion|furo|codecov|"
    r"coveralls|codespell|autoflake|pyupgrade|pydocstyle|interrogate|commitizen|python-semantic-release|"
    r"semantic-release|hatch|poetry|pdm|uv|pip|pip-tools|pip-audit|safety|vulture|wheel|zest-releaser|"
    r"check-manifest|pyroma|gitlint|yapf|docformatter|ipdb|ipython|jupyter.*|notebook|nbsphinx|myst-parser|"
    r"pydata-sphinx-theme|pymdown-extensions|griffe.*|cairosvg|pillow-simd|cogapp|slotscheck|yamllint|"
    r"types-.*|.*-stubs|scriv|reno|release.*|licensecheck|deptry|refurb|ty|pyrefly|import-linter|unify|"
    r"rstcheck|doc8|proselint|pytest-codspeed|setuptools-scm|check-wheel-contents|auditwheel|cibuildwheel)$"
)


@dataclass(frozen=True)
class Needs:
    """Requirements for the lock and the places that they come from; weaker ones are optional.

    `optional` are whole sources that may be dropped, weakest last, when no lock satisfies them all.
    """

    requirements: tuple[str, ...]
    sources: tuple[str, ...]
    optional: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def all(self) -> list[str]:
        """Everything, the optional sources included."""
        more = [item for _, items in self.optional for item in items]
        return list(dict.fromkeys([*self.requirements, *more]))


@dataclass(frozen=True)
class _Source:
    where: str
    items: tuple[str, ...]
    strong: bool


def gather_needs(
    tree: Tree,
    project: Declared,
    setup: Setup,
    found: Sequence[Runner],
    settings: PytestSettings,
    extra: tuple[str, ...] = (),
) -> Needs:
    """Run-time requirements, and what tests need by the strongest words the project has for it.

    Groups, extras and files named for tests count first, with what tox, nox, hatch and CI install;
    those named for development only when nothing else brings pytest. Linters, documentation and
    release tools are left out. pytest itself and the plugins that its settings ask for are added.
    """
    both = {**setup.extras, **project.extras}
    extras: dict[str, tuple[str, ...]] = {str(canonicalize_name(key)): both[key] for key in both}
    run_time = project.requirements or setup.requirements
    sources = _test_sources(tree, project, setup, extras)
    sources += _runner_sources([one for one in found if not one.ci], project, extras)
    if not _any_pytest(sources, project, extras):
        sources += _dev_sources(tree, project, extras)
    if not _any_pytest(sources, project, extras):
        sources += _runner_sources([one for one in found if one.ci], project, extras)
    if not _any_pytest(sources, project, extras):
        sources += [_Source(where, items, False) for where, items in conda_groups(tree)]
    kept: list[_Source] = []
    for source in sources:
        items = without_project(project.name, source.items, extras)
        wanted = tuple(item for item in items if not _tool(item))
        if wanted and wanted not in [other.items for other in kept]:
            kept.append(_Source(source.where, wanted, source.strong))
    names = _names([*run_time, *(item for source in kept for item in source.items)])
    added = [
        name
        for name in ("pytest", *settings.plugins)
        if canonicalize_name(name) not in {*names, project.name}
    ]
    strong = [item for source in kept if source.strong for item in source.items]
    base = without_project(project.name, tuple(run_time), extras)
    return Needs(
        requirements=tuple(dict.fromkeys([*base, *strong, *added, *extra])),
        sources=tuple(source.where for source in kept),
        optional=tuple((source.where, source.items) for source in kept if not source.strong),
    )


def _test_sources(
    tree: Tree, project: Declared, setup: Setup, extras: Mapping[str, tuple[str, ...]]
) -> list[_Source]:
    sources = [
        _Source(project.group_source[name], items, True)
        for name, items in project.groups.items()
        if TEST_NAME.match(name)
    ]
    sources += [
        _Source(f"extra {name}", items, True) for name, items in extras.items() if TEST_NAME.match(name)
    ]
    files = requirement_files(tree)
    sources += [
        _Source(path, tuple(read_requirements(tree, path)), True)
        for path, kind in files.items()
        if kind == "test"
    ]
    if setup.tests:
        sources.append(_Source("tests_require", setup.tests, True))
    return sources


def _runner_sources(
    found: Iterable[Runner], project: Declared, extras: Mapping[str, tuple[str, ...]]
) -> list[_Source]:
    sources = []
    for runner in found:
        items = [*runner.requirements]
        for extra in runner.extras:
            items += extras.get(canonicalize_name(extra), ())
        for group in runner.groups:
            items += project.groups.get(canonicalize_name(group), ())
        sources.append(_Source(runner.where, tuple(dict.fromkeys(items)), False))
    return sources


def _dev_sources(tree: Tree, project: Declared, extras: Mapping[str, tuple[str, ...]]) -> list[_Source]:
    sources = [
        _Source(project.group_source[name], items, False)
        for name, items in project.groups.items()
        if DEV_NAME.match(name)
    ]
    sources += [
        _Source(f"extra {name}", items, False) for name, items in extras.items() if DEV_NAME.match(name)
    ]
    files = requirement_files(tree)
    for kind in ("dev", "run"):
        for path, found in files.items():
            if found == kind:
                sources.append(_Source(path, tuple(read_requirements(tree, path)), False))
    return sources


def _any_pytest(
    sources: Iterable[_Source], project: Declared, extras: Mapping[str, tuple[str, ...]]
) -> bool:
    items = tuple(item for source in sources for item in source.items)
    return "pytest" in _names(without_project(project.name, items, extras))


def _names(items: Iterable[str]) -> set[str]:
    return {canonicalize_name(found.name) for item in items if (found := parsed(item)) is not None}


def _tool(item: str) -> bool:
    found = parsed(item)
    return found is None or NOT_FOR_TESTS.match(canonicalize_name(found.name)) is not None


def without_pins(needs: Needs, names: Collection[str]) -> Needs:
    """The same needs with any version of these packages."""

    def freed(items: tuple[str, ...]) -> tuple[str, ...]:
        found = [(parsed(item), item) for item in items]
        return tuple(
            requirement.name if requirement and canonicalize_name(requirement.name) in names else item
            for requirement, item in found
        )

    optional = tuple((where, freed(items)) for where, items in needs.optional)
    return Needs(freed(needs.requirements), needs.sources, optional)
