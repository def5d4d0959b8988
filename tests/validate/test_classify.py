import pytest

from race.core.classify import classify
from race.core.standing import Run, standing

OLD = {"t::old": "passed"}


def _matrix(**cells):
    return {
        cell.replace("_", "-"): [Run(dict(outcomes)) for outcomes in runs]
        for cell, runs in cells.items()
    }


def _thrice(**cells):
    return _matrix(**{cell: [outcomes] * 3 for cell, outcomes in cells.items()})


def _reasons(sorted_):
    return {drop.id: drop.reason for drop in sorted_.dropped}


def _rules(sorted_):
    return [finding.rule for finding in sorted_.findings if finding.severity == "error"]


def test_a_plain_fix_sorts_its_tests():
    """What fails without and passes with is fail-to-pass, what passes both ways is pass-to-pass."""
    done = classify(
        _thrice(
            old_without=OLD,
            old_with=OLD,
            new_without=OLD | {"t::new": "failed", "t::bad": "failed"},
            new_with=OLD | {"t::new": "passed", "t::bad": "failed"},
        )
    )
    assert done.accepted
    assert done.fail_to_pass == ("t::new",)
    assert done.pass_to_pass == ("t::old",)
    assert _reasons(done) == {"t::bad": "broken"}


@pytest.mark.parametrize("how", ["failed", "error", "hang", "crashed", "missing"])
def test_every_way_of_failing_counts_as_failing(how):
    """A hang, a crash or a file that cannot be imported without the fix is a failure."""
    without = {} if how == "missing" else {"t::new": how}
    done = classify(_thrice(new_without=OLD | without, new_with=OLD | {"t::new": "passed"}))
    assert done.fail_to_pass == ("t::new",)


def test_different_ways_of_failing_are_one_failure():
    """A test that sometimes hangs and sometimes fails without the fix fails in every run."""
    done = classify(
        _matrix(
            new_without=[{"t::n": "hang"}, {"t::n": "failed"}, {"t::n": "error"}],
            new_with=[{"t::n": "passed"}] * 3,
        )
    )
    assert done.fail_to_pass == ("t::n",)


def test_a_race_that_sometimes_passes_without_the_fix_is_unreliable():
    """One pass without the fix is enough to drop the test, and the task when it was the only one."""
    done = classify(
        _matrix(
            new_without=[{"t::n": "failed"}, {"t::n": "passed"}, {"t::n": "failed"}],
            new_with=[{"t::n": "passed"}] * 3,
        )
    )
    assert not done.accepted
    assert _reasons(done) == {"t::n": "unreliable"}
    assert _rules(done) == ["only-unreliable"]
    assert "empty submission" in done.findings[0].message


def test_a_fix_that_sometimes_fails_is_flaky():
    """A test that fails in one run with the fix is not listed."""
    done = classify(
        _matrix(
            new_without=[{"t::n": "failed"}] * 3,
            new_with=[{"t::n": "passed"}, {"t::n": "failed"}, {"t::n": "passed"}],
        )
    )
    assert _rules(done) == ["only-flaky"]


def test_a_regression_is_named_and_rejects():
    """A test that passes without the fix and fails with it rejects the task by name."""
    done = classify(
        _thrice(
            old_without={"t::a": "passed"},
            old_with={"t::a": "failed"},
            new_without={"t::a": "passed", "t::n": "failed"},
            new_with={"t::a": "failed", "t::n": "passed"},
        )
    )
    assert not done.accepted
    assert done.regressions == ("t::a",)
    assert done.findings[0].rule == "regression"
    assert done.findings[0].place == "t::a"


def test_an_old_test_that_the_change_rewrites_is_no_regression():
    """When the new version of an old test passes, its old version may fail with the fix: a note."""
    done = classify(
        _thrice(
            old_without={"t::a": "passed", "t::gone": "passed"},
            old_with={"t::a": "failed", "t::gone": "failed"},
            new_without={"t::a": "failed"},
            new_with={"t::a": "passed"},
        )
    )
    assert done.accepted
    assert [(f.rule, f.place, f.severity) for f in done.findings] == [
        ("expectation-changed", "t::a", "note"),
        ("expectation-changed", "t::gone", "note"),
    ]


def test_tests_that_pass_without_the_fix_show_nothing():
    """A regression test that does not fail without the fix rejects the task for that reason."""
    done = classify(_thrice(new_without={"t::n": "passed"}, new_with={"t::n": "passed"}))
    assert _rules(done) == ["no-fail-to-pass"]
    assert done.pass_to_pass == ("t::n",)


def test_nothing_collected_and_nothing_working_are_told_apart():
    """No test at all and tests that fail with the fix are different findings."""
    assert _rules(classify(_thrice(new_without={}, new_with={}))) == ["nothing-collected"]
    both = classify(_thrice(new_without={"t::n": "error"}, new_with={"t::n": "error"}))
    assert _rules(both) == ["fails-with-the-fix"]


@pytest.mark.parametrize(
    ("candidate", "rule", "place"),
    [
        ("passed", "no-fail-to-pass", ""),
        ("error", "fails-with-the-fix", "t::new"),
        ("skipped", "only-skipped", "t::new"),
    ],
)
def test_trouble_that_was_there_before_the_change_is_not_its_reason(candidate, rule, place):
    """An old test that fails, or is skipped, with the old tests and the fix too decides nothing."""
    old = {"t::a": "error", "t::b": "skipped", "t::c": "passed"}
    new = old | {"t::new": candidate}
    done = classify(_thrice(old_without=old, old_with=old, new_without=new, new_with=new))
    assert [(finding.rule, finding.place) for finding in done.findings] == [(rule, place)]
    idle = "(1 fail with and without the fix and 1 are skipped)"
    assert (idle in done.findings[0].message) == (rule == "no-fail-to-pass")


def test_when_nothing_passes_with_the_fix_that_is_the_reason():
    """Tests that fail in every cell are the reason where no other test passes: it is no task's bug."""
    old = {"t::a": "error"}
    done = classify(_thrice(old_without=old, old_with=old, new_without=old, new_with=old))
    (finding,) = done.findings
    assert (finding.rule, finding.place) == ("fails-with-the-fix", "t::a")


def test_skips_and_expected_failures_are_never_listed():
    """Only passed passes, so skipped, xfailed and xpassed tests are dropped with their reason."""
    done = classify(
        _thrice(
            new_without={"t::n": "failed", "t::s": "skipped", "t::x": "xfailed", "t::y": "skipped"},
            new_with={"t::n": "passed", "t::s": "passed", "t::x": "xpassed", "t::y": "skipped"},
        )
    )
    assert _reasons(done) == {"t::s": "skipped", "t::x": "expected-failure", "t::y": "skipped"}


def test_a_run_that_was_cut_short_says_nothing_about_the_rest():
    """An id that a cut run did not reach is neither failed nor passed."""
    matrix = {
        "new-without": [Run({"t::a": "failed"}), Run({"t::a": "failed"}, whole=False)],
        "new-with": [Run({"t::a": "passed", "t::b": "passed"}), Run({"t::a": "passed"}, whole=False)],
    }
    done = classify(matrix)
    assert done.fail_to_pass == ("t::a",)
    assert _reasons(done) == {"t::b": "not-reached"}


def test_ids_with_addresses_or_times_are_dropped():
    """An id that changes from run to run is dropped with what changes in it."""
    matrix = _matrix(
        new_without=[
            {"t::n": "failed", f"t::a[<X object at 0x7f{n}00000>]": "passed"} for n in range(3)
        ],
        new_with=[
            {"t::n": "passed", f"t::a[<X object at 0x7f{n}00000>]": "passed", f"t::b[12:0{n}]": "passed"}
            for n in range(3)
        ],
    )
    done = classify(matrix)
    assert done.accepted
    assert done.fail_to_pass == ("t::n",)
    assert set(_reasons(done).values()) == {"unstable-id"}
    detail = {drop.id: drop.detail for drop in done.dropped}
    assert detail == {
        "t::a[…]": "its name holds a memory address",
        "t::b[…]": "not every run collects it under this name",
    }


def test_an_address_that_happens_to_repeat_is_still_unstable():
    """The same address in every run of one machine is no reason to list the id."""
    same = {"t::a[<X object at 0x7f0000000>]": "passed", "t::n": "passed"}
    done = classify(_thrice(new_without=same | {"t::n": "failed"}, new_with=same))
    assert _reasons(done) == {"t::a[…]": "unstable-id"}


def test_a_deselected_test_is_dropped_by_name():
    """What release.toml deselects for a project is shown as such, not lost."""
    done = classify(
        _thrice(
            new_without={"t::n": "failed", "t::d": "failed"},
            new_with={"t::n": "passed", "t::d": "passed"},
        ),
        deselected=lambda test_id: test_id == "t::d",
    )
    assert done.fail_to_pass == ("t::n",)
    assert _reasons(done) == {"t::d": "deselected"}


def test_every_reported_id_ends_in_exactly_one_list():
    """Nothing shrinks quietly: the lists partition what was reported."""
    words = ["passed", "failed", "error", "hang", "skipped", "xfailed", "xpassed", "crashed"]
    cells = {f"t::{a}-{b}-{c}": (a, b, c) for a in words for b in words for c in words}
    matrix = _matrix(
        new_without=[{i: w[0] for i, w in cells.items()}, {i: w[1] for i, w in cells.items()}],
        new_with=[{i: w[2] for i, w in cells.items()}] * 2,
    )
    done = classify(matrix)
    listed = [*done.fail_to_pass, *done.pass_to_pass, *done.regressions, *(d.id for d in done.dropped)]
    assert sorted(listed) == sorted(cells)


def test_mixed_outcomes_stand_as_mixed():
    """A pass among failures, a skip among passes: mixed; nothing known: unknown."""
    assert standing(["passed", "failed"]) == "mixed"
    assert standing(["passed", "skipped"]) == "mixed"
    assert standing([]) == "unknown"
    assert standing(["missing", "error"]) == "failed"
