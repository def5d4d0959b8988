"""Single repeats in a container: how a trial is asked for, and what came of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from race.core.failure_text import ObservedFailure, normalise
from race.core.hangs import SLOWER
from race.core.outcomes import Plan, TestOutcome
from race.core.reliability import PLAIN, Trial
from race.errors import Accident
from race.ports import Container, Engine
from race.settings import ReliabilitySection
from race.work.cells import Subject
from race.work.observing import observe_many

QUOTA = 0.25
LOST_PROCESS = ("hang", "crashed")
NEVER_IMPORTED = "importing it did not end"
"""What the launcher says of a file whose import was ended at its limit."""


class Enough(Exception):
    """No further repeat is needed; raised by whoever looks at the results."""


@dataclass(frozen=True)
class Work:
    """What is to be repeated, and how.

    `slow_ids` hung in the matrix without the fix, or failed late. There a test gets `slow_seconds` when
    one of these is run, else `empty_seconds`, and never more than with the fix; under a perturbation
    more than when plain. `left_out` are fail-to-pass tests beyond the number that is repeated.
    """

    engine: Engine
    subject: Subject
    instance_id: str
    settings: ReliabilitySection
    variants: tuple[str, ...] = ()
    slow_ids: frozenset[str] = frozenset()
    slow_seconds: float = 5.0
    empty_seconds: float = math.inf
    left_out: tuple[str, ...] = ()
    say: Callable[[str], None] = lambda _: None


@dataclass
class TrialResult:
    """One repeat: outcome per id and how the failing ones failed.

    `longest` is the longest wait for something that came: a test that passed, or in a plain repeat the
    first test (but not the first of a launcher, which waits for the interpreter as well).
    `hung` says that a test was ended at its limit, `lost` that a file was while it was imported.
    """

    trial: Trial
    outcomes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, ObservedFailure] = field(default_factory=dict)
    longest: float = 0.0
    hung: bool = False
    lost: bool = False

    @property
    def cut(self) -> bool:
        """Whether the repeat was ended at a hang, so that what has no outcome was not reached."""
        return self.hung and self.trial.side == "without"


def run_trials(
    container: Container,
    work: Work,
    ids: Sequence[str],
    trials: Sequence[Trial],
    on_result: Callable[[TrialResult], None],
) -> bool:
    """Run trials in one launcher; False when `on_result` had Enough, which ends the container's use."""
    found = [TrialResult(one) for one in trials]
    ended, begun, running = 0, 0.0, False

    def on_event(number: int, event: dict[str, object]) -> None:
        nonlocal ended, begun, running
        kind, seen = event.get("event"), found[number]
        if kind == "start" and not running:
            running = True
            if begun and seen.trial.variant == PLAIN:
                seen.longest = time.monotonic() - begun
        elif kind == "outcome":
            test_id, outcome = str(event["id"]), str(event["outcome"])
            seen.outcomes[test_id] = outcome
            seen.hung |= outcome == "hang"
            if outcome == "passed":
                seen.longest = max(seen.longest, float(str(event["seconds"])))
            else:
                seen.failures[test_id] = failure_of(event)
        elif kind == "collect-error":
            seen.lost |= str(event["message"]) == NEVER_IMPORTED
        elif kind == "ended":
            ended, begun, running = ended + 1, time.monotonic(), False
            on_result(seen)

    try:
        observe_many(container, [plan_for(work, one, ids) for one in trials], on_event)
    except Enough:
        return False
    if ended != len(trials):
        raise Accident(f"{len(trials) - ended} of {len(trials)} repeats did not report their end")
    return True


def plan_for(work: Work, one: Trial, ids: Sequence[str]) -> Plan:
    """One repeat as the launcher is asked for it. Without the fix the first hang ends it."""
    subject = work.subject
    environment, seconds = dict(subject.environment), subject.test_seconds
    if one.variant == "hash-seed":
        environment["PYTHONHASHSEED"] = str(one.seed)
    if one.side == "without":
        seconds = min(seconds, limit_of(work, ids) * SLOWER.get(one.variant, 1.0))
    tools = () if one.variant == PLAIN else ("perturb",)
    if tools:
        environment["RACE_PERTURB"] = json.dumps({"variant": one.variant, "seed": one.seed})
    return Plan(
        ids=tuple(ids),
        arguments=subject.arguments,
        environment=environment,
        tools=tools,
        test_seconds=seconds,
        run_seconds=subject.run_seconds,
        output_bytes=4096,
        stop_at_hang=one.side == "without",
    )


def limit_of(work: Work, ids: Sequence[str]) -> float:
    """Seconds that a test may take in a plain repeat of these ids without the fix."""
    slow = any(test_id in work.slow_ids for test_id in ids)
    return work.slow_seconds if slow else work.empty_seconds


def failure_of(event: Mapping[str, object]) -> ObservedFailure:
    """The launcher's word about a failing test, in the form that is recorded."""
    words = {name: str(event.get(name, "")) for name in ("outcome", "phase", "error", "message")}
    return observed_failure(TestOutcome(seconds=0.0, **words))


def observed_failure(test: TestOutcome) -> ObservedFailure:
    """A failing outcome in the form that is recorded; a lost process has no error of its own."""
    lost = test.outcome in LOST_PROCESS
    return ObservedFailure(
        outcome=test.outcome,
        phase=test.phase,
        error_type="" if lost else test.error,
        message="" if lost else normalise(test.message),
    )
