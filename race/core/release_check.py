"""What the release check decides: which ids stay listed, and whether the task ships.

Outcomes come from gradings in the shipped image: with the reference fix (gold) and with nothing
(empty). Only `passed` passes; an id that pytest does not collect is `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from race.core.records import Finding
from race.core.verified import Correction, RunVerdict

Outcomes = Mapping[str, str]


@dataclass(frozen=True)
class Lists:
    """The two lists of a task as they will ship, and what was put right on the way."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    corrections: tuple[Correction, ...] = ()


def tidy(fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> Lists:
    """Lists without repeats and without an id in both; sorted. No run is needed for this."""
    corrections = []
    for name, ids in (("fail_to_pass", fail_to_pass), ("pass_to_pass", pass_to_pass)):
        twice = sorted({i for i in ids if list(ids).count(i) > 1}) if len(set(ids)) < len(ids) else []
        if twice:
            corrections.append(Correction(rule="listed-twice", what=name, before=tuple(twice)))
    both = sorted(set(fail_to_pass) & set(pass_to_pass))
    if both:
        corrections.append(
            Correction(rule="in-both-lists", what="pass_to_pass", before=tuple(both), after=())
        )
    return Lists(
        tuple(sorted(set(fail_to_pass))),
        tuple(sorted(set(pass_to_pass) - set(both))),
        tuple(corrections),
    )


def corrected(lists: Lists, gold: Sequence[Outcomes], empty: Sequence[Outcomes]) -> Lists:
    """The lists without what no run supports.

    Gone are ids that pytest never collects, ids that do not pass in every gold run, and fail-to-pass
    ids that pass in some empty run; one that passes in all of them becomes a pass-to-pass id.
    """
    rules: dict[str, list[str]] = {}
    moved: list[str] = []
    fail, keep = [], []
    for test_id in lists.fail_to_pass:
        rule = _unfit(test_id, gold)
        passed = sum(run.get(test_id) == "passed" for run in empty)
        if not rule and passed:
            if passed == len(empty):
                moved.append(test_id)
                continue
            rule = "passes-sometimes-without-the-fix"
        if rule:
            rules.setdefault(f"{rule}:fail_to_pass", []).append(test_id)
        else:
            fail.append(test_id)
    for test_id in lists.pass_to_pass:
        rule = _unfit(test_id, gold)
        if not rule and any(run.get(test_id, "missing") != "passed" for run in empty):
            rule = "fails-without-the-fix"
        if rule:
            rules.setdefault(f"{rule}:pass_to_pass", []).append(test_id)
        else:
            keep.append(test_id)
    corrections = [
        Correction(rule=key.split(":")[0], what=key.split(":")[1], before=tuple(sorted(ids)))
        for key, ids in sorted(rules.items())
    ]
    if moved:
        corrections.append(
            Correction(
                rule="passes-without-the-fix",
                what="fail_to_pass",
                before=tuple(sorted(moved)),
                after=tuple(f"pass_to_pass: {test_id}" for test_id in sorted(moved)),
            )
        )
    return Lists(tuple(fail), tuple(sorted({*keep, *moved})), (*lists.corrections, *corrections))


def _unfit(test_id: str, gold: Sequence[Outcomes]) -> str:
    outcomes = [run.get(test_id, "missing") for run in gold]
    if all(outcome == "missing" for outcome in outcomes):
        return "not-collected"
    if not any(outcome == "passed" for outcome in outcomes):
        return "never-passes-with-the-fix"
    if any(outcome != "passed" for outcome in outcomes):
        return "fails-sometimes-with-the-fix"
    return ""


def judged(
    lists: Lists, gold: Sequence[RunVerdict], empty: Sequence[RunVerdict], refusal: str = ""
) -> tuple[str, tuple[Finding, ...]]:
    """Why a task does not ship, as one sentence for the changelog, and the findings; '' when it does.

    `refusal` is why the grader runs no test with the reference fix, where that is so.
    """
    findings = []
    if not lists.fail_to_pass:
        findings.append(_error("empty-list", "no fail-to-pass test is left that every run supports"))
    bad_gold = [run for run in gold if run.verdict != "resolved"]
    if bad_gold:
        findings.append(_error("gold", _sentence("the reference fix", gold, bad_gold, refusal)))
    bad_empty = [run for run in empty if run.verdict == "resolved"]
    if bad_empty:
        findings.append(_error("empty", _sentence("the empty submission", empty, bad_empty)))
    return "; ".join(finding.message for finding in findings), tuple(findings)


def _sentence(who: str, runs: Sequence[RunVerdict], bad: Sequence[RunVerdict], refusal: str = "") -> str:
    scores = ", ".join("1" if run.verdict == "resolved" else "0" for run in runs)
    named = ", ".join(run.run_id for run in bad)
    failed = sorted({test_id for run in bad for test_id in run.failed})
    because = f"; not passed: {', '.join(failed[:3])}" if failed else ""
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    if refusal:
        because, more = f"; refused: {refusal}", ""
    return f"{who} scored {scores} (run{'s' * (len(bad) > 1)} {named}){because}{more}"


@dataclass(frozen=True)
class Check:
    """An earlier check of the same images and lists: whether the task stood, and its run ids."""

    stood: bool
    runs: tuple[str, ...]


def stability(stood: bool, runs: Sequence[str], earlier: Sequence[Check]) -> Finding | None:
    """What earlier checks of the same recipes, oldest first, say about this one.

    A task that this check judges otherwise than the last one is unstable: an error, with the run ids
    of both. When the last two agree again that is settled, and only a warning remembers the flip: two
    checks in a row are six gradings each way, and one accident of a busy machine must not exclude a
    task for ever.
    """
    if not earlier:
        return None
    last = earlier[-1]
    if last.stood is not stood:
        first, second = ("accepted", "excluded") if last.stood else ("excluded", "accepted")
        return _error(
            "unstable",
            f"unstable: {first} by an earlier check ({', '.join(last.runs)}), "
            f"{second} by this one ({', '.join(runs)})",
        )
    other = next((check for check in reversed(earlier) if check.stood is not stood), None)
    if other is None:
        return None
    verdict = "accepted" if other.stood else "excluded"
    return Finding(
        rule="was-unstable",
        message=(
            f"{verdict} by an earlier check ({', '.join(other.runs)}); the last two agree "
            f"({', '.join((*last.runs, *runs))})"
        ),
        severity="warning",
    )


def _error(rule: str, message: str) -> Finding:
    return Finding(rule=rule, message=message)
