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
from race.core.statement.steps import short
from race.core.statement.symptoms import in_words, remark, symptom_of, values_of

LEVELS = 3
"""Level 0 quotes observed messages and claims; level 1 leaves out quotes; level 2 also claims."""

_KINDS = {
    "race": "Race condition in", "deadlock": "Deadlock in", "cancellation": "Cancellation goes wrong in",
    "leak": "Leak in", "shutdown": "Shutdown goes wrong in", "lifecycle": "Lifecycle bug in",
    "thread-safety": "Not safe to use from several threads:", "hang": "Hang in",
    "context": "Context is lost or leaks in",
}  # fmt: skip
_SITUATIONS = {
    "cancelled": "a task that uses it is cancelled or runs into a deadline at an unlucky moment",
    "threads": "several threads use it at the same time",
    "closing": "it is closed or stopped while work is still under way",
    "loops": "more than one event loop is involved, or one that no longer runs",
    "context": "callers have set context variables",
    "processes": "processes or signals are involved",
    "collected": "the last reference to it goes away",
    "tasks": "several tasks use it at the same time",
}
_ORDER = ("cancelled", "threads", "closing", "loops", "context", "processes", "collected", "tasks")
_FIRST = {
    "race": ("tasks", "threads"), "deadlock": ("tasks", "threads"), "cancellation": ("cancelled",),
    "leak": ("cancelled", "closing"), "shutdown": ("closing",), "lifecycle": ("closing", "loops"),
    "thread-safety": ("threads",), "hang": ("closing", "cancelled"), "context": ("context", "tasks"),
}  # fmt: skip
"""Which situation matters most for a kind of bug, when a test has several."""

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
    """One thing that goes wrong, and how to see it."""

    problem: str
    path: str


def write(facts: Facts, level: int = 0) -> Written:
    """The statement at one level of detail."""
    points: dict[_Point, list[str]] = {}
    wishes: dict[_Point, dict[str, None]] = {}
    for test in sorted(facts.failures):
        behaviour = facts.behaviours.get(test, Behaviour())
        used = _used(facts, behaviour)
        point = _point(facts, test, behaviour, used, level)
        points.setdefault(point, []).append(test)
        wanted = _expected(behaviour, facts.failures[test], level)
        wishes.setdefault(point, {f"With {used}:": None}).update(dict.fromkeys(wanted))
    lines = [f"# {_title(facts)}", "", _opening(facts, len(points)), "", "## What goes wrong", ""]
    lines += _listed([f"{point.problem} {point.path}".strip() for point in points])
    lines += ["", "## What is expected", ""]
    lines += _listed(_once([_wish(list(wishes[point])) for point in points]))
    lines += ["", "## Interface", "", *_interface(facts.interface)]
    coverage = tuple(
        Coverage(test=test, sentence=point.problem) for point, tests in points.items() for test in tests
    )
    text = "\n".join(lines) + "\n"
    return Written(text=text, coverage=tuple(sorted(coverage, key=lambda item: item.test)))


def _once(sentences: Sequence[str]) -> list[str]:
    """Numbered like the problems, unless all say the same."""
    return list(sentences) if len(set(sentences)) > 1 else list(sentences[:1])


def _listed(sentences: Sequence[str]) -> list[str]:
    if len(sentences) == 1:
        return [sentences[0]]
    return [f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)]


def _main(facts: Facts) -> str:
    """The part of the product that the most tests are about."""
    votes: dict[str, float] = {}
    for behaviour in facts.behaviours.values():
        for place, name in enumerate(behaviour.subjects[:4]):
            votes[name] = votes.get(name, 0) + 1 / (1 + place)
    public = [name for name in votes if not any(part.startswith("_") for part in name.split("."))]
    best = sorted(public or votes, key=lambda name: (-votes[name], name))
    return f"`{best[0]}`" if best else facts.project


def _title(facts: Facts) -> str:
    return f"{_KINDS.get(facts.kind or '', 'Concurrency bug in')} {_main(facts)}"


def _opening(facts: Facts, count: int) -> str:
    things = "The following goes wrong" if count == 1 else f"The following {count} things go wrong"
    names = dict.fromkeys(
        name for test in sorted(facts.behaviours) for name in facts.behaviours[test].subjects[:3]
    )
    owners = dict.fromkeys(_owner(name) for name in names if short(name) != name)
    meaning = _join([f"`{name}`" for name in list(owners)[:6]])
    return (
        f"{things} in {facts.project}{f' ({meaning})' if meaning else ''}. It depends on timing or on "
        "the order of events, so it may need the described steps to show."
    )


def _owner(name: str) -> str:
    """The class of a method, the function itself otherwise."""
    head, _, _ = name.rpartition(".")
    return head if "." in short(name) else name


def _used(facts: Facts, behaviour: Behaviour) -> str:
    """What a test is about, as the start of a sentence names it."""
    subjects = list(behaviour.subjects[:4])
    owners = {_owner(name) for name in subjects if _owner(name) != name}
    subjects = [name for name in subjects if name not in owners][:3]
    return _join([f"`{short(name)}`" for name in subjects]) or facts.project


def _point(facts: Facts, test: str, behaviour: Behaviour, used: str, level: int) -> _Point:
    wanted = (*behaviour.concepts, *_FIRST.get(facts.kind or "", ()), *_ORDER)
    tag = next((tag for tag in wanted if tag in behaviour.situation), "")
    problem = f"With {used}, when {_SITUATIONS[tag]}," if tag else f"With {used},"
    symptom = in_words(facts.failures[test], quote=level == 0)
    problem = f"{problem} {symptom}{_flavour(facts, test)}."
    path = f"Steps: {'; '.join(behaviour.steps)}." if behaviour.steps and level < 2 else ""
    return _Point(problem, path)


def _wish(parts: Sequence[str]) -> str:
    """`With X: this; that.`"""
    return f"{parts[0]} {'; '.join(parts[1:])}."


def _expected(behaviour: Behaviour, failure: ObservedFailure, level: int) -> list[str]:
    symptom = symptom_of(failure)
    parts: list[str] = []
    if symptom == "hang":
        parts.append("everything must finish promptly and stay usable")
    elif symptom in ("crash", "error"):
        parts.append("this must complete without that error")
    elif symptom == "absent":
        parts.append("it must work as described under Interface")
    if behaviour.raises and (symptom in ("silent", "absent", "hang") or level < 2):
        names = _join([f"`{short(name)}`" for name in behaviour.raises[:3]])
        parts.append(f"{names} must be raised to the caller where the operation cannot succeed")
    values = values_of(failure)
    if level < 2 and behaviour.claims:
        parts.append("it is required that " + ", then ".join(behaviour.claims[:5]))
    elif level == 0 and symptom == "wrong-value" and remark(failure):
        parts.append("it must not come to that")
    elif level < 2 and symptom == "wrong-value" and values is not None:
        parts.append(f"the outcome of these steps must be `{values[1]}`")
    if not parts:
        parts.append(
            "the outcome must be the same as if the steps had run one after the other, undisturbed"
        )
    return parts


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
