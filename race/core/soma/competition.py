"""All miners of a competition scored against one baseline, from a grid of counted runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from race.core.runs.grid import Grid
from race.core.soma.contests import Contests, hold_contests
from race.core.soma.miners import GROUPS, MinerScore, score_miner
from race.core.soma.profile import DEFAULT, Profile
from race.core.soma.task_score import TaskScore, score_task, unscored
from race.errors import UsageError

NO_BASELINE = "no baseline run counts, so there is nothing to compare with"


@dataclass(frozen=True)
class Remarks:
    """What the rules for imperfect input did to tasks; ids are sorted."""

    without_baseline: tuple[str, ...]
    """Tasks with miner runs and no baseline run: not scored."""
    without_runs: tuple[str, ...]
    """Listed tasks that nobody ran."""
    repeats_exceeded: tuple[str, ...]
    """Tasks with more runs than planned repeats: n is raised to max(x, y, 1), as the reference does."""
    unclassified: tuple[str, ...]
    """Scored tasks that are in no complexity group: they count in totals, in no contest."""
    not_attempted: Mapping[str, int]
    """Miner -> tasks with a baseline that it has no counted run of: not scored for that miner."""

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "without_baseline": list(self.without_baseline),
            "without_runs": list(self.without_runs),
            "repeats_exceeded": list(self.repeats_exceeded),
            "unclassified": list(self.unclassified),
            "not_attempted": dict(self.not_attempted),
        }


@dataclass(frozen=True)
class Competition:
    """Scores of all miners and the contests between them."""

    profile: Profile
    baseline: str
    miners: Mapping[str, MinerScore]
    contests: Contests
    remarks: Remarks

    def as_json(self) -> dict[str, Any]:
        """As the command line documents it, with shares as `weight`."""
        return {
            "profile": self.profile.name,
            "baseline": self.baseline,
            "miners": {
                name: {
                    "tasks": {task: score.as_json() for task, score in miner.tasks.items()},
                    "main_score": miner.main_score,
                    "hard_boost": miner.hard_boost,
                    "total": miner.total,
                    "groups": dict(miner.groups),
                    "weight": self.contests.shares[name],
                }
                for name, miner in self.miners.items()
            },
            "layers": [
                {
                    "layer_weight": layer.layer_weight,
                    "sets": [
                        {
                            "groups": list(contest.groups),
                            "weight": contest.weight,
                            "scores": dict(contest.scores),
                            "winners": list(contest.winners),
                        }
                        for contest in layer.sets
                    ],
                }
                for layer in self.contests.layers
            ],
            "burned": self.contests.burned,
            "remarks": self.remarks.as_json(),
        }


def score_competition(
    grid: Grid, baseline: str, *, burn_ratio: float = 0.0, profile: Profile = DEFAULT
) -> Competition:
    """Score every entrant but the baseline. n is the planned repeats, else the larger count of runs.

    Raises UsageError when the baseline has no run at all, naming the nearest agent that has.
    """
    if baseline not in grid.entrants:
        close = difflib.get_close_matches(baseline, grid.entrants, n=1, cutoff=0.4)
        nearest = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"no run of the baseline {baseline!r}{nearest}")
    base = grid.entrants.index(baseline)
    spent = _means(grid.tokens_resolved[:, base].tolist(), grid.tokens_resolved_n[:, base].tolist())
    x, of_base = grid.resolved[:, base].tolist(), grid.attempts[:, base].tolist()
    complexity = {task.instance_id: task.complexity for task in grid.tasks}
    miners: dict[str, MinerScore] = {}
    exceeded: set[str] = set()
    for column, name in enumerate(grid.entrants):
        if column == base:
            continue
        y, runs = grid.resolved[:, column].tolist(), grid.attempts[:, column].tolist()
        used = _means(grid.tokens[:, column].tolist(), grid.tokens_n[:, column].tolist())
        tasks: dict[str, TaskScore] = {}
        for i, task in enumerate(grid.tasks):
            if not runs[i]:
                continue
            planned = task.repeats
            if planned is not None and planned < max(of_base[i], runs[i]):
                exceeded.add(task.instance_id)
            n = max(of_base[i], runs[i]) if planned is None else planned
            if not of_base[i]:
                tasks[task.instance_id] = unscored(0, y[i], n, NO_BASELINE)
            else:
                tasks[task.instance_id] = score_task(x[i], y[i], spent[i], used[i], n=n, profile=profile)
        miners[name] = score_miner(tasks, complexity, profile=profile)
    present = [group for group in GROUPS if group in set(complexity.values())]
    contests = hold_contests(
        {name: miner.groups for name, miner in miners.items()},
        {name: miner.total for name, miner in miners.items()},
        present,
        burn_ratio=burn_ratio,
        profile=profile,
    )
    return Competition(profile, baseline, miners, contests, _remarks(grid, base, exceeded))


def _means(sums: list[float], counts: list[int]) -> list[float | None]:
    return [total / n if n else None for total, n in zip(sums, counts, strict=True)]


def _remarks(grid: Grid, base: int, exceeded: set[str]) -> Remarks:
    has_base = grid.attempts[:, base] > 0
    ran = grid.attempts.sum(axis=1) > 0
    names = [task.instance_id for task in grid.tasks]
    return Remarks(
        without_baseline=tuple(n for n, b, r in zip(names, has_base, ran, strict=True) if r and not b),
        without_runs=tuple(n for n, r in zip(names, ran, strict=True) if not r),
        repeats_exceeded=tuple(sorted(exceeded)),
        unclassified=tuple(
            task.instance_id
            for task, r in zip(grid.tasks, ran, strict=True)
            if r and task.complexity not in GROUPS
        ),
        not_attempted={
            name: missing
            for column, name in enumerate(grid.entrants)
            if column != base and (missing := int((has_base & (grid.attempts[:, column] == 0)).sum()))
        },
    )
