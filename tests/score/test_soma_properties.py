"""What must hold for every input, not only for the worked examples."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from race.core.runs import RunCounts, RunTableBuilder, TaskRow, build_grid, read_task
from race.core.soma import GROUPS, hold_contests, score_miner, score_task
from race.core.soma.competition import score_competition
from race.errors import UsageError

COUNTS = st.integers(0, 12)
TOKENS = st.one_of(st.none(), st.floats(0, 1e9), st.floats(1, 1e6))


@settings(max_examples=40)
@given(COUNTS, COUNTS, TOKENS, TOKENS, COUNTS)
def test_scores_stay_in_their_bounds(x, y, before, after, n):
    """A score lies in [-4, 3], r in [-2, 2], a contribution in [0, 3], for any counts and tokens."""
    task = score_task(x, y, before, after, n=n)
    assert -2 <= task.r <= 2
    assert task.score is None or -4 <= task.score <= 3
    assert (task.score is None) == (task.pool == "excluded") == (x <= 1 and y == 0)
    assert (task.hard_boost_contribution is not None) == (task.pool == "hard_boost")
    assert task.hard_boost_contribution is None or 0 <= task.hard_boost_contribution <= 3


@settings(max_examples=40)
@given(st.integers(2, 12), st.integers(0, 11), TOKENS, TOKENS, st.integers(12, 20))
def test_one_more_success_never_costs(x, y, before, after, n):
    """On a main task the score never falls when y rises."""
    less, more = (score_task(x, value, before, after, n=n) for value in (y, y + 1))
    assert less.score <= more.score + 1e-12


@settings(max_examples=40)
@given(st.integers(2, 12), COUNTS, st.floats(1, 1e6), st.floats(1, 1e6), st.floats(1, 10))
def test_fewer_tokens_never_cost(x, y, before, after, factor):
    """With the same counts, spending less never lowers a score."""
    lean = score_task(x, y, before, after / factor, n=12)
    fat = score_task(x, y, before, after, n=12)
    assert lean.score >= fat.score - 1e-12


def random_runs(seed, tasks=6, agents=("base", "m1", "m2")):
    rng = np.random.default_rng(seed)
    return [
        {
            "instance_id": f"t{task}",
            "agent": agent,
            "model": None,
            "attempt": attempt,
            "resolved": bool(rng.random() < 0.5),
            "input_tokens": int(rng.integers(0, 10_000)),
            "cached_input_tokens": int(rng.integers(0, 9_999)),
            "output_tokens": int(rng.integers(0, 999)),
        }
        for task in range(tasks)
        for agent in agents
        for attempt in range(4)
        if rng.random() < 0.8
    ]


def competition(rows, complexity):
    builder = RunTableBuilder()
    builder.add(rows, range(1, len(rows) + 1))
    tasks = [TaskRow(name, complexity=group) for name, group in complexity.items()]
    grid = build_grid(builder.table(), tasks, by="agent", counts=RunCounts())
    return score_competition(grid, "base")


GROUPED = {f"t{i}": (*GROUPS, None)[i % 4] for i in range(6)}


@settings(max_examples=20)
@given(st.integers(0, 200), st.randoms(use_true_random=False))
def test_the_order_of_rows_is_irrelevant(seed, random):
    """Shuffled rows give the same numbers to the last bit."""
    rows = [*random_runs(seed), random_runs(0)[0] | {"agent": "base", "attempt": 99}]
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert competition(rows, GROUPED).as_json() == competition(shuffled, GROUPED).as_json()


@settings(max_examples=20)
@given(st.integers(0, 200))
def test_an_unclassified_task_changes_no_contest(seed):
    """Adding a task without a group moves totals, but no layer and no share."""
    rows = [*random_runs(seed), {**random_runs(1)[0], "agent": "base", "attempt": 98}]
    without = [row for row in rows if row["instance_id"] != "t3"]
    smaller = competition(without, {k: v for k, v in GROUPED.items() if k != "t3"})
    larger = competition(rows, GROUPED)
    if set(smaller.miners) == set(larger.miners):
        assert smaller.contests == larger.contests


MAYBE = st.one_of(st.none(), st.floats(-1, 1))


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from("abcde"), st.fixed_dictionaries(dict.fromkeys(GROUPS, MAYBE)), min_size=1
    ),
    st.sets(st.sampled_from(GROUPS)),
    st.floats(0, 1),
)
def test_shares_and_burn_sum_to_one(groups_of, present, burn):
    """Nothing gets lost between contests: shares plus what is burned are one, layer weights are one."""
    totals = {miner: groups["short"] for miner, groups in groups_of.items()}
    found = hold_contests(groups_of, totals, tuple(present), burn_ratio=burn)
    assert math.fsum(found.shares.values()) + found.burned == pytest.approx(1)
    assert math.fsum(layer.layer_weight for layer in found.layers) == pytest.approx(1)
    for layer in found.layers:
        assert math.fsum(s.weight for s in layer.sets) == pytest.approx(layer.layer_weight)


@settings(max_examples=40)
@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=8))
def test_totals_stay_between_minus_one_and_one(counts):
    """A miner's total lies in [-1, 1], or there is none."""
    scores = {str(i): score_task(x, y, 100, 90, n=12) for i, (x, y) in enumerate(counts)}
    total = score_miner(scores, {}).total
    assert total is None or -1 <= total <= 1
    assert (total is None) == all(score.score is None for score in scores.values())


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.just([]),
    st.just({}),
    st.sampled_from(["", " ", "a", "1", "NaN", "t0", "2026-01-01", "accident", "\x00", "@@ -1 +1 @@"]),
)
FIELDS = (
    "instance_id", "agent", "model", "attempt", "resolved", "input_tokens", "cached_input_tokens",
    "output_tokens", "cost_usd", "steps", "seconds", "ended",
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), ANYTHING), min_size=1, max_size=3))
def test_any_row_is_read_or_refused(changes):
    """Whatever stands in a field, a row is counted or refused with its place; nothing else happens."""
    good = {"instance_id": "t0", "agent": "base", "resolved": True}
    rows = [good | change for change in changes]
    try:
        found = competition([*rows, good], {"t0": "short"})
    except UsageError:
        return
    assert 0 <= found.contests.burned <= 1


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from((
    "instance_id", "repeats", "complexity", "merged_at", "created_at", "fix_lines", "patch", "tier",
    "kind", "project", "repo", "members",
)), ANYTHING))  # fmt: skip
def test_any_task_row_is_read_or_refused(row):
    """A task row gives a task or a usage error, whatever stands in it."""
    with contextlib.suppress(UsageError):
        assert read_task({"instance_id": "t"} | row).instance_id
