"""Which edits a grading makes of a fail-to-pass test: false ones that a trial has shown to work, and
true ones of the same look beside them. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import random
from typing import Any, List, Sequence, Tuple

import controls
from waits import is_late

Pick = Tuple[controls.Function, Any, List[str]]
"""A function, a false edit of it, and the ids that the edit makes fail."""


class Choices:
    """Draws edits for one grading. `outer` are those of helpers, `trial` what the trial found out."""

    def __init__(
        self,
        book: controls.Book,
        trial: dict[str, Any],
        outer: Sequence[controls.HelperEdit],
        draw: random.Random,
    ) -> None:
        self.book, self.trial, self.draw = book, trial, draw
        self.groups = book.groups
        self._true_helpers = [helper for helper in outer if helper.edit.neutral]
        self._begin_true = {f for f in self.groups if draw.random() < 0.5}

    def ways(self, function: controls.Function) -> list[Pick]:
        """One false edit of each kind that works for a function, in a drawn order.

        Of the test itself and of each function in it one is at the end, where there is such a one.
        """
        kinds: dict[str, list[Pick]] = {}
        ends: dict[str, set[str]] = {}
        for edit, ids in self.usable(function, False):
            kinds.setdefault(edit.kind, []).append((function, edit, ids))
            if edit.last:
                ends.setdefault(edit.owner, set()).add(edit.kind)
        at_end = {self.draw.choice(sorted(ends[owner])) for owner in sorted(ends)}
        ways = []
        for kind in sorted(kinds):
            last = [pick for pick in kinds[kind] if kind in at_end and pick[1].last]
            ways.append(self.draw.choice(last or kinds[kind]))
        self.draw.shuffle(ways)
        # The last is taken first: ends of functions in the test, then its own, then waits, then others.
        return sorted(ways, key=lambda pick: (pick[1].kind in at_end, is_late(pick[1]), pick[1].owner))

    def usable(self, function: controls.Function, neutral: bool) -> list[tuple[Any, list[str]]]:
        """Edits that a trial has shown to work, each with the ids that they work for."""
        tried = self.trial.get("neutral" if neutral else "false")
        usable = []
        for number, edit in self.book.numbered(function, neutral):
            ids = self.groups[function]
            if tried is None or (neutral and edit.sure):
                working = ids if edit.sure else []
                working = working[:1] if edit.kind == "again" else working
            else:
                working = [name for name in ids if number in tried.get(name, ())]
            if working and (not neutral or len(working) == len(ids)):
                usable.append((edit, working))
        return usable

    def true(self, false: dict[controls.Function, Any]) -> list[tuple[controls.Function, Any]]:
        """Neutral edits of these functions, of what they define and of their helpers, in every place.

        None stands where a function's `false` edit is made. A grading has the one at the start or not,
        in true and false tests alike, so that nothing is learnt from how much there is.
        """
        made = []
        spoilt = {(edit.path, edit.start) for edit in false.values() if edit is not None}
        for function, other in false.items():
            kinds: dict[str, list[Any]] = {}
            for edit, _ in self.usable(function, True):
                kinds.setdefault(edit.kind, []).append(edit)
            kinds.pop("" if other is None else controls.neutral_kind(other.kind), None)
            if function not in self._begin_true:
                kinds.pop("ready", None)
            made += [(function, self.draw.choice(edits)) for edits in kinds.values()]
            made += [(function, helper.edit) for helper in self._true_helpers
                     if function in helper.reached
                     and (helper.edit.path, helper.edit.start) not in spoilt]  # fmt: skip
        return made
