"""`race score` against a second, plain implementation of the rules, on random runs with everything wrong
in them that may be wrong."""

from __future__ import annotations

import json
import math
import random
from itertools import combinations

import pytest

from race.cli import run

GROUPS = ("short", "medium", "long")


def make(seed):
    """Tasks and runs: accidents, repeats, unknown tasks, missing and negative tokens, gaps."""
    rng = random.Random(seed)
    tasks = [
        {"instance_id": f"t{i}", "complexity": rng.choice([*GROUPS, "odd", None]),
         "repeats": rng.choice([None, 3, 5, 8])}
        for i in range(9)
    ]  # fmt: skip
    rows = []
    for task in [*tasks, {"instance_id": "stranger"}]:
        for agent in ("base", "m1", "m2", "m3"):
            if rng.random() < 0.12:
                continue
            for attempt in range(rng.randint(1, 5)):
                rows.append({
                    "instance_id": task["instance_id"], "agent": agent, "model": None,
                    "attempt": attempt, "resolved": rng.random() < 0.55,
                    "input_tokens": rng.choice([None, -3, 0, *[rng.randint(1, 9999)] * 9]),
                    "cached_input_tokens": rng.choice([None, rng.randint(0, 9999), -1]),
                    "output_tokens": rng.randint(0, 999),
                    "ended": "accident" if rng.random() < 0.08 else "submitted",
                })  # fmt: skip
    rows += rng.sample(rows, 3)
    rng.shuffle(rows)
    return tasks, rows


def weigh(row):
    counts = row["input_tokens"], row["cached_input_tokens"] or 0, row["output_tokens"]
    if None in counts or min(counts) < 0:
        return None
    return counts[0] + 0.1 * counts[1] + 3 * counts[2]


def mean(values):
    return sum(values) / len(values) if values else None


def score_of(x, y, n, before, after):
    n = max(n, x, y, 1)
    r = 0.0
    if before and after and before > 0 and after > 0:
        r = min(2.0, max(-2.0, math.log2(before / after)))
    bonus = min(3.0, max(-2.0, r + (y - x) / (n - x))) if n > x else None
    if x <= 1:
        if y == 0:
            return "excluded", None
        return "hard_boost", r if (x, y) == (1, 1) else bonus
    t = (8 * x) // 10
    if y < t:
        return "main", min(-2.0, max(-4.0, -2 - 2 * (1 - y / t)))
    return "main", r if y <= x else bonus


def total_of(scores):
    main = [(s, x ** (1 / 3)) for pool, s, x in scores if pool == "main"]
    hard = [max(0.0, s) for pool, s, _ in scores if pool == "hard_boost"]
    if not main and not hard:
        return None
    raw = sum(s * w for s, w in main) / sum(w for _, w in main) if main else 0.0
    raw += sum(hard) / (len(main) + len(hard))
    return (2 * min(3.0, max(-4.0, raw)) + 1) / 7


def expected(tasks, rows):
    """Everything by loops over plain dictionaries."""
    unique = {json.dumps(row, sort_keys=True): row for row in rows}.values()
    good = [row for row in unique if row["ended"] != "accident"]
    miners = {}
    for miner in sorted({row["agent"] for row in unique} - {"base"}):
        scores = {}
        for task in tasks:
            name = task["instance_id"]
            base = [row for row in good if (row["agent"], row["instance_id"]) == ("base", name)]
            own = [row for row in good if (row["agent"], row["instance_id"]) == (miner, name)]
            if not base or not own:
                continue
            x, y = (sum(row["resolved"] for row in side) for side in (base, own))
            before = mean([w for row in base if row["resolved"] and (w := weigh(row)) is not None])
            after = mean([w for row in own if (w := weigh(row)) is not None and w > 0])
            n = task["repeats"] or max(len(base), len(own))
            scores[name] = (*score_of(x, y, n, before, after), x)
        of_group = {
            group: total_of(
                [scores[t["instance_id"]] for t in tasks
                 if t["complexity"] == group and t["instance_id"] in scores]
            )
            for group in GROUPS
        }  # fmt: skip
        miners[miner] = (scores, total_of(list(scores.values())), of_group)
    return miners, shares_of(miners, {t["complexity"] for t in tasks})


def shares_of(miners, complexities):
    present = [group for group in GROUPS if group in complexities]
    layers = {3: 0.25, 2: 0.45, 1: 0.30}
    whole = sum(weight for size, weight in layers.items() if size <= len(present))
    won = dict.fromkeys(miners, 0.0)
    for size, weight in layers.items():
        sets = list(combinations(present, size))
        for groups in sets:
            marks = {
                name: mean([of_group[g] for g in groups])
                for name, (_, _, of_group) in miners.items()
                if all(of_group[g] is not None for g in groups)
            }
            best = [name for name in marks if marks[name] > max(marks.values()) - 1e-12]
            for name in best:
                won[name] += weight / whole / len(sets) / len(best)
    handed = sum(won.values())
    return {name: weight / handed if handed else 0.0 for name, weight in won.items()}


@pytest.mark.parametrize("seed", range(12))
def test_two_implementations_agree(tmp_path, capsys, seed):
    """Scores of tasks, totals, groups and shares are the same to rounding."""
    tasks, rows = make(seed)
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = ["--tasks", str(tmp_path / "tasks.jsonl"), "--runs", str(tmp_path / "runs.jsonl")]
    assert run(["score", *files, "--baseline", "base", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    miners, shares = expected(tasks, rows)
    assert set(answer["miners"]) == set(miners)
    for name, (scores, total, of_group) in miners.items():
        found = answer["miners"][name]
        told = {k: (v["pool"], v["score"], v["x"]) for k, v in found["tasks"].items() if "note" not in v}
        assert set(told) == set(scores)
        for task, (pool, score, x) in scores.items():
            assert told[task][::2] == (pool, x)
            assert told[task][1] == (None if score is None else pytest.approx(score, abs=1e-12))
        assert found["total"] == pytest.approx(total, abs=1e-12)
        for group, mark in of_group.items():
            assert found["groups"][group] == (None if mark is None else pytest.approx(mark, abs=1e-12))
        assert found["weight"] == pytest.approx(shares[name], abs=1e-12)
    counts = answer["input"]
    parts = ("counted", "accidents", "duplicates", "unknown_task", "half_written")
    assert counts["rows"] == len(rows) == sum(counts[part] for part in parts)
