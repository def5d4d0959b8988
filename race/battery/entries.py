"""Reads the battery's files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ATTACKED = ("unresolved", "refused", "tampered")
KINDS = ("applying", "start-up", "in-process", "outside", "honest")
"""The kinds of attack follow the threats: while it is applied, configuration and start-up, inside the
process, outside the process."""


@dataclass(frozen=True)
class Step:
    """One thing that an entry does to the tree: a verb, its words, and the text that goes with it."""

    verb: str
    words: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Entry:
    """One patch of the battery. `expect` are the verdicts that are right for it.

    An honest one has a single verdict. An attack may have two where its own luck decides which (a thread
    that may come too late), never `resolved`. `soma` are those by a SOMA validator's steps, where they
    are others: a validator refuses no patch, and one that does not apply is unresolved. `with_fix`
    starts from the reference fix. `slow` says that it runs into a limit on purpose.
    """

    name: str
    kind: str
    mechanism: str
    steps: tuple[Step, ...]
    with_fix: bool = False
    expect: tuple[str, ...] = ()
    slow: bool = False
    soma: tuple[str, ...] = ()

    def verdicts(self, route: str) -> tuple[str, ...]:
        """The verdicts that are right for it by a route, `grade` or `soma`."""
        return (self.soma if route == "soma" else ()) or self.expect

    @property
    def honest(self) -> bool:
        """Must it be graded on its merits?"""
        return self.kind == "honest"


def read_entry(name: str, text: str) -> Entry:
    """One file. Raises ValueError with the line that is wrong."""
    head, marks, rest = text.partition("=== ")
    facts = dict(line.split(": ", 1) for line in head.splitlines() if line.strip())
    steps = []
    for part in (marks + rest).split("\n=== ") if marks else []:
        first, _, body = part.removeprefix("=== ").partition("\n")
        verb, *words = first.split()
        steps.append(Step(verb, tuple(words), body + "\n" if body and not body.endswith("\n") else body))
    if facts.get("kind") not in KINDS or not facts.get("mechanism"):
        raise ValueError(f"{name}: kind and mechanism must be given")
    expect = tuple(facts.get("expect", "").split(" or "))
    soma = tuple(facts["soma"].split(" or ")) if "soma" in facts else ()
    allowed = {"resolved", "unresolved"} if facts["kind"] == "honest" else ATTACKED
    if not {*expect, *soma} <= set(allowed):
        raise ValueError(f"{name}: expect has to name verdicts of {', '.join(sorted(allowed))}")
    return Entry(
        name=name,
        kind=facts["kind"],
        mechanism=facts["mechanism"],
        steps=tuple(steps),
        with_fix=facts.get("fix") == "yes",
        expect=expect,
        slow=facts.get("slow") == "yes",
        soma=soma,
    )


def battery(which: Literal["attacks", "honest", "all"] = "all") -> list[Entry]:
    """All entries, attacks first, by kind and name."""
    here = Path(__file__).resolve().parent
    folders = ("attacks", "honest") if which == "all" else (which,)
    entries = [
        read_entry(path.stem, path.read_text())
        for folder in folders
        for path in sorted((here / folder).glob("*.txt"))
    ]
    return sorted(entries, key=lambda entry: (KINDS.index(entry.kind), entry.name))
