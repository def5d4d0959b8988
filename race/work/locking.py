"""Locks requirements by date, and climbs down when no lock satisfies them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from packaging.utils import canonicalize_name

from race.core.environment.declared import parsed
from race.core.environment.model import Rung
from race.core.environment.needs import Needs
from race.errors import BuildFailed, Unresolvable
from race.ports import Resolver

Attempt = Callable[[Sequence[str]], str]
TRIES = 4
"""How many blamed requirements are tried as the only one to give up."""
SOURCES = 6
"""How many packages may be built from source for one lock."""
DROPS = 8
"""How many single test requirements may be given up before the project counts as unresolvable."""


@dataclass(frozen=True)
class Locked:
    """A lock, the requirements that it was made from, and what had to be given up for it."""

    requirements: tuple[str, ...]
    text: str
    rungs: tuple[Rung, ...] = ()


class Pinner:
    """Compiles locks for one Python and date; makes wheels from source where an index has none.

    For a Python that is younger than the date, `wheels_until` is the day until which a package may
    come that has no wheel for that Python before, and cannot be built.
    """

    def __init__(
        self,
        resolver: Resolver,
        *,
        python: str,
        cutoff: datetime | None,
        omit: Sequence[str] = (),
        constraints: Sequence[str] = (),
        from_source: Callable[[str, Path], Path] | None = None,
        later: Mapping[str, datetime] | None = None,
        wheels_until: datetime | None = None,
    ) -> None:
        self._later, self._constraints, self._wheels_until = dict(later or {}), constraints, wheels_until
        self._resolver, self._python, self._cutoff, self._omit = resolver, python, cutoff, omit
        self._from_source = from_source
        self._built: dict[str, Path] = {}
        self._refused: set[str] = set()
        self.rungs: list[Rung] = []

    def compile(self, requirements: Sequence[str]) -> str:
        """A lock. Raises Unresolvable with the resolver's explanation."""
        while True:
            try:
                return self._resolver.compile(
                    requirements,
                    python=self._python,
                    cutoff=self._cutoff,
                    constraints=self._constraints,
                    omit=self._omit,
                    built=self._built,
                    later=self._later,
                )
            except Unresolvable as error:
                if not self._built_one(error):
                    raise

    def _built_one(self, error: Unresolvable) -> bool:
        """Make the wheel that the explanation misses; False when it is not about that, or fails."""
        if self._from_source is None or len(self._built) >= SOURCES:
            return False
        for name, version in without_wheel(error.reason):
            pin = f"{name}=={version}" if version else name
            if pin not in self._refused:
                self._refused.add(pin)
                return self._make(name, version, pin, error) or self._taken_later(name, error)
        return False

    def _taken_later(self, name: str, error: Unresolvable) -> bool:
        """Take one package from when there are wheels of it for a young Python; False where no."""
        if self._wheels_until is None or name in self._later:
            return False
        self._later[name] = self._wheels_until
        what = f"{name} until {self._wheels_until:%Y-%m-%d}"
        self.rungs.append(Rung(name="wheel-of-this-python", what=what, why=_short(error)))
        return True

    def _make(self, name: str, version: str, pin: str, error: Unresolvable) -> bool:
        assert self._from_source is not None
        try:
            digest, archive = self._resolver.source(name, version=version, cutoff=self._cutoff)
            self._built[digest] = self._from_source(digest, archive)
        except (Unresolvable, BuildFailed) as failed:
            note = failed.tail.strip().splitlines()[-1:] if isinstance(failed, BuildFailed) else []
            error.reason += (
                f" ({pin} cannot be built from source: {' '.join([str(failed), *note])[:300]})"
            )
            return False
        self.rungs.append(Rung(name="built-from-source", what=archive.name, why=_short(error)))
        return True


def without_wheel(reason: str) -> list[tuple[str, str]]:
    """Name and version (perhaps empty) of packages that a resolver could only take from source."""
    found = []
    for name in re.findall(r"Wheels are required for `([A-Za-z0-9._-]+)`", reason):
        pinned = re.search(rf"{re.escape(name)}==(\S+) has no usable wheels", reason)
        found.append((name, pinned[1] if pinned else ""))
    return found


def lock_requirements(pinner: Pinner, needs: Needs, *, run_time: Sequence[str]) -> Locked:
    """A lock of everything, else of what is left after giving up optional sources and then single
    test requirements that the resolver names. Run-time requirements are never given up.
    """
    locked = _descend(pinner.compile, needs, run_time)
    return Locked(locked.requirements, locked.text, (*pinner.rungs, *locked.rungs))


def _descend(attempt: Attempt, needs: Needs, run_time: Sequence[str]) -> Locked:
    """Give up as little as can be: one requirement that is blamed, then whole optional sources,
    then one blamed requirement after the other."""
    wanted = needs.all()
    try:
        return Locked(tuple(wanted), attempt(wanted))
    except Unresolvable as error:
        first = error
    for culprit in blamed(first.reason, [item for item in wanted if item not in run_time])[:TRIES]:
        kept = [item for item in wanted if item != culprit]
        try:
            rung = Rung(name="drop-requirement", what=culprit, why=_short(first))
            return Locked(tuple(kept), attempt(kept), (rung,))
        except Unresolvable:
            continue
    try:
        return _drop_singly(attempt, wanted, run_time, [], first)
    except Unresolvable:
        return _drop_sources(attempt, needs, run_time, first)


def _drop_sources(
    attempt: Attempt, needs: Needs, run_time: Sequence[str], error: Unresolvable
) -> Locked:
    wanted, optional, rungs = needs.all(), [*needs.optional], list[Rung]()
    while optional:
        where, items = optional.pop()
        kept = {item for _, other in optional for item in other} | set(needs.requirements)
        gone = [item for item in items if item not in kept]
        wanted = [item for item in wanted if item not in gone]
        if not gone:
            continue
        rungs.append(Rung(name="drop-source", what=f"{where}: {', '.join(gone)}", why=_short(error)))
        try:
            return Locked(tuple(wanted), attempt(wanted), tuple(rungs))
        except Unresolvable as next_error:
            error = next_error
    return _drop_singly(attempt, wanted, run_time, rungs, error)


def _drop_singly(
    attempt: Attempt,
    wanted: list[str],
    run_time: Sequence[str],
    rungs: list[Rung],
    error: Unresolvable,
) -> Locked:
    rungs = [*rungs]
    for _ in range(DROPS):
        culprits = blamed(error.reason, [item for item in wanted if item not in run_time])
        if not culprits:
            raise error
        wanted = [item for item in wanted if item != culprits[0]]
        rungs.append(Rung(name="drop-requirement", what=culprits[0], why=_short(error)))
        try:
            return Locked(tuple(wanted), attempt(wanted), tuple(rungs))
        except Unresolvable as next_error:
            error = next_error
    raise error


def blamed(reason: str, candidates: Sequence[str]) -> list[str]:
    """The candidate requirements that a resolver's explanation names, in its order; never pytest."""
    low = reason.lower().replace("_", "-")
    found: list[tuple[int, str]] = []
    for item in candidates:
        requirement = parsed(item)
        name = canonicalize_name(requirement.name) if requirement else ""
        match = re.search(rf"(?<![a-z0-9-]){re.escape(name)}(?![a-z0-9-])", low) if name else None
        if match is not None and name != "pytest":
            found.append((match.start(), item))
    return [item for _, item in sorted(found)]


def lock_build(
    resolver: Resolver, requirements: Sequence[str], *, python: str, cutoff: datetime, undated: bool
) -> Locked:
    """A lock for the build back-end; without the cut-off when there is none with it, or on request."""
    rungs: list[Rung] = []
    if not undated:
        try:
            text = resolver.compile(requirements, python=python, cutoff=cutoff)
            return Locked(tuple(requirements), text)
        except Unresolvable as error:
            rungs.append(Rung(name="build-undated", what=", ".join(requirements), why=_short(error)))
    text = resolver.compile(requirements, python=python, cutoff=None)
    return Locked(tuple(requirements), text, tuple(rungs))


def _short(error: Unresolvable) -> str:
    return error.reason.removeprefix("No solution found when resolving dependencies cause: ")[:400]
