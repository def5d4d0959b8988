"""Single repeats in a container: how a trial is asked for, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from race.core.failure_text import ObservedFailure, normalise
from race.core.outcomes import Plan, TestOutcome
from race.core.reliability import PLAIN, Trial
from race.errors import Accident
from race.ports import Container, Engine
from race.settings import ReliabilitySection
from race.work.cells import Subject
from race.work.observing import observe_many

BATCHES = (5, 18)
"""Runs per launcher: a new one gets a fresh interpreter, hash seed and memory layout to fork from."""
QUOTA = 0.25
LOST_PROCESS = ("hang", "crashed")


class Enough(Exception):
    """No further repeat is needed; raised by whoever looks at the results."""


@dataclass(frozen=True)
class Work:
    """What is to be repeated, and how.

    `slow_ids` hung in every run without the fix and get `slow_seconds` there; `left_out` are
    fail-to-pass tests beyond the number that is repeated.
    """

    engine: Engine
    subject: Subject
    instance_id: str
    settings: ReliabilitySection
    variants: tuple[str, ...] = ()
    slow_ids: frozenset[str] = frozenset()
    slow_seconds: float = 5.0
    left_out: tuple[str, ...] = ()
    say: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class TrialResult:
    """One repeat: outcome per id, and how the failing ones failed."""

    trial: Trial
    outcomes: Mapping[str, str]
    failures: Mapping[str, ObservedFailure]


def batches(trials: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
    """The trials a few at a time; small batches first, since most unreliable tasks show early."""
    start, sizes = 0, [*BATCHES]
    while start < len(trials):
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        yield trials[start : start + size]
        start += size


def run_trials(
    container: Container,
    work: Work,
    ids: Sequence[str],
    trials: Sequence[Trial],
    on_result: Callable[[TrialResult], None],
) -> bool:
    """Run trials in one launcher; False when `on_result` had Enough, which ends the container's use."""
    outcomes: dict[int, dict[str, str]] = {}
    failures: dict[int, dict[str, ObservedFailure]] = {}
    ended = 0

    def on_event(number: int, event: dict[str, object]) -> None:
        nonlocal ended
        if event.get("event") == "outcome":
            test_id = str(event["id"])
            outcomes.setdefault(number, {})[test_id] = str(event["outcome"])
            if event["outcome"] != "passed":
                failures.setdefault(number, {})[test_id] = failure_of(event)
        elif event.get("event") == "ended":
            ended += 1
            found = TrialResult(trials[number], outcomes.pop(number, {}), failures.pop(number, {}))
            on_result(found)

    try:
        observe_many(container, [plan_for(work, one, ids) for one in trials], on_event)
    except Enough:
        return False
    if ended != len(trials):
        raise Accident(f"{len(trials) - ended} of {len(trials)} repeats did not report their end")
    return True


def plan_for(work: Work, one: Trial, ids: Sequence[str]) -> Plan:
    """One repeat as the launcher is asked for it."""
    subject = work.subject
    environment, seconds = dict(subject.environment), subject.test_seconds
    if one.variant == "hash-seed":
        environment["PYTHONHASHSEED"] = str(one.seed)
    if one.side == "without" and any(test_id in work.slow_ids for test_id in ids):
        slower = 1 / QUOTA if one.variant == "cpu-quota" else 1.0
        seconds = min(seconds, work.slow_seconds * slower)
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
    )


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
