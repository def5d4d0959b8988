"""What the outcomes of the matrix make of each test, and whether they make a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from race.core.matrix import CELLS, Cell
from race.core.records import Finding
from race.core.standing import WOBBLY, Dropped, Run, Standing, standing
from race.core.test_ids import ADDRESS, carries_address, unstable, without_parameters
from race.core.wanting import wanting

OLD_TROUBLE = ("flaky", "broken", "skipped")
"""Reasons that say nothing about the change where the old tests had the same trouble with the fix."""


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
        findings += wanting(near, known, dropped)
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
