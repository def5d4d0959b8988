"""What the release check makes of the outcomes that it saw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from race.core.release_check import Check, Lists, corrected, judged, stability, tidy
from race.core.verified import RunVerdict

GOOD = {"a": "passed", "p": "passed"}
BASE = {"a": "failed", "p": "passed"}


def rules(lists: Lists) -> dict[str, tuple[str, ...]]:
    """Corrections as rule -> ids before."""
    return {c.rule: c.before for c in lists.corrections}


def test_right_lists_stay_as_they_are() -> None:
    """Nothing is corrected when every run supports every id."""
    lists = corrected(Lists(("a",), ("p",)), [GOOD] * 3, [BASE] * 3)
    assert lists == Lists(("a",), ("p",))


@pytest.mark.parametrize(
    ("gold", "empty", "rule", "left"),
    [
        ([{"a": "passed"}] * 3, [BASE] * 3, "not-collected", ("a",)),
        ([GOOD | {"x": "failed"}] * 3, [BASE] * 3, "never-passes-with-the-fix", ("a",)),
        ([GOOD | {"x": "passed"}, GOOD, GOOD], [BASE] * 3, "fails-sometimes-with-the-fix", ("a",)),
        (
            [GOOD | {"x": "passed"}] * 3,
            [BASE | {"x": "passed"}, BASE | {"x": "failed"}, BASE | {"x": "hang"}],
            "passes-sometimes-without-the-fix",
            ("a",),
        ),
    ],
)
def test_an_id_that_no_run_supports_goes_with_its_reason(gold, empty, rule, left) -> None:
    """A fail-to-pass id is taken out by the rule that names why, the others stay."""
    lists = corrected(Lists(("a", "x"), ()), gold, empty)
    assert lists.fail_to_pass == left
    assert rules(lists) == {rule: ("x",)}


def test_a_fail_to_pass_id_that_always_passes_becomes_pass_to_pass() -> None:
    """An id that needs no fix is kept as one that must not break, before and after recorded."""
    lists = corrected(
        Lists(("a", "x"), ("p",)), [GOOD | {"x": "passed"}] * 3, [BASE | {"x": "passed"}] * 3
    )
    assert (lists.fail_to_pass, lists.pass_to_pass) == (("a",), ("p", "x"))
    assert lists.corrections[-1].after == ("pass_to_pass: x",)


def test_a_pass_to_pass_id_that_fails_on_the_base_goes() -> None:
    """A pass-to-pass id has to pass both ways."""
    lists = corrected(Lists(("a",), ("p",)), [GOOD] * 3, [{"a": "failed", "p": "error"}] * 3)
    assert rules(lists) == {"fails-without-the-fix": ("p",)}


def test_repeats_and_ids_in_both_lists_are_tidied() -> None:
    """Lists are sets: a repeated id is listed once, an id in both stays fail-to-pass."""
    lists = tidy(["b", "a", "a"], ["a", "c"])
    assert (lists.fail_to_pass, lists.pass_to_pass) == (("a", "b"), ("c",))
    assert rules(lists) == {"listed-twice": ("a",), "in-both-lists": ("a",)}


def run(run_id: str, verdict: str, *failed: str) -> RunVerdict:
    """One grading."""
    return RunVerdict(run_id=run_id, verdict=verdict, failed=failed)


def test_a_task_ships_when_gold_scores_one_and_empty_zero() -> None:
    """Three of each, as they must be: no exclusion."""
    gold = [run(f"g{n}", "resolved") for n in range(3)]
    empty = [run(f"e{n}", "unresolved", "a") for n in range(3)]
    assert judged(Lists(("a",), ()), gold, empty) == ("", ())


def test_an_exclusion_names_scores_runs_and_tests() -> None:
    """The sentence for the changelog says who scored what in which run."""
    gold = [run("g1", "resolved"), run("g2", "unresolved", "a"), run("g3", "resolved")]
    empty = [run("e1", "resolved"), run("e2", "unresolved", "a"), run("e3", "unresolved", "a")]
    sentence, findings = judged(Lists(("a",), ()), gold, empty)
    assert sentence == (
        "the reference fix scored 1, 0, 1 (run g2); not passed: a; "
        "the empty submission scored 1, 0, 0 (run e1)"
    )
    assert [finding.rule for finding in findings] == ["gold", "empty"]


def test_tampered_and_refused_are_zero_for_the_fix() -> None:
    """Only resolved is a 1, whatever else the grader calls it."""
    _, findings = judged(Lists(("a",), ()), [run("g1", "tampered")], [run("e1", "refused")])
    assert [finding.rule for finding in findings] == ["gold"]


def test_a_fix_that_is_refused_is_told_with_the_reason() -> None:
    """Where no test was run, the exclusion says why, and blames no test."""
    gold = [run("g1", "refused", "a"), run("g2", "refused", "a")]
    why = "the patch does not apply exactly"
    sentence, _ = judged(Lists(("a",), ()), gold, [run("e1", "unresolved", "a")], why)
    assert sentence == (
        "the reference fix scored 0, 0 (runs g1, g2); refused: the patch does not apply exactly"
    )


def test_an_empty_list_excludes() -> None:
    """A task without a fail-to-pass test cannot ship."""
    assert judged(Lists((), ("p",)), [run("g", "resolved")], [run("e", "unresolved")])[0]


GOOD_CHECK, BAD_CHECK = Check(True, ("check-1/gold-1",)), Check(False, ("check-1/gold-1",))


@pytest.mark.parametrize("earlier", [GOOD_CHECK, BAD_CHECK])
def test_two_checks_that_disagree_are_reported_with_both_runs(earlier: Check) -> None:
    """A task that flips is unstable whatever the second check says."""
    finding = stability(not earlier.stood, ["check-2/gold-1"], [earlier])
    assert finding
    assert (finding.rule, finding.severity) == ("unstable", "error")
    assert "check-1/gold-1" in finding.message
    assert "check-2/gold-1" in finding.message


def test_checks_that_agree_say_nothing() -> None:
    """Neither the first check nor one that agrees with all before it."""
    assert stability(True, ["x"], []) is None
    assert stability(True, ["x"], [GOOD_CHECK, GOOD_CHECK]) is None


def test_a_flip_is_settled_by_two_checks_that_agree_and_is_remembered() -> None:
    """The last two decide; the record keeps a warning with the runs of the one that differed."""
    later = Check(True, ("check-2/gold-1",))
    finding = stability(True, ["check-3/gold-1"], [BAD_CHECK, later])
    assert finding
    assert (finding.rule, finding.severity) == ("was-unstable", "warning")
    for run_id in ("check-1/gold-1", "check-2/gold-1", "check-3/gold-1"):
        assert run_id in finding.message
    again = stability(False, ["check-4/gold-1"], [BAD_CHECK, later, later])
    assert again
    assert again.rule == "unstable"


OUTCOMES = st.sampled_from(["passed", "failed", "error", "missing", "hang"])
IDS = ("a", "b", "c", "d")


@given(
    st.lists(st.fixed_dictionaries(dict.fromkeys(IDS, OUTCOMES)), min_size=1, max_size=4),
    st.lists(st.fixed_dictionaries(dict.fromkeys(IDS, OUTCOMES)), min_size=1, max_size=4),
)
def test_corrected_lists_hold_and_nothing_is_lost(gold, empty) -> None:
    """After correction every run supports every id, and each removed id is in a correction."""
    lists = corrected(Lists(("a", "b"), ("c", "d")), gold, empty)
    for test_id in lists.fail_to_pass:
        assert all(r[test_id] == "passed" for r in gold)
        assert not any(r[test_id] == "passed" for r in empty)
    for test_id in lists.pass_to_pass:
        assert all(r[test_id] == "passed" for r in (*gold, *empty))
    told = {i for c in lists.corrections for i in c.before}
    assert told | set(lists.fail_to_pass) | set(lists.pass_to_pass) == set(IDS)
