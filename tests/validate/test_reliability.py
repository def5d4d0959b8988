import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from race.core.reliability import (
    PLAIN,
    VARIANTS,
    Count,
    acceptance,
    parse_trial,
    plain_trials,
    trial,
    upper_bound,
    variants_for,
)


def test_the_published_numbers_of_runs_come_out():
    """59, 149 and 299 runs without a bad outcome bound its rate at 5%, 2% and 1%; three bound 63%."""
    for limit, runs in ((0.05, 59), (0.02, 149), (0.01, 299)):
        assert upper_bound(0, runs - 1) > limit >= upper_bound(0, runs)
        assert [acceptance(runs - 1, limit), acceptance(runs, limit)] == [-1, 0]
    assert upper_bound(0, 3) == pytest.approx(0.6316, abs=1e-4)
    assert upper_bound(3, 3) == 1.0
    assert upper_bound(0, 0) == 1.0


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))))
def test_the_bound_is_where_the_binomial_tail_is_five_percent(pair):
    """The bound is the rate at which so few bad outcomes have probability 5%: the exact definition."""
    bad, runs = pair
    assert binom.cdf(bad, runs, upper_bound(bad, runs)) == pytest.approx(0.05, rel=1e-6)


def test_nonsense_counts_are_refused():
    """More bad outcomes than runs is an error, not a bound."""
    with pytest.raises(ValueError, match="4 bad outcomes in 3 runs"):
        upper_bound(4, 3)


def test_acceptance_numbers_match_the_bounds():
    """The acceptance number is the last count within the limit; too few runs accept nothing."""
    assert acceptance(59, 0.05) == 0
    assert acceptance(58, 0.05) == -1
    assert acceptance(93, 0.05) == 1
    assert acceptance(92, 0.05) == 0
    for runs, limit in ((181, 0.05), (400, 0.02)):
        allowed = acceptance(runs, limit)
        assert upper_bound(allowed, runs) <= limit < upper_bound(allowed + 1, runs)


def test_a_count_stops_at_the_first_bad_outcome_it_cannot_afford():
    """Rejecting stops at once, accepting needs every planned run; too short a plan never accepts."""
    count = Count(59, 0.05)
    for _ in range(58):
        count.add(False)
    assert count.verdict == "open"
    count.add(False)
    assert count.verdict == "accept"
    assert count.bound <= 0.05
    early = Count(59, 0.05)
    early.add(False)
    early.add(True)
    assert early.verdict == "reject"
    assert early.runs == 2
    assert Count(10, 0.05).verdict == "reject"


def test_the_rule_drops_unreliable_tasks_as_often_as_it_promises():
    """A simulation of the whole rule: at least 95% dropped at a rate of 5%, nearly all at 25%."""
    draw = random.Random(7)
    for rate, floor in ((0.05, 0.93), (0.25, 0.999), (0.5, 0.999)):
        dropped = 0
        for _ in range(2000):
            count = Count(59, 0.05)
            while count.verdict == "open":
                count.add(draw.random() < rate)
            dropped += count.verdict == "reject"
        assert dropped / 2000 >= floor


def test_seeds_follow_from_names_and_a_key_finds_its_trial_again():
    """A printed key leads to the same seed; another task, side, variant or number gets another."""
    one = trial(1, "a__b-1", "without", "jitter", 3)
    assert parse_trial(one.key, 1, "a__b-1") == one
    others = {
        trial(2, "a__b-1", "without", "jitter", 3).seed,
        trial(1, "a__b-2", "without", "jitter", 3).seed,
        trial(1, "a__b-1", "with", "jitter", 3).seed,
        trial(1, "a__b-1", "without", "load", 3).seed,
        trial(1, "a__b-1", "without", "jitter", 4).seed,
    }
    assert one.seed not in others
    assert len(others) == 5
    assert [t.index for t in plain_trials(1, "x", "with", 2, start=59)] == [59, 60]


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("jitter/3", "expected SIDE/VARIANT/INDEX"),
        ("both/jitter/3", "side 'both'"),
        ("with/earthquake/3", "no perturbation 'earthquake'"),
        ("with/jitter/three", "'three' is no number"),
    ],
)
def test_a_key_that_names_nothing_says_what_is_wrong(key, what):
    """A mistyped key gets one clear line."""
    with pytest.raises(ValueError, match=what):
        parse_trial(key, 1, "x")


def test_only_perturbations_that_can_matter_are_planned_within_the_budget():
    """One test has no order, uvloop must be there, and with the plain runs all fit into 130."""
    assert "test-order" not in variants_for(1, uvloop=True)
    assert "uvloop" not in variants_for(2, uvloop=False)
    assert set(variants_for(2, uvloop=True)) | {"test-order"} == set(VARIANTS)
    assert PLAIN not in VARIANTS
    assert all(2 * 59 + 2 * len(variants_for(5, uvloop=there)) <= 130 for there in (True, False))
