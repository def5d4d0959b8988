"""SOMA's formulas on numbers worked out by hand; each row's arithmetic stands beside it."""

from __future__ import annotations

import math

import pytest

from race.core.soma import (
    DEFAULT,
    PROFILES,
    Profile,
    build_swe_miner_scores,
    build_swe_miner_total_score,
    compute_swe_task_score,
    compute_weighted_tokens,
    score_miner,
    score_task,
)
from race.core.soma.explain import explain_task
from race.errors import UsageError


@pytest.mark.parametrize(
    ("uncached", "cached", "output", "expected"),
    [
        (1000, 500, 100, 1350.0),  # 1*1000 + 0.1*500 + 3*100 = 1000 + 50 + 300
        (60, None, 10, 90.0),  # a missing cached count is 0: 60 + 0 + 30
        (0, 0, 0, 0.0),  # zero is a count, not a missing one
        (None, 5, 5, None),  # input is required
        (5, 5, None, None),  # output is required
        (-1, 5, 5, None),  # a negative count makes the total unknown, whichever it is
        (5, -1, 5, None),
        (5, 5, -1, None),
        (math.nan, 5, 5, None),
        (5, 5, math.inf, None),
    ],
)
def test_weighted_tokens(uncached, cached, output, expected):
    """Tokens weigh 1.0 uncached, 0.1 cached, 3.0 output; without a required count there is no total."""
    found = compute_weighted_tokens(
        input_tokens=uncached, cached_input_tokens=cached, output_tokens=output
    )
    assert found == expected


VECTORS = [
    # x, y, T_B, T_A, n -> pool, zone, r, t, score, boost
    # excluded: x <= 1 and y = 0, whatever the tokens; r = log2(200/100) = 1 is still told
    (0, 0, 200, 100, 5, "excluded", "none", 1.0, 0, None, None),
    (1, 0, 200, 100, 5, "excluded", "none", 1.0, 0, None, None),
    # hard, maintain: x = y = 1, score = r = log2(400/100) = 2
    (1, 1, 400, 100, 5, "hard_boost", "maintain", 2.0, 0, 2.0, 2.0),
    # hard, maintain with worse tokens: r = log2(100/200) = -1; the boost is max(0, -1) = 0
    (1, 1, 100, 200, 5, "hard_boost", "maintain", -1.0, 0, -1.0, 0.0),
    # hard, bonus: r = 0 (no resolved baseline, so no T_B); 0 + (2-0)/(5-0) = 0.4
    (0, 2, None, 100, 5, "hard_boost", "bonus", 0.0, 0, 0.4, 0.4),
    # hard, bonus: r = 1; 1 + (4-1)/(5-1) = 1.75
    (1, 4, 200, 100, 5, "hard_boost", "bonus", 1.0, 0, 1.75, 1.75),
    # hard, bonus at the top: r = 2 (16 times fewer, clamped from 4); 2 + (5-0)/(5-0) = 3
    (0, 5, 1600, 100, 5, "hard_boost", "bonus", 2.0, 0, 3.0, 3.0),
    # hard, bonus that stays negative: r = -2; -2 + 1/5 = -1.8; the boost is 0
    (0, 1, 100, 1600, 5, "hard_boost", "bonus", -2.0, 0, -1.8, 0.0),
    # penalty: x = 5, t = floor(4.0) = 4, y = 2: -2 - 2(1 - 2/4) = -3
    (5, 2, 100, 100, 5, "main", "penalty", 0.0, 4, -3.0, None),
    # penalty at the floor: y = 0: -2 - 2(1 - 0) = -4; tokens do not matter here
    (5, 0, 400, 100, 5, "main", "penalty", 2.0, 4, -4.0, None),
    # penalty near the ceiling: x = 10, t = 8, y = 7: -2 - 2(1 - 7/8) = -2.25
    (10, 7, 100, 100, 10, "main", "penalty", 0.0, 8, -2.25, None),
    # smallest main task: x = 2, t = floor(1.6) = 1, y = 0 -> -2 - 2(1 - 0/1) = -4
    (2, 0, 100, 100, 5, "main", "penalty", 0.0, 1, -4.0, None),
    # maintain at the threshold: x = 5, y = t = 4: r = log2(300/100) = log2 3
    (5, 4, 300, 100, 5, "main", "maintain", math.log2(3), 4, math.log2(3), None),
    # maintain at x: y = x = 3, t = floor(2.4) = 2: r = log2(100/800) = -3, clamped to -2
    (3, 3, 100, 800, 5, "main", "maintain", -2.0, 2, -2.0, None),
    # maintain below x: x = 4, t = floor(3.2) = 3, y = 3
    (4, 3, 100, 200, 5, "main", "maintain", -1.0, 3, -1.0, None),
    # bonus: x = 3, y = 4, n = 5: 0.5 + (4-3)/(5-3) = 1.0, r = log2(sqrt 2) = 0.5
    (3, 4, 100 * math.sqrt(2), 100, 5, "main", "bonus", 0.5, 2, 1.0, None),
    # bonus at the cap: r = 2, (5-4)/(5-4) = 1: 3
    (4, 5, 900, 100, 5, "main", "bonus", 2.0, 3, 3.0, None),
    # bonus at the worst: r = -2, (3-2)/(5-2) = 1/3: -5/3, above the floor of -2
    (2, 3, 100, 900, 5, "main", "bonus", -2.0, 1, -2 + 1 / 3, None),
    # n below y is raised to y: x = 2, y = 6, n = 3 -> 6: 0 + (6-2)/(6-2) = 1
    (2, 6, 100, 100, 3, "main", "bonus", 0.0, 1, 1.0, None),
    # n = 0 is raised to max(x, y, 1): x = 0, y = 1 -> n = 1: 0 + 1/1 = 1
    (0, 1, None, 100, 0, "hard_boost", "bonus", 0.0, 0, 1.0, 1.0),
    # tokens that say nothing give r = 0: T_A missing, T_A zero, T_B negative
    (5, 5, 100, None, 5, "main", "maintain", 0.0, 4, 0.0, None),
    (5, 5, 100, 0, 5, "main", "maintain", 0.0, 4, 0.0, None),
    (5, 5, -100, 50, 5, "main", "maintain", 0.0, 4, 0.0, None),
    # the quotient may not overflow or vanish: 1e308 / 1e-308 -> +2, 1e-308 / 1e308 -> -2
    (5, 5, 1e308, 1e-308, 5, "main", "maintain", 2.0, 4, 2.0, None),
    (5, 5, 1e-308, 1e308, 5, "main", "maintain", -2.0, 4, -2.0, None),
]


@pytest.mark.parametrize("vector", VECTORS)
def test_task_score_by_hand(vector):
    """Every branch of the task score gives what the arithmetic beside it gives."""
    x, y, before, after, n, pool, zone, r, threshold, score, boost = vector
    found = compute_swe_task_score(x, y, before, after, task_run_count=n)
    assert (found["pool"], found["zone"], found["threshold"]) == (pool, zone, threshold)
    assert found["r"] == pytest.approx(r, abs=1e-12)
    assert found["score"] == (None if score is None else pytest.approx(score, abs=1e-12))
    expected = None if boost is None else pytest.approx(boost, abs=1e-12)
    assert found["hard_boost_contribution"] == expected
    assert set(found) == {
        "score", "zone", "pool", "r", "threshold", "hard_boost_contribution",
    }  # fmt: skip


@pytest.mark.parametrize("vector", VECTORS)
def test_explained_steps_end_at_the_score(vector):
    """The last number of the printed arithmetic is the score, in every branch."""
    x, y, before, after, n, *_, score, _ = vector
    lines = explain_task("t", "m", score_task(x, y, before, after, n=n), DEFAULT)
    (told,) = [line for line in lines if line.startswith("  score = ")]
    if score is None:
        assert "takes no part" in told
    else:
        assert float(told.split()[-1]) == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("counts", [(-1, 0, 5), (0, -1, 5), (0, 0, -5)])
def test_negative_counts_are_refused(counts):
    """A negative count is an error, not a score."""
    x, y, n = counts
    with pytest.raises(UsageError, match="negative"):
        compute_swe_task_score(x, y, 1, 1, task_run_count=n)


def test_threshold_is_whole_number_arithmetic():
    """floor(0.8 x) does not fall one short where 0.8 has no exact binary form."""
    assert [DEFAULT.threshold(x) for x in range(0, 16)] == [
        0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12,
    ]  # fmt: skip
    assert all(DEFAULT.threshold(5 * k) == 4 * k for k in range(2000))


def run(resolved, tokens=None, **more):
    counts = {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 0}
    return {"resolved": resolved, **counts, **more}


def group(baseline, miner):
    return {
        "baseline_runs": dict(enumerate(baseline)),
        "runs": [
            {
                "pass_with_compression": r["resolved"],
                "weighted_tokens_with_compression": r["input_tokens"],
            }
            for r in miner
        ],
    }


def test_miner_scores_by_hand():
    """Main score, hard boost and total of a miner with one task in each pool."""
    groups = {
        # x = 5, T_B = 400, T_A = 100: maintain, s = 2, weight 5^(1/3) = 1.709976
        "a": group([run(True, 400)] * 5, [run(True, 100)] * 5),
        # x = 2 of 5, y = 0, t = 1: s = -4, weight 2^(1/3) = 1.259921
        "b": group([run(True, 100)] * 2 + [run(False, 900)] * 3, [run(False, 100)] * 5),
        # x = 0, y = 5 of 5: no T_B, r = 0; 0 + 5/5 = 1
        "c": group([run(False, 100)] * 5, [run(True, 100)] * 5),
        # x = 1, y = 0: excluded
        "d": group([run(True, 100)] + [run(False)] * 4, [run(False, 100)] * 5),
    }
    main, boost, tasks = build_swe_miner_scores(groups)
    # (2*1.709976 - 4*1.259921) / (1.709976 + 1.259921) = -1.619732 / 2.969897 = -0.545383
    assert main == pytest.approx(-0.5453832, abs=1e-6)
    # one hard contribution of 1 over 2 main + 1 hard tasks
    assert boost == pytest.approx(1 / 3)
    assert [tasks[name]["pool"] for name in "abcd"] == ["main", "main", "hard_boost", "excluded"]
    assert (tasks["b"]["x"], tasks["b"]["y"], tasks["b"]["task_run_count"]) == (2, 0, 5)
    # T_B of b counts resolved baseline runs alone
    assert tasks["b"]["tokens_without_compression"] == 100
    total, same = build_swe_miner_total_score(groups)
    # (2*(-0.545383 + 0.333333) + 1) / 7 = 0.5759 / 7 = 0.082271
    assert total == pytest.approx(0.0822715, abs=1e-6)
    assert same == tasks


def test_totals_end_at_one():
    """The raw total is clamped to [-4, 3] and scaled to [-1, 1]; raw 0 is 1/7."""
    assert DEFAULT.total(-4, 0) == -1
    assert DEFAULT.total(3, 2) == 1  # main 3 and boost 2 are 5, clamped to 3: (6+1)/7
    assert DEFAULT.total(0, 0) == pytest.approx(1 / 7)


def test_no_scored_task_is_no_score():
    """A miner whose tasks are all excluded has no score, which is not a score of 0 (or of 1/7)."""
    nothing = {"a": group([run(False)] * 3, [run(False)] * 3)}
    assert build_swe_miner_scores(nothing)[:2] == (None, None)
    assert build_swe_miner_total_score(nothing)[0] is None
    assert build_swe_miner_scores({}) == (None, None, {})


def test_only_hard_tasks_give_a_main_score_of_zero():
    """Without a main task the main score is 0 and the boost is the mean of the contributions."""
    scores = {"a": score_task(0, 5, None, 100, n=5), "b": score_task(1, 1, 100, 400, n=5)}
    miner = score_miner(scores, {})
    # a: 0 + 5/5 = 1; b: r = log2(1/4) = -2, contributes 0; boost (1 + 0) / 2
    assert (miner.main_score, miner.hard_boost) == (0.0, 0.5)
    # (2 * 0.5 + 1) / 7
    assert miner.total == pytest.approx(2 / 7)


def test_mean_tokens_skip_what_is_not_valid():
    """T_B takes resolved baseline runs with valid counts, T_A miner runs with positive ones."""
    groups = {
        "a": group(
            # valid and resolved: 100 and 300 -> mean 200; None is invalid, 9999 is not resolved
            [run(True, 100), run(True, 300), run(True, None), run(False, 9999)],
            # valid and positive: 50 and 150 -> mean 100; 0 and None do not count, unresolved ones do
            [run(True, 50), run(False, 150), run(True, 0), run(True, None)],
        )
    }
    task = build_swe_miner_scores(groups)[2]["a"]
    assert task["tokens_without_compression"] == 200
    assert task["tokens_with_compression"] == 100
    assert (task["x"], task["y"], task["task_run_count"]) == (3, 3, 4)


def test_group_scores_are_totals_of_their_tasks():
    """Each complexity group's score is the total over its tasks alone; a group without one has none."""
    scores = {
        "a": score_task(5, 5, 400, 100, n=5),  # s = 2
        "b": score_task(5, 0, 100, 100, n=5),  # s = -4
        "c": score_task(5, 5, 200, 100, n=5),  # s = 1, unclassified
    }
    miner = score_miner(scores, {"a": "short", "b": "medium", "c": "whatever"})
    assert miner.groups == {"short": pytest.approx(5 / 7), "medium": -1.0, "long": None}
    # equal weights: (2 - 4 + 1)/3 = -1/3; (2 * -1/3 + 1) / 7 = 1/21
    assert miner.total == pytest.approx(1 / 21)


def test_a_broken_group_names_its_task():
    """An input that does not fit says which task it is in."""
    with pytest.raises(UsageError, match="task 17: no 'runs'"):
        build_swe_miner_scores({17: {"baseline_runs": {}}})


def test_the_default_profile_is_named_and_listed():
    """Constants come from one profile that can be asked for by name."""
    assert PROFILES["soma-swe-1"] is DEFAULT
    assert sum(weight for _, weight in DEFAULT.layers) == pytest.approx(1)


class NaturalLog(Profile):
    """An earlier version of the rules: the natural logarithm, and a threshold of at least 1."""

    def threshold(self, x):
        return max(1, super().threshold(x))


def test_another_version_of_the_rules_needs_no_change_of_callers():
    """A second profile goes through the same scorer, aggregation and explanation."""
    earlier = NaturalLog(name="soma-swe-0", source="test", log_base=math.e, bonus_cap=2.5)
    task = score_task(5, 5, 200, 100, n=5, profile=earlier)
    assert task.score == pytest.approx(math.log(2))
    assert score_task(4, 5, 900, 100, n=5, profile=earlier).score == 2.5
    assert score_miner({"t": task}, {}, profile=earlier).total == pytest.approx(
        (2 * math.log(2) + 4 - 2.5) / 6.5
    )
    told = "\n".join(explain_task("t", "m", task, earlier))
    assert "profile soma-swe-0" in told
    assert "r = clamp(ln(200 / 100), -2, 2) = 0.693147" in told
