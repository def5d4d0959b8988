from race.core.reliability import trial
from race.core.repeats import Perturbed, Series, left, pooled_out


def _trial(index, side="without", variant="plain"):
    return trial(1, "x", side, variant, index)


def _fill(series, runs, outcomes):
    for index in range(runs):
        series.add(_trial(index, series.side), outcomes)


def test_a_reliable_task_pays_every_planned_run_and_no_more():
    """59 runs without the fix that all fail accept; before the last one nothing is decided."""
    series = Series("without", ("a", "b"), 59, 0.05)
    _fill(series, 58, {"a": "failed", "b": "hang"})
    assert series.verdict == "open"
    _fill(series, 1, {"a": "failed"})
    assert series.verdict == "accept"
    assert series.whole.bound <= 0.05
    assert series.bad_runs == []


def test_a_single_pass_without_the_fix_ends_a_task_of_one_test():
    """The verdict is there at the first pass, with the run that shows it."""
    series = Series("without", ("a",), 59, 0.05)
    series.add(_trial(0), {"a": "failed"})
    series.add(_trial(1), {"a": "passed"})
    assert series.verdict == "reject"
    assert series.out == ("a",)
    assert [run.trial.key for run in series.bad_runs] == ["without/plain/1"]


def test_an_unreliable_test_goes_and_a_reliable_one_stays():
    """With two tests the wobbly one is thrown out and the other starts again."""
    series = Series("without", ("a", "b"), 59, 0.05)
    series.add(_trial(0), {"a": "passed", "b": "failed"})
    assert series.verdict == "open"
    assert series.whole.bad == 0
    assert left(("a", "b"), series) == ("b",)


def test_a_repeat_that_ended_at_a_hang_says_nothing_about_what_it_did_not_reach():
    """The whole has failed, the test that hung has failed, and the one behind it was not looked at."""
    series = Series("without", ("a", "b"), 59, 0.05)
    series.add(_trial(0), {"a": "hang"}, cut=True)
    assert (series.whole.runs, series.whole.bad) == (1, 0)
    assert (series.each["a"].runs, series.each["b"].runs) == (1, 0)
    series.add(_trial(1), {"a": "passed", "b": "hang"}, cut=True)
    assert series.out == ("a",)
    assert series.whole.bad == 0


def test_with_the_fix_a_test_is_bad_when_it_does_not_pass():
    """Missing, skipped and failed are all bad with the fix."""
    for word in ("failed", "skipped", "hang", None):
        series = Series("with", ("a", "b"), 59, 0.05)
        series.add(_trial(0, "with"), {"b": "passed"} | ({"a": word} if word else {}))
        assert series.out == ("a",)
        assert series.whole.bad == 1


def test_more_repeats_can_afford_a_bad_outcome():
    """With 181 runs four bad outcomes are within 5%; the fifth is not."""
    series = Series("with", ("a",), 181, 0.05)
    for index in range(4):
        series.add(_trial(index, "with"), {"a": "failed"})
    assert series.verdict == "open"
    series.add(_trial(4, "with"), {"a": "failed"})
    assert series.verdict == "reject"


def _perturbed(gold_fails, empty_word):
    one = Perturbed("jitter", 1)
    if gold_fails:
        series = Series("with", ("a",), 1, 0.05)
        series.add(_trial(0, "with", "jitter"), {"a": "failed"})
        one.gold_bad = series.bad_runs
    one.empty = Series("without", ("a",), 1, 0.05)
    one.empty.add(_trial(0, "without", "jitter"), {"a": empty_word})
    return one


def test_a_perturbation_counts_only_when_the_reference_fix_stands_it():
    """A pass without the fix under a perturbation that breaks the fix too is not held against it."""
    plain = Series("without", ("a",), 59, 0.05)
    _fill(plain, 59, {"a": "failed"})
    assert pooled_out(plain, [_perturbed(False, "passed")]) == ("a",)
    assert pooled_out(plain, [_perturbed(True, "passed")]) == ()
    assert pooled_out(plain, [_perturbed(False, "failed")]) == ()
