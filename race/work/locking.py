"""Locks requirements by date, and climbs down when no lock satisfies them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from packaging.utils import canonicalize_name

from race.core.environment.declared import parsed
from race.core.environment.model import Rung
from race.core.environment.needs import Needs
from race.errors import Unresolvable
from race.ports import Resolver

DROPS = 8
"""How many single test requirements may be given up before the project counts as unresolvable."""


@dataclass(frozen=True)
class Locked:
    """A lock, the requirements that it was made from, and what had to be given up for it."""

    requirements: tuple[str, ...]
    text: str
    rungs: tuple[Rung, ...] = ()


def lock_requirements(
    resolver: Resolver,
    needs: Needs,
    *,
    run_time: Sequence[str],
    python: str,
    cutoff: datetime,
    omit: Sequence[str],
) -> Locked:
    """A lock of everything, else of what is left after giving up optional sources and then single
    test requirements that the resolver names. Run-time requirements are never given up.
    """

    def attempt(requirements: Sequence[str]) -> str:
        return resolver.compile(requirements, python=python, cutoff=cutoff, omit=omit)

    wanted, rungs = needs.all(), list[Rung]()
    try:
        return Locked(tuple(wanted), attempt(wanted))
    except Unresolvable as error:
        first = error
    optional = [*needs.optional]
    while optional:
        where, items = optional.pop()
        kept = {item for _, other in optional for item in other} | set(needs.requirements)
        gone = [item for item in items if item not in kept]
        wanted = [item for item in wanted if item not in gone]
        if not gone:
            continue
        rungs.append(Rung(name="drop-source", what=f"{where}: {', '.join(gone)}", why=_short(first)))
        try:
            return Locked(tuple(wanted), attempt(wanted), tuple(rungs))
        except Unresolvable as error:
            first = error
    return _drop_singly(attempt, wanted, run_time, rungs, first)


def _drop_singly(
    attempt: Callable[[Sequence[str]], str],
    wanted: list[str],
    run_time: Sequence[str],
    rungs: list[Rung],
    error: Unresolvable,
) -> Locked:
    for _ in range(DROPS):
        culprit = blamed(error.reason, [item for item in wanted if item not in run_time])
        if culprit is None:
            raise error
        wanted = [item for item in wanted if item != culprit]
        rungs.append(Rung(name="drop-requirement", what=culprit, why=_short(error)))
        try:
            return Locked(tuple(wanted), attempt(wanted), tuple(rungs))
        except Unresolvable as next_error:
            error = next_error
    raise error


def blamed(reason: str, candidates: Sequence[str]) -> str | None:
    """The candidate requirement that a resolver's explanation names first, never pytest itself."""
    low = reason.lower().replace("_", "-")
    found: list[tuple[int, str]] = []
    for item in candidates:
        requirement = parsed(item)
        name = canonicalize_name(requirement.name) if requirement else ""
        at = low.find(name) if name and name != "pytest" else -1
        if at >= 0:
            found.append((at, item))
    return min(found)[1] if found else None


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
