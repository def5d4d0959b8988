"""Why a task has no fail-to-pass test, as one finding: the nearest thing to one decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from race.core.matrix import Cell
from race.core.records import Finding
from race.core.standing import EXPLAIN, FAILING, Dropped, Run

NOTHING_COLLECTED = "nothing-collected"
FAILS_WITH_THE_FIX = "fails-with-the-fix"
NO_FAIL_TO_PASS = "no-fail-to-pass"


def wanting(
    near: Mapping[str, list[str]], known: Mapping[Cell, Sequence[Run]], dropped: Sequence[Dropped]
) -> Iterable[Finding]:
    """The finding. `near` are ids by the reason for which they could not be listed."""
    if not any(run.outcomes for run in known["new-with"]):
        yield Finding(rule=NOTHING_COLLECTED, message="no test was collected with new tests and fix")
        return
    for reason in ("unreliable", "flaky", "unstable-id", "not-reached"):
        if near.get(reason):
            yield nothing_left(reason, near[reason])
            return
    failing = near.get("broken") or _all_failing(known)
    if failing:
        yield Finding(
            rule=FAILS_WITH_THE_FIX,
            place=failing[0],
            message=f"no test passes only with the fix; {len(failing)} fail even with it",
        )
        return
    if near.get("skipped"):
        yield nothing_left("skipped", near["skipped"])
        return
    yield Finding(
        rule=NO_FAIL_TO_PASS,
        message="every test that passes with the fix passes without it too: nothing shows the bug"
        + _idle(dropped),
    )


def _idle(dropped: Sequence[Dropped]) -> str:
    """How many tests could have shown something and did not, for a person who wonders why."""
    counts = {
        "fail with and without the fix": sum(drop.reason == "broken" for drop in dropped),
        "are skipped": sum(drop.reason == "skipped" for drop in dropped),
    }
    said = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f" ({said})" if said else ""


def _all_failing(known: Mapping[Cell, Sequence[Run]]) -> list[str]:
    """The tests that fail with new tests and fix, when none passes there."""
    words = {test_id: word for run in known["new-with"] for test_id, word in run.outcomes.items()}
    if "passed" in words.values():
        return []
    return sorted(test_id for test_id, word in words.items() if word in FAILING)


def nothing_left(reason: str, ids: Sequence[str]) -> Finding:
    """The finding of a task whose only fail-to-pass candidates had to be dropped for one reason.

    It is the same whether the matrix or the repeats saw it, so that a rebuild says the same.
    """
    return Finding(
        rule=f"only-{reason}",
        place=ids[0],
        message=f"no fail-to-pass test is left: the candidate {EXPLAIN[reason]}",
    )
