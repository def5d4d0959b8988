"""What the outcomes of the matrix make of each test, and whether they make a task.

An outcome is one word per id and run: passed, failed, error, hang, crashed, skipped, xfailed,
xpassed; an id that a run did not report is missing. A run that was cut short (its limit, a flood of
output) says nothing about the ids that it did not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from race.core.matrix import CELLS, Cell
from race.core.records import Closed, Finding
from race.core.test_ids import ADDRESS, carries_address, unstable, without_parameters

FAILING = frozenset({"failed", "error", "hang", "crashed", "missing"})
EXPECTED = frozenset({"xfailed", "xpassed"})
UNKNOWN = "unknown"
NOTHING_COLLECTED = "nothing-collected"
FAILS_WITH_THE_FIX = "fails-with-the-fix"
NO_FAIL_TO_PASS = "no-fail-to-pass"
WOBBLY = ("flaky", "unreliable")
"""Reasons that chance decides: in which cell and run it shows is for the ledger."""

OLD_TROUBLE = ("flaky", "broken", "skipped")
"""Reasons that say nothing about the change where the old tests had the same trouble with the fix."""

Reason = Literal[
    "flaky", "unreliable", "broken", "skipped", "expected-failure", "unstable-id", "missing",
    "not-reached", "deselected",
]  # fmt: skip
Standing = Literal["passed", "failed", "mixed", "skipped", "expected", "missing", "unknown"]

EXPLAIN: dict[str, str] = {
    "flaky": "passes in some runs of one cell and fails in others",
    "unreliable": "passes in some runs without the fix, so an empty submission can pass it",
    "broken": "fails with and without the fix",
    "skipped": "is skipped, which a grader counts as a failure",
    "expected-failure": "is marked as an expected failure",
    "unstable-id": "does not have the same id in every run",
    "missing": "is not collected when tests and fix are both there",
    "not-reached": "was not reached before the run was cut short",
    "deselected": "is deselected for this project in release.toml",
}


@dataclass(frozen=True)
class Run:
    """One run of one cell: outcome per id, and whether it went to its end.

    `whole` is False when the run was cut short, so that an id it lacks may just not have been reached.
    """

    outcomes: Mapping[str, str]
    whole: bool = True

    def of(self, test_id: str) -> str:
        """The outcome of an id; missing, or unknown when the run did not go to its end."""
        return self.outcomes.get(test_id, "missing" if self.whole else UNKNOWN)


class Dropped(Closed):
    """An id that is not listed: why, and how it stood in the cells."""

    id: str
    reason: Reason
    detail: str = ""
    outcomes: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Sorted:
    """Every id of the matrix in one place, and the findings that follow."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    regressions: tuple[str, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def accepted(self) -> bool:
        """No finding rejects."""
        return not any(finding.severity == "error" for finding in self.findings)


def standing(outcomes: Sequence[str]) -> Standing:
    """What several runs of one cell say together about one id."""
    words = set(outcomes)
    if not words or UNKNOWN in words:
        return "unknown"
    if words == {"passed"}:
        return "passed"
    if words == {"missing"}:
        return "missing"
    if words <= FAILING:
        return "failed"
    if words == {"skipped"}:
        return "skipped"
    if words <= EXPECTED:
        return "expected"
    return "mixed"


def classify(
    matrix: Mapping[Cell, Sequence[Run]], deselected: Callable[[str], bool] = lambda _: False
) -> Sorted:
    """Put every id that a run with new tests reported where it belongs.

    A cell without runs (the old cells, when the change only adds test files) rules nothing out.
    """
    known = {cell: list(matrix.get(cell, ())) for cell in CELLS}
    new: tuple[Cell, ...] = ("new-with", "new-without")
    ids = sorted({test_id for cell in new for run in known[cell] for test_id in run.outcomes})
    wandering = _wandering(known, ids)
    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    regressions: list[str] = []
    dropped: list[Dropped] = []
    near: dict[str, list[str]] = {}
    for test_id in ids:
        stands = {cell: standing([run.of(test_id) for run in known[cell]]) for cell in CELLS}
        place: str = "deselected" if deselected(test_id) else _place(stands, test_id in wandering)
        if place == "fail_to_pass":
            fail_to_pass.append(test_id)
        elif place == "pass_to_pass":
            pass_to_pass.append(test_id)
        elif place == "regression":
            regressions.append(test_id)
        else:
            shown = {cell: word for cell, word in stands.items() if known[cell]}
            dropped.append(_dropped(test_id, place, wandering.get(test_id, ""), shown))
            if stands["new-without"] != "passed" and (place not in OLD_TROUBLE or _is_news(stands)):
                near.setdefault(place, []).append(dropped[-1].id)
    findings = [*_regressed(regressions), *_changed(known, ids)]
    if not fail_to_pass:
        findings += _wanting(near, known, dropped)
    return Sorted(
        tuple(fail_to_pass),
        tuple(pass_to_pass),
        _once(dropped),
        tuple(regressions),
        tuple(findings),
    )


def _is_news(stands: Mapping[Cell, Standing]) -> bool:
    """Whether a test that is of no use is new, or passed in its old version with the fix."""
    return stands["old-with"] in ("missing", "unknown", "passed")


def _wandering(known: Mapping[Cell, Sequence[Run]], ids: Sequence[str]) -> dict[str, str]:
    """Ids that change between runs with new tests: with the fix, or without it where that lacks them."""
    gold = [run.outcomes for run in known["new-with"] if run.whole]
    without = [run.outcomes for run in known["new-without"] if run.whole]
    lacking = {i: why for i, why in unstable(without).items() if not any(i in run for run in gold)}
    return lacking | unstable(gold) | {i: ADDRESS for i in ids if carries_address(i)}


def _once(dropped: Sequence[Dropped]) -> tuple[Dropped, ...]:
    """The list without the repeats that unstable ids of one test leave."""
    return tuple({(drop.id, drop.reason): drop for drop in dropped}.values())


def _dropped(test_id: str, place: str, why: str, shown: Mapping[Cell, Standing]) -> Dropped:
    """An entry of the dropped list; what changes in an unstable id is not written down."""
    if place in WOBBLY:
        return Dropped.model_validate({"id": test_id, "reason": place})
    if place == "unstable-id":
        return Dropped(id=without_parameters(test_id), reason="unstable-id", detail=why)
    return Dropped.model_validate({"id": test_id, "reason": place, "outcomes": dict(shown)})


def _place(stands: Mapping[Cell, Standing], wandering: bool) -> str:
    """The list that one id belongs to, or the reason why it is in none.

    An id that a run lacks without the fix because its file could not be imported has failed there;
    an id that only some runs have with the fix is unstable, whatever it did.
    """
    without, gold = stands["new-without"], stands["new-with"]
    if gold == "unknown" or without == "unknown":
        return "not-reached"
    if wandering:
        return "unstable-id"
    if gold == "missing":
        return "missing"
    if gold == "skipped" or without == "skipped":
        return "skipped"
    if gold == "expected" or without == "expected":
        return "expected-failure"
    if gold == "mixed":
        return "flaky"
    if gold == "failed":
        return {"passed": "regression", "mixed": "flaky"}.get(without, "broken")
    if without == "mixed":
        return "unreliable"
    if without == "passed":
        old = (stands["old-without"], stands["old-with"])
        return "flaky" if "mixed" in old else "pass_to_pass"
    return "fail_to_pass"


def _regressed(regressions: Sequence[str]) -> Iterable[Finding]:
    for test_id in regressions[:20]:
        yield Finding(rule="regression", place=test_id, message="passes without the fix, fails with it")
    if len(regressions) > 20:
        rest = len(regressions) - 20
        yield Finding(rule="regression", message=f"{rest} more tests pass without the fix, fail with it")


def _changed(known: Mapping[Cell, Sequence[Run]], ids: Sequence[str]) -> Iterable[Finding]:
    """Old tests that the fix makes fail, though their new version passes or they are gone."""
    old = {test_id for run in known["old-without"] for test_id in run.outcomes}
    for test_id in sorted(old):
        before = standing([run.of(test_id) for run in known["old-without"]])
        after = standing([run.of(test_id) for run in known["old-with"]])
        if (before, after) != ("passed", "failed"):
            continue
        gold = standing([run.of(test_id) for run in known["new-with"]])
        if gold in ("passed", "missing"):
            what = "its new version passes" if gold == "passed" else "the change removes it"
            yield Finding(
                rule="expectation-changed",
                severity="note",
                place=test_id,
                message=f"the old test passes without the fix and fails with it; {what}",
            )


def _wanting(
    near: Mapping[str, list[str]], known: Mapping[Cell, Sequence[Run]], dropped: Sequence[Dropped]
) -> Iterable[Finding]:
    """Why there is no fail-to-pass test, as one finding: the nearest thing to one decides."""
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
