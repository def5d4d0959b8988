"""What validation records about one task.

Only what every rebuild finds again: lists, reasons, normalised failures, bounds and the plan. How
often something happened, how long it took and what was printed is in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from race.core.classify import Sorted
from race.core.environment.model import Environment
from race.core.failure_text import ObservedFailure, agree
from race.core.matrix import Suite
from race.core.records import FileRef, StageRecord
from race.core.reliability import Reliability
from race.core.standing import WOBBLY, Dropped
from race.core.wanting import nothing_left


class Validated(StageRecord):
    """The environment, the matrix's lists and how surely they discriminate."""

    stage: ClassVar[str] = "validate"

    runs: int = 0
    source: FileRef | None = None
    environment: Environment | None = None
    suite: Suite | None = None
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    regressions: tuple[str, ...] = ()
    failures: dict[str, ObservedFailure] = Field(default_factory=dict)
    reliability: Reliability | None = None


def remembered(found: Sorted, previous: Sequence[Dropped]) -> Sorted:
    """The lists without the ids that an earlier validation of the same inputs saw wobble.

    A test that was once seen to pass and fail does both, also when this time it did not.
    """
    known = {drop.id: drop for drop in previous if drop.reason in WOBBLY}
    return without(
        found, {i: known[i] for i in (*found.fail_to_pass, *found.pass_to_pass) if i in known}
    )


def without(found: Sorted, out: Mapping[str, Dropped]) -> Sorted:
    """The lists with these ids moved to the dropped ones; a task left with nothing is rejected."""
    if not out:
        return found
    left = tuple(test_id for test_id in found.fail_to_pass if test_id not in out)
    findings = list(found.findings)
    gone = [drop for test_id, drop in out.items() if test_id in found.fail_to_pass]
    if found.fail_to_pass and not left:
        reason = "unreliable" if any(drop.reason == "unreliable" for drop in gone) else gone[0].reason
        findings.append(nothing_left(reason, sorted(drop.id for drop in gone if drop.reason == reason)))
    return replace(
        found,
        fail_to_pass=left,
        pass_to_pass=tuple(test_id for test_id in found.pass_to_pass if test_id not in out),
        regressions=tuple(test_id for test_id in found.regressions if test_id not in out),
        dropped=tuple(sorted((*found.dropped, *out.values()), key=lambda drop: drop.id)),
        findings=tuple(
            finding
            for finding in findings
            if not (finding.rule == "regression" and finding.place in out)
        ),
    )


def wobbling(out: Mapping[str, str]) -> dict[str, Dropped]:
    """Entries of the dropped list for ids that repeats threw out, by their reason.

    They read as if the matrix itself had seen it, which it sometimes does: a rebuild says the same.
    """
    return {
        test_id: Dropped.model_validate({"id": test_id, "reason": reason})
        for test_id, reason in out.items()
    }


def observed(
    ids: Sequence[str],
    failures: Mapping[str, Sequence[ObservedFailure]],
    previous: Mapping[str, ObservedFailure],
) -> dict[str, ObservedFailure]:
    """How each fail-to-pass test fails, from all its runs and what was recorded before."""
    found = {}
    for test_id in ids:
        seen = list(failures.get(test_id, ()))
        before = previous.get(test_id)
        found[test_id] = agree([*seen, *([before] if before is not None and before.varies else [])])
    return found
