"""Runs that look like the one of all listed tests, with some of the tests turned false.

What a submission does may depend on which run it is in: runs can count those before them, and may find
ways to compare what they are shown. So the first run is never the one that matters, and what is true
and what is false in a decoy is drawn anew for each test. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import random
from typing import Any

import controls
from assertions import Edit
from choices import Choices

OTHERS = 4
BEFORE_SECONDS = 2.0
"""How long a decoy may take before the run of all tests."""
_LEAST, _MOST, _SHARE = 0.3, 1.0, 0.03
"""How many seconds of tests a decoy holds, at least and at most, and what share of all between these."""


class Decoys:
    """Makes decoys for one grading."""

    def __init__(
        self, grading: Any, files: dict[str, bytes], draw: random.Random, choices: Choices
    ) -> None:
        self.grading, self.files, self.draw, self.choices = grading, files, draw, choices
        self.groups = controls.by_function(grading.task["fail_to_pass"])

    def possible(self) -> bool:
        """Does any fail-to-pass function run so early that a decoy can hold it?"""
        names = set(early(self._taken(), self.groups))
        return any(names & set(ids) for ids in self.groups.values())

    def _taken(self) -> dict[str, float]:
        """Seconds of each listed test, in the order of the run: now, or in the trial."""
        task = self.grading.task
        listed = dict.fromkeys([*task["fail_to_pass"], *task["pass_to_pass"]], 0.0)
        return self.grading.seconds or self.grading.trial.get("seconds") or listed

    def run(self, most: float) -> list[str]:
        """Run one decoy, for at most `most` seconds unless that is 0; what does not add up.

        Of the fail-to-pass functions that run early some are turned false, as a draw has it, some get
        neutral edits, and of the other tests some that come later are turned false. What is false must
        not pass. A fail-to-pass test that is as true as it was, and that nothing false has run before,
        must: it is the same run up to there.
        """
        task = self.grading.task
        listed = [*task["fail_to_pass"], *task["pass_to_pass"]]
        place = {nodeid: number for number, nodeid in enumerate(early(self._taken(), self.groups))}
        book = controls.Book(self.files, list(place))
        chosen, false = self._turned(book, place)
        true = [name for function, ids in self.groups.items() for name in ids
                if function not in chosen and name in place]  # fmt: skip
        begin = max((place[name] for name in true), default=-1)
        for function, ids in self._others(book, [name for name in place if place[name] > begin]):
            chosen[function] = self.draw.choice(_sure(book, function)), ""
            false += ids
        if not chosen and not true:
            return []
        self.grading.place(book.variant(chosen, self.draw, self._more(book, chosen)))
        seen = self.grading.run(listed, "negative controls among all", until=false + true, most=most)
        doubts = [controls.STILL_PASSES % name
                  for name in false if seen.outcomes.get(name) == "passed"]  # fmt: skip
        first = min((place[name] for name in false), default=len(place))
        if self.grading.checks[-1]["how"] == "finished":
            outcomes = {name: seen.outcomes.get(name, "missing") for name in true if place[name] < first}
            doubts += ["%s passes in one run of all tests and not in another: %s" % (name, outcome)
                       for name, outcome in outcomes.items() if outcome != "passed"]  # fmt: skip
        return doubts

    def _turned(
        self, book: controls.Book, place: dict[str, int]
    ) -> tuple[dict[controls.Function, tuple[Edit | None, str]], list[str]]:
        """Fail-to-pass functions that are turned false by the toss of a coin; the ids that fail."""
        chosen: dict[controls.Function, tuple[Edit | None, str]] = {}
        false: list[str] = []
        for function, ids in self.groups.items():
            if not all(name in place for name in ids):
                continue
            ways = [way for way in self.choices.usable(function, False) if book.owns(function, way[0])]
            if ways and self.draw.random() < 0.5:
                edit, working = self.draw.choice(ways)
                chosen[function] = edit, ""
                false += working
        return chosen, false

    def _more(self, book: controls.Book, chosen: dict) -> list[tuple[controls.Function, Edit]]:
        """Neutral edits of the fail-to-pass functions that are turned false, and of half the others."""
        touched = {function: chosen.get(function, (None, ""))[0] for function in self.groups
                   if function in chosen or self.draw.random() < 0.5}  # fmt: skip
        return [(function, edit) for function, edit in self.choices.true(touched)
                if book.owns(function, edit)]  # fmt: skip

    def _others(self, book: controls.Book, ids: list[str]) -> list[tuple[controls.Function, list[str]]]:
        """A few functions of these tests that can be turned false for sure, none fail-to-pass."""
        groups = controls.by_function(ids)
        functions = [f for f in groups if f not in self.groups and _sure(book, f)]
        self.draw.shuffle(functions)
        return [(function, groups[function]) for function in functions[:OTHERS]]


def _sure(book: controls.Book, function: controls.Function) -> list[Edit]:
    """A function's false edits that need no trial."""
    edits = book.edits.get(function, ())
    return [edit for edit in edits if edit.sure and not edit.neutral and edit.kind != "again"]


def early(taken: dict[str, float], groups: dict[controls.Function, list[str]]) -> list[str]:
    """Of tests in the order of their run, with the seconds that they took, those that a decoy runs.

    They take a few hundredths of it all, or last to the end of the nearest fail-to-pass function.
    """
    ends, spent = {}, 0.0
    for name, seconds in taken.items():
        spent += seconds
        ends[name] = spent
    room = max(_LEAST, min(_MOST, _SHARE * spent))
    nearest = min((max(ends.get(name, spent) for name in ids) for ids in groups.values()), default=spent)
    if nearest <= _MOST:
        room = max(room, nearest)
    return [name for name, end in ends.items() if end <= room]
