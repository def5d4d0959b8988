"""Pass-to-pass tests once more with the fix, on a busy machine: what fails there is not listed.

A grading demands that every listed test passes, and it runs wherever a user runs it. Tests that race
against a clock of their own pass three times out of three on an idle machine and fail elsewhere, and
a submission that is right would be graded wrong for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from race.core.reliability import trial
from race.work.cells import open_cell
from race.work.observing import observe_many
from race.work.trials import Work, plan_for

LOAD = "competing-load"
RUNS, MOST_ROUNDS = 2, 4
"""Runs under load of a round; rounds go on while they find something."""
LONG, BUDGET = 20.0, 240.0
"""Seconds of a suite of which a round has one run, and seconds after which no round is begun."""


def unsteady_under_load(work: Work, ids: Sequence[str], seconds: float) -> tuple[str, ...]:
    """Which of these tests do not pass every time with the fix beside two busy processes.

    `seconds` is what a run of them takes. A test that a run did not reach is not held to be unsteady.
    """
    if not ids:
        return ()
    runs = RUNS if seconds < LONG else 1
    found: set[str] = set()
    started = time.monotonic()
    with open_cell(work.engine, work.subject, "new-with") as container:
        for number in range(MOST_ROUNDS):
            left = [test_id for test_id in ids if test_id not in found]
            work.say(f"{len(left)} pass-to-pass tests under load")
            indices = range(number * runs, (number + 1) * runs)
            trials = [trial(work.settings.seed, work.instance_id, "with", LOAD, n) for n in indices]
            fresh = {
                test_id
                for seen in observe_many(container, [plan_for(work, one, left) for one in trials])
                for test_id in left
                if test_id in seen.tests and seen.outcome(test_id) != "passed"
            }
            found |= fresh
            if not fresh or len(found) == len(ids) or time.monotonic() - started > BUDGET:
                break
    return tuple(test_id for test_id in ids if test_id in found)
