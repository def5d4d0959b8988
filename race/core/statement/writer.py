"""Writes a statement by rules alone, so that a release needs no model.

Tests that behave alike are told once. Nothing of the fix is an input: only the observed failures,
what the tests do with public names, and the interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from race.core.failure_text import ObservedFailure
from race.core.interface.items import InterfaceItem
from race.core.records import Closed
from race.core.statement.behaviour import Behaviour
from race.core.statement.symptoms import in_words, symptom_of

LEVELS = 3
"""Level 0 quotes observed messages and claims; level 1 leaves out quotes; level 2 also claims."""

_KINDS = {
    "race": "Race condition in", "deadlock": "Deadlock in", "cancellation": "Cancellation goes wrong in",
    "leak": "Leak in", "shutdown": "Shutdown goes wrong in", "lifecycle": "Lifecycle bug in",
    "thread-safety": "Not safe to use from several threads:", "hang": "Hang in",
    "context": "Context is lost or leaks in",
}  # fmt: skip
_SITUATIONS = (
    ("cancelled", "one of the tasks that use it is cancelled, or runs into a deadline, at an unlucky moment"),
    ("threads", "several threads use it at the same time"),
    ("closing", "it is closed or stopped while there is still work under way"),
    ("loops", "it is used with more than one event loop, or with a loop that is not running any more"),
    ("context", "the caller has set context variables"),
    ("processes", "processes or signals are involved"),
    ("collected", "the last reference to it goes away"),
    ("tasks", "several tasks use it at the same time"),
)  # fmt: skip
_FLAVOURS = ("asyncio", "trio", "uvloop", "curio", "gevent")


@dataclass(frozen=True)
class Facts:
    """All that the writer knows. `behaviours` and `failures` are keyed by fail-to-pass id."""

    project: str
    kind: str | None
    behaviours: Mapping[str, Behaviour]
    failures: Mapping[str, ObservedFailure]
    interface: Sequence[InterfaceItem]


class Coverage(Closed):
    """Which sentence of the statement speaks of a fail-to-pass test."""

    test: str
    sentence: str


class Written(Closed):
    """A statement and what in it covers which test."""

    text: str
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True)
class _Point:
    """One thing that goes wrong, and what should happen instead."""

    problem: str
    expected: str


def write(facts: Facts, level: int = 0) -> Written:
    """The statement at one level of detail."""
    points: dict[_Point, list[str]] = {}
    for test in sorted(facts.failures):
        behaviour = facts.behaviours.get(test, Behaviour())
        point = _point(facts, test, behaviour, facts.failures[test], level)
        points.setdefault(point, []).append(test)
    ordered = list(points)
    lines = [f"# {_title(facts)}", "", _opening(facts, len(ordered)), "", "## What goes wrong", ""]
    lines += _listed([point.problem for point in ordered])
    lines += ["", "## What is expected", ""]
    lines += _listed([point.expected for point in ordered])
    lines += ["", "## Interface", "", *_interface(facts.interface)]
    coverage = tuple(
        Coverage(test=test, sentence=point.problem) for point, tests in points.items() for test in tests
    )
    text = "\n".join(lines) + "\n"
    return Written(text=text, coverage=tuple(sorted(coverage, key=lambda item: item.test)))


def _listed(sentences: Sequence[str]) -> list[str]:
    if len(sentences) == 1:
        return [sentences[0]]
    return [f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)]


def _main(facts: Facts) -> str:
    """The part of the product that the most tests are about."""
    votes: dict[str, float] = {}
    for behaviour in facts.behaviours.values():
        for place, name in enumerate(behaviour.changed or behaviour.subjects):
            votes[name] = votes.get(name, 0) + 1 / (1 + place)
    public = [name for name in votes if not any(part.startswith("_") for part in name.split("."))]
    best = sorted(public or votes, key=lambda name: (-votes[name], name))
    return f"`{best[0]}`" if best else facts.project


def _title(facts: Facts) -> str:
    return f"{_KINDS.get(facts.kind or '', 'Concurrency bug in')} {_main(facts)}"


def _opening(facts: Facts, count: int) -> str:
    things = "The following goes wrong" if count == 1 else f"The following {count} things go wrong"
    return (
        f"{things} in {facts.project}. The behaviour depends on timing or on the order of events, "
        "so it may need the described situation to show."
    )


def _point(
    facts: Facts, test: str, behaviour: Behaviour, failure: ObservedFailure, level: int
) -> _Point:
    subjects = list(behaviour.changed or behaviour.subjects)[:3]
    used = _join([f"`{name}`" for name in subjects]) or facts.project
    situation = next((text for tag, text in _SITUATIONS if tag in behaviour.situation), "")
    problem = f"With {used}, when {situation}," if situation else f"With {used},"
    where = _flavour(facts, test)
    problem = f"{problem} {in_words(failure, quote=level == 0)}{where}."
    return _Point(problem, _expected(used, behaviour, failure, level))


def _expected(used: str, behaviour: Behaviour, failure: ObservedFailure, level: int) -> str:
    symptom = symptom_of(failure)
    parts: list[str] = []
    if symptom == "hang":
        parts.append("the operation must finish promptly and leave everything usable")
    elif symptom in ("crash", "error"):
        parts.append("the operation must complete without this error")
    elif symptom == "absent":
        parts.append("it must work as described under Interface")
    if behaviour.raises and (symptom in ("silent", "absent", "hang") or level < 2):
        names = _join([f"`{name}`" for name in behaviour.raises[:3]])
        parts.append(f"{names} must reach the caller where the operation cannot succeed")
    if level < 2 and behaviour.claims:
        parts.append("afterwards " + _join(list(behaviour.claims[:4])))
    if not parts:
        parts.append("the result must be the same as if the steps had run one after the other")
    return f"With {used}: {'; '.join(parts)}."


def _flavour(facts: Facts, test: str) -> str:
    """`(with asyncio)` when only some event loop back-ends of a parametrised test fail."""
    mine = _parameters(test) & set(_FLAVOURS)
    bare = test.split("[")[0]
    others = {
        name
        for other in facts.failures
        if other.split("[")[0] == bare
        for name in _parameters(other) & set(_FLAVOURS)
    }
    return f" (seen with {_join(sorted(others))})" if mine else ""


def _parameters(test: str) -> set[str]:
    inside = test.partition("[")[2].rstrip("]")
    return set(inside.replace("+", "-").split("-"))


def _join(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]


def _interface(items: Sequence[InterfaceItem]) -> list[str]:
    if not items:
        return ["Nothing new is needed: names, parameters and messages stay as they are."]
    said = dict.fromkeys(item.sentence() for item in items)
    return [
        "These names, parameters and texts are relied on and do not exist yet; they must be spelled so:",
        "",
        *(f"- {sentence}" for sentence in said),
    ]
