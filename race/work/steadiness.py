"""Pass-to-pass tests once more with the fix, on a busy machine: what fails there is not listed.

A grading demands that every listed test passes, and it runs wherever a user runs it. Tests that race
against a clock of their own pass three times out of three on an idle machine and fail elsewhere, and
a submission that is right would be graded wrong for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from race.core.reliability import trial
from race.work.cells import open_cell
from race.work.observing import observe_many
from race.work.trials import Work, plan_for

LOAD = "competing-load"
MOST_RUNS, BUDGET, SLOWDOWN = 2, 60.0, 3.0
"""Runs under load are as many as fit into the budget of seconds, at least one."""


def unsteady_under_load(work: Work, ids: Sequence[str], seconds: float) -> tuple[str, ...]:
    """Which of these tests do not pass every time with the fix beside two busy processes.

    `seconds` is what a run of them takes. A test that a run did not reach is not held to be unsteady.
    """
    if not ids:
        return ()
    runs = max(1, min(MOST_RUNS, int(BUDGET / (SLOWDOWN * max(seconds, 0.1)))))
    work.say(f"{len(ids)} pass-to-pass tests under load")
    trials = [trial(work.settings.seed, work.instance_id, "with", LOAD, n) for n in range(runs)]
    found: set[str] = set()
    with open_cell(work.engine, work.subject, "new-with") as container:
        plans = [plan_for(work, one, ids) for one in trials]
        for seen in observe_many(container, plans):
            found |= {i for i in ids if i in seen.tests and seen.outcome(i) != "passed"}
    return tuple(test_id for test_id in ids if test_id in found)
