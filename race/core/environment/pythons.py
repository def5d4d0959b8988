"""Which Python a task runs on: of those that exist, the one that the project would have chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from race.core.environment.declared import Declared, Tree
from race.errors import Missing, Unresolvable

RELEASED = {
    "3.8": date(2019, 10, 14), "3.9": date(2020, 10, 5), "3.10": date(2021, 10, 4),
    "3.11": date(2022, 10, 24), "3.12": date(2023, 10, 2), "3.13": date(2024, 10, 7),
    "3.14": date(2025, 10, 7),
}  # fmt: skip
"""First releases, from the release schedules of CPython."""
CLASSIFIER = re.compile(r"^Programming Language :: Python :: (3\.\d+)$")
VERSION = re.compile(r"(?<![\d.])3\.(\d{1,2})(?![\d])")


def choose_python(
    project: Declared, tree: Tree, merged: date, available: Sequence[str], forced: str = ""
) -> tuple[str, str]:
    """The Python to run on, and in words what the project wanted.

    It must be allowed by requires-python and, when the project names versions (classifiers, CI),
    should be named. Among those the oldest that was out at the merge date is taken: a project has
    tested on it longest, and its dependencies have wheels for it. What the project would have
    chosen is the newest that had been out for half a year. Raises Unresolvable when requires-python
    allows none of those that exist, Missing when release.toml forces one that does not.
    """
    if forced:
        if forced not in available:
            raise Missing(f"release.toml asks for Python {forced}; there are {', '.join(available)}")
        return forced, f"{forced} (release.toml)"
    allowed = [version for version in available if _allows(project.requires_python, version)]
    named = _named(project, tree)
    wanted = _newest(
        [version for version in (named or RELEASED) if _allows(project.requires_python, version)], merged
    )
    said = f"{wanted} ({'named by the project' if named else 'by date'}"
    said += f"; requires-python {project.requires_python})" if project.requires_python else ")"
    if not allowed:
        raise Unresolvable(
            f"requires-python {project.requires_python} allows none of the Pythons here "
            f"({', '.join(available)}); the project wanted {wanted or 'another'}"
        )
    good = [version for version in allowed if version in named] or allowed
    out = [version for version in good if RELEASED.get(version, date.max) <= merged]
    return (out or good)[0], said


def runner_cutoff(python: str, merged: datetime) -> datetime | None:
    """Until when pytest may come from, for a Python that is younger than the project's commit.

    pytest has to know the interpreter that it rewrites assertions for: half a year after the first
    release of that Python. None when the commit is not that old.
    """
    known = datetime.combine(RELEASED[python], time(), UTC) + timedelta(days=180)
    return known if known > merged else None


def released(python: str) -> datetime:
    """When a Python was first released, to the end of that day."""
    return datetime.combine(RELEASED[python], time.max, UTC)


def _allows(specifier: str, version: str) -> bool:
    try:
        wanted = SpecifierSet(specifier)
    except InvalidSpecifier:
        return True
    return wanted.contains(f"{version}.99") or wanted.contains(f"{version}.0")


def _named(project: Declared, tree: Tree) -> list[str]:
    """Versions that classifiers name, else those in CI files and tox settings, oldest first."""
    found = {match[1] for line in project.classifiers if (match := CLASSIFIER.match(line))}
    if not found:
        found = set(_from_setup(tree))
    if not found:
        for path, data in tree.items():
            if path.startswith(".github/workflows/") or path in ("tox.ini", "noxfile.py"):
                for line in data.decode("utf-8", "replace").splitlines():
                    if "python" in line.lower() or "py3" in line.lower():
                        found |= {f"3.{minor}" for minor in VERSION.findall(line)}
    return _sorted(version for version in found if version in RELEASED)


def _from_setup(tree: Tree) -> Iterable[str]:
    for path in ("setup.cfg", "setup.py"):
        text = tree.get(path, b"").decode("utf-8", "replace")
        yield from re.findall(r"Programming Language :: Python :: (3\.\d+)", text)


def _sorted(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=lambda version: int(version.split(".")[1]))


def _newest(versions: Iterable[str], merged: date) -> str:
    """The newest that had been out for half a year; projects test on new ones with some delay."""
    ordered = _sorted(versions)
    settled = [version for version in ordered if (merged - RELEASED[version]).days >= 180]
    return (settled or ordered or [""])[-1 if settled else 0]
