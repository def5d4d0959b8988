"""Ranks, intervals, costs and shares of the leaderboard, on runs small enough to work out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from race.cli import run
from race.core.leaderboard import make_leaderboard
from race.core.runs import RunCounts, RunTableBuilder, TaskRow, build_grid


def attempt(task, agent, number, resolved, **more):
    return {
        "instance_id": task, "agent": agent, "model": None, "attempt": number, "resolved": resolved,
        "input_tokens": 100, "cached_input_tokens": 100, "output_tokens": 10, "cost_usd": 0.5,
        "steps": 10, "seconds": 1, "ended": "submitted",
    } | more  # fmt: skip


def board_of(rows, tasks):
    builder = RunTableBuilder()
    builder.add(rows, range(1, len(rows) + 1))
    counts = RunCounts()
    grid = build_grid(builder.table(), tasks, by="entrant", counts=counts)
    return make_leaderboard(grid), counts


TASKS = [TaskRow(f"t{i}", tier=("clean", "hard")[i % 2], project="p") for i in range(4)]


def test_pass_at_1_is_a_mean_over_tasks():
    """A task with many attempts weighs as much as one with few: (1/1 + 0/4) / 2."""
    rows = [attempt("t0", "a", 0, True)] + [attempt("t1", "a", k, False) for k in range(4)]
    board, _ = board_of(rows, TASKS)
    entry = board.entries[0]
    assert (entry.pass_at_1.rate, entry.pass_at_1.n, entry.attempts) == (0.5, 2, 5)
    assert entry.slices["tier"]["clean"].rate == 1.0
    assert entry.slices["tier"]["hard"].rate == 0.0


def test_cost_tokens_steps_and_endings():
    """Means over tasks of the mean attempt; cost per resolved is all cost over all resolved."""
    rows = [
        attempt("t0", "a", 0, True, cost_usd=1.0, steps=4),
        attempt("t0", "a", 1, False, cost_usd=3.0, steps=6, ended="step_limit"),
        attempt("t1", "a", 0, True, cost_usd=0.5, steps=20, ended="timeout"),
        attempt("t1", "a", 1, False, ended="accident"),
    ]
    board, counts = board_of(rows, TASKS)
    entry = board.entries[0]
    assert entry.cost_per_task == pytest.approx((2.0 + 0.5) / 2)
    assert entry.cost_per_resolved == pytest.approx(4.5 / 2)
    assert entry.steps == pytest.approx((5 + 20) / 2)
    assert entry.tokens == pytest.approx(100 + 10 + 30)
    assert entry.ended == pytest.approx({"submitted": 1 / 3, "step_limit": 1 / 3, "timeout": 1 / 3})
    assert (entry.accidents, counts.accidents) == (1, 1)


def test_cost_per_resolved_needs_every_cost():
    """With a run whose cost is not known there is no cost per resolved task."""
    rows = [attempt("t0", "a", 0, True), attempt("t0", "a", 1, True, cost_usd=None)]
    entry = board_of(rows, TASKS)[0].entries[0]
    assert (entry.cost_per_resolved, entry.cost_per_task, entry.cost_known) == (None, 0.5, 1)


def many(agent, chance, seed):
    rng = np.random.default_rng(seed)
    return [attempt(f"t{i}", agent, k, bool(rng.random() < chance)) for i in range(60) for k in range(3)]


def test_agents_that_cannot_be_told_apart_share_a_rank():
    """Two equal agents share first place; a clearly worse one comes third, and its pairs are apart."""
    rows = [*many("a", 0.7, 1), *many("b", 0.7, 2), *many("c", 0.2, 3)]
    board, _ = board_of(rows, [TaskRow(f"t{i}") for i in range(60)])
    assert [(entry.name, entry.rank) for entry in board.entries if entry.name == "c"] == [("c", 3)]
    assert {entry.rank for entry in board.entries if entry.name in "ab"} == {1}
    apart = {(pair.first, pair.second): pair.apart for pair in board.pairs}
    assert apart == {("a", "b"): False, ("a", "c"): True, ("b", "c"): True}


def test_pairs_use_the_tasks_that_both_ran():
    """A task that one of them did not run says nothing about the pair."""
    rows = [
        attempt("t0", "a", 0, True), attempt("t1", "a", 0, True), attempt("t2", "a", 0, False),
        attempt("t1", "b", 0, False), attempt("t3", "b", 0, True),
    ]  # fmt: skip
    (pair,) = board_of(rows, TASKS)[0].pairs
    assert (pair.difference.n, pair.difference.rate) == (1, 1.0)
    assert pair.p == 1.0  # one task: both signs are as far from zero


def test_agents_without_a_common_task_are_not_compared():
    """No common task: no difference, p = 1, same rank."""
    rows = [attempt("t0", "a", 0, True), attempt("t1", "b", 0, False)]
    board, _ = board_of(rows, TASKS)
    assert (board.pairs[0].difference.n, board.pairs[0].p, board.pairs[0].apart) == (0, 1.0, False)
    assert [entry.rank for entry in board.entries] == [1, 1]


def test_one_agent_with_two_models_is_two_entrants():
    """The leaderboard compares agent and model together."""
    rows = [attempt("t0", "a", 0, True, model="m1"), attempt("t0", "a", 0, False, model="m2")]
    assert [entry.name for entry in board_of(rows, TASKS)[0].entries] == ["a + m1", "a + m2"]


def test_scripted_agents_have_no_model():
    """Two scripts stay two entrants, also where models are compared."""
    rows = [attempt("t0", f"scripted/{name}", 0, True, model="scripted") for name in ("a", "b")]
    assert [entry.name for entry in board_of(rows, TASKS)[0].entries] == ["scripted/a", "scripted/b"]


def test_pass_at_k_stops_where_attempts_do():
    """pass@k is told for k that at least half of the tasks have attempts for, with their number."""
    rows = [attempt(f"t{i}", "a", k, k == 1) for i in range(4) for k in range(2 if i else 5)]
    entry = board_of(rows, TASKS)[0].entries[0]
    assert {k: rate.n for k, rate in entry.pass_at.items()} == {1: 4, 2: 4}
    assert entry.pass_at[1].rate == pytest.approx((0.2 + 3 * 0.5) / 4)


def test_the_command_prints_a_table_and_json(tmp_path, capsys):
    """The table names rank, rate with interval and few tasks; JSON holds entries and pairs."""
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"instance_id": "t{i}"}}\n' for i in range(3)))
    rows = [
        attempt(f"t{i}", agent, k, agent == "a") for i in range(3) for agent in "ab" for k in range(2)
    ]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = ["--tasks", str(tmp_path / "tasks.jsonl"), "--runs", str(tmp_path / "runs.jsonl")]
    assert run(["leaderboard", *files]) == 0
    text = capsys.readouterr().out
    assert "* from fewer than 5 tasks" in text
    assert "runs: 12 counted = 12" in text
    assert run(["leaderboard", *files, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in answer["entries"]] == ["a", "b"]
    assert answer["entries"][0]["pass_at_1"]["n"] == 3
    assert answer["pairs"][0]["difference"] == 1.0
    assert answer["input"]["counted"] == 12
