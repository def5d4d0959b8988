"""Intervals and tests against second implementations and values worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from race.core.intervals import bootstrap_mean, clustered_rate, mean_interval, pass_at_k, wilson
from race.core.permutation import Cell, adjusted, label_shuffles, sign_flips, stratified_sum


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (58, 120)])
def test_wilson_agrees_with_scipy(k, n):
    """Wilson's interval equals scipy's for the same counts."""
    theirs = stats.binomtest(k, n).proportion_ci(method="wilson")
    ours = wilson(k, n)
    assert (ours.rate, ours.low, ours.high) == pytest.approx((k / n, theirs.low, theirs.high))


def test_wilson_refuses_what_is_no_count():
    """More successes than trials is an error; no trials is no rate."""
    with pytest.raises(ValueError, match="3 successes in 2 trials"):
        wilson(3, 2)
    assert wilson(0, 0).rate is None


def test_mean_interval_agrees_with_scipy():
    """Student's interval equals scipy's."""
    values = [0.3, -0.2, 0.5, 0.0, 0.1]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_clustered_rate_of_single_attempts_is_wilson():
    """Shares of 0 and 1 have no spread of their own: the interval is Wilson's."""
    found = clustered_rate([1.0] * 12 + [0.0] * 8)
    exact = stats.binomtest(12, 20).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_clustered_rate_is_wilson_at_the_effective_size_with_students_quantile():
    """Shares 0.2, 0.4, 0.6, 0.8: variance 1/15, so the effective size is 0.25 / (1/60) = 15."""
    found = clustered_rate([0.2, 0.4, 0.6, 0.8])
    t, n, p = stats.t.ppf(0.975, 3), 15, 0.5
    half = t / (1 + t * t / n) * math.sqrt(p * (1 - p) / n + t * t / (4 * n * n))
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_repeating_attempts_of_the_same_tasks_does_not_narrow_the_interval():
    """Runs of one task are not independent: what counts is the spread between tasks."""
    shares = [0.0, 0.25, 0.5, 1.0, 1.0]
    assert clustered_rate(shares).n == 5
    wide = clustered_rate(shares)
    naive = wilson(round(sum(shares) * 1000), 5000)
    assert wide.high - wide.low > 5 * (naive.high - naive.low)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_a_clustered_interval_holds_its_rate_inside_zero_and_one(shares):
    """Low <= rate <= high, all in [0, 1]; a lone task has none."""
    found = clustered_rate(shares)
    if len(shares) == 1:
        assert (found.low, found.high) == (None, None)
    else:
        assert 0 <= found.low <= found.rate + 1e-12
        assert found.rate - 1e-12 <= found.high <= 1


def test_bootstrap_lies_near_the_clustered_interval():
    """The check on the headline interval gives about the same for many tasks, with a fixed seed."""
    shares = np.random.default_rng(3).beta(2, 2, 300)
    ours, check = clustered_rate(shares), bootstrap_mean(shares, seed=1)
    assert (check.low, check.high) == pytest.approx((ours.low, ours.high), abs=0.01)
    assert bootstrap_mean(shares, seed=1) == check


@pytest.mark.parametrize(("n", "c", "k"), [(5, 0, 1), (5, 5, 3), (5, 2, 1), (5, 2, 3), (6, 1, 6)])
def test_pass_at_k_counts_subsets(n, c, k):
    """pass@k is the share of all k-subsets of the attempts that hold a resolved one."""
    attempts = [True] * c + [False] * (n - c)
    subsets = list(itertools.combinations(attempts, k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_sign_flips_are_exact_for_few_tasks():
    """Every assignment of signs is looked at: five equal differences give 2/32."""
    assert sign_flips(np.full((5, 1), 0.2), seed=1)[0] == pytest.approx(2 / 32)
    assert sign_flips(np.zeros((4, 1)), seed=1)[0] == 1.0


def test_sign_flips_agree_with_scipy():
    """Drawn p-values lie within their sampling error of scipy's permutation test."""
    differences = np.random.default_rng(8).normal(0.25, 0.6, 30)
    theirs = stats.permutation_test(
        (differences,), lambda x, axis: x.mean(axis=axis), permutation_type="samples",
        n_resamples=5_000, vectorized=True, rng=np.random.default_rng(2),
    ).pvalue  # fmt: skip
    ours = sign_flips(differences[:, None], seed=1)[0]
    assert ours == pytest.approx(theirs, abs=4 * math.sqrt(theirs * (1 - theirs) / 10_000))


def test_many_pairs_are_tested_as_each_alone():
    """Columns do not influence each other; zeros of tasks that a pair does not share change nothing."""
    rng = np.random.default_rng(4)
    block = np.round(rng.normal(0.1, 0.5, (25, 3)), 2)
    block[:5, 1] = 0
    together = sign_flips(block, seed=7, draws=4000)
    alone = [sign_flips(block[:, [i]], seed=7, draws=4000)[0] for i in range(3)]
    assert together == pytest.approx(alone, abs=0.03)


def test_adjustment_of_one_comparison_changes_nothing():
    """A single p-value stays; two are adjusted as Benjamini and Hochberg say: min(2 * 0.01, 0.04)."""
    assert adjusted([0.04]) == pytest.approx([0.04])
    assert adjusted([0.01, 0.04]) == pytest.approx([0.02, 0.04])
    several = np.random.default_rng(1).random(30) ** 3
    assert adjusted(several) == pytest.approx(stats.false_discovery_control(several))
    assert len(adjusted([])) == 0


def cell(old, new):
    return Cell(np.array(old, dtype=float), np.array(new, dtype=float))


def test_label_shuffles_are_exact_when_small():
    """All arrangements by a second, plain implementation, over two bands."""
    cells = [cell([1, 1, 0.5], [0, 0.5]), cell([1, 0], [0, 0, 1])]
    sums = []
    pools = [np.concatenate([c.old, c.new]) for c in cells]
    for first in itertools.combinations(range(5), 3):
        for second in itertools.combinations(range(5), 2):
            total = 0.0
            for pool, chosen in zip(pools, (first, second), strict=True):
                rest = [i for i in range(5) if i not in chosen]
                weight = len(chosen) * len(rest) / 5
                total += weight * (pool[list(chosen)].mean() - pool[rest].mean())
            sums.append(total)
    observed = stratified_sum(cells)
    expected = np.mean([abs(value) >= abs(observed) - 1e-9 for value in sums])
    assert label_shuffles(cells, seed=1) == (pytest.approx(expected), True)


def test_drawn_shuffles_agree_however_they_are_drawn():
    """Counting equal outcomes and shuffling them one by one sample the same distribution."""
    rng = np.random.default_rng(5)
    old, new = rng.integers(0, 6, 40) / 5, rng.integers(0, 5, 50) / 5
    few, _ = label_shuffles([cell(old, new)], seed=1, draws=10_000)
    jitter = rng.normal(0, 1e-7, 90)
    many, exact = label_shuffles([cell(old + jitter[:40], new + jitter[40:])], seed=1, draws=10_000)
    assert not exact
    assert few == pytest.approx(many, abs=0.02)
    theirs = stats.permutation_test(
        (old, new), lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        n_resamples=5_000, vectorized=True, rng=np.random.default_rng(2),
    ).pvalue  # fmt: skip
    assert few == pytest.approx(theirs, abs=0.02)
