import pytest

from race.core.classify import classify
from race.core.failure_text import ObservedFailure
from race.core.records import dump
from race.core.standing import Dropped, Run
from race.core.validated import Validated, observed, remembered, without, wobbling


def _found():
    return classify(
        {
            "new-without": [Run({"t::a": "failed", "t::b": "failed", "t::p": "passed"})] * 3,
            "new-with": [Run({"t::a": "passed", "t::b": "passed", "t::p": "passed"})] * 3,
        }
    )


def test_ids_that_repeats_threw_out_are_dropped_and_the_rest_stays():
    """One wobbly test goes, with its reason; the task stands on the other."""
    done = without(_found(), wobbling({"t::a": "unreliable"}))
    assert done.accepted
    assert done.fail_to_pass == ("t::b",)
    assert [(drop.id, drop.reason) for drop in done.dropped] == [("t::a", "unreliable")]


def test_a_task_whose_candidates_are_all_gone_is_rejected_for_their_reason():
    """Unreliable goes before flaky as the reason, and the finding names the first test."""
    done = without(_found(), wobbling({"t::b": "flaky", "t::a": "unreliable"}))
    assert not done.accepted
    assert [(finding.rule, finding.place) for finding in done.findings] == [("only-unreliable", "t::a")]


@pytest.mark.parametrize("seen_by", ["matrix", "repeats"])
def test_a_race_is_recorded_alike_whoever_saw_it_wobble(seen_by):
    """Chance decides whether the matrix or the repeats see a pass without the fix, not the record."""
    words = ["failed", "passed", "failed"] if seen_by == "matrix" else ["failed"] * 3
    found = classify(
        {
            "old-without": [Run({})] * 3,
            "new-without": [Run({"t::a": word}) for word in words],
            "new-with": [Run({"t::a": "passed"})] * 3,
        }
    )
    if seen_by == "repeats":
        found = without(found, wobbling({"t::a": "unreliable"}))
    record = Validated(instance_id="x", accepted=found.accepted, findings=found.findings,
                       dropped=found.dropped, fail_to_pass=found.fail_to_pass)  # fmt: skip
    expected = Validated(
        instance_id="x",
        accepted=False,
        dropped=(Dropped(id="t::a", reason="unreliable"),),
        findings=record.findings,
    )
    assert dump(record) == dump(expected)
    assert [finding.rule for finding in record.findings] == ["only-unreliable"]


def test_what_wobbled_once_stays_dropped():
    """An earlier record's flaky and unreliable tests are not listed because they held still today."""
    earlier = (
        Dropped(id="t::p", reason="flaky"),
        Dropped(id="t::a", reason="unreliable"),
        Dropped(id="t::b", reason="broken"),
    )
    done = remembered(_found(), earlier)
    assert done.fail_to_pass == ("t::b",)
    assert done.pass_to_pass == ()
    assert {drop.id for drop in done.dropped} == {"t::a", "t::p"}


def test_a_regression_that_does_not_hold_is_no_finding():
    """A test that only looked like a regression goes to the flaky ones, and its finding with it."""
    found = classify(
        {
            "new-without": [Run({"t::a": "failed", "t::r": "passed"})] * 3,
            "new-with": [Run({"t::a": "passed", "t::r": "failed"})] * 3,
        }
    )
    assert not found.accepted
    done = without(found, wobbling({"t::r": "flaky"}))
    assert done.accepted
    assert done.regressions == ()


def test_a_message_that_varied_once_is_recorded_as_varying():
    """Today's three equal messages do not undo that another day's differed."""
    today = ObservedFailure(outcome="failed", phase="call", error_type="E", message="lost 3 of 10")
    before = ObservedFailure(
        outcome="failed", phase="call", error_type="E", message="lost N of N", varies=True
    )
    assert observed(["t"], {"t": [today] * 3}, {"t": before})["t"] == before
    assert observed(["t"], {"t": [today] * 3}, {})["t"] == today
