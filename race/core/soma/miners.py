"""One miner over its tasks: main score, hard boost, total, and the total of each complexity group."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from race.core.soma.profile import DEFAULT, Profile
from race.core.soma.task_score import TaskScore, compute_weighted_tokens, score_task
from race.errors import UsageError

GROUPS = ("short", "medium", "long")


@dataclass(frozen=True)
class MinerScore:
    """A miner's scores. All three numbers are None when it has no scored task, which is not 0."""

    tasks: Mapping[str, TaskScore]
    main_score: float | None
    hard_boost: float | None
    total: float | None
    groups: Mapping[str, float | None]


def _aggregate(scores: Iterable[TaskScore], profile: Profile) -> tuple[float | None, float | None]:
    """Main score and hard boost; sums are exact, so that the order of tasks does not matter."""
    main: list[tuple[float, float]] = []
    boosts: list[float] = []
    for task in scores:
        if task.pool == "main" and task.score is not None:
            main.append((task.score, profile.task_weight(task.x)))
        elif task.pool == "hard_boost" and task.hard_boost_contribution is not None:
            boosts.append(task.hard_boost_contribution)
    if not main and not boosts:
        return None, None
    main_score = 0.0
    if main:
        main_score = math.fsum(s * w for s, w in main) / math.fsum(w for _, w in main)
    return main_score, math.fsum(boosts) / (len(main) + len(boosts))


def _total(scores: Iterable[TaskScore], profile: Profile) -> float | None:
    main_score, hard_boost = _aggregate(scores, profile)
    if main_score is None or hard_boost is None:
        return None
    return profile.total(main_score, hard_boost)


def score_miner(
    tasks: Mapping[str, TaskScore], complexity: Mapping[str, str | None], *, profile: Profile = DEFAULT
) -> MinerScore:
    """Aggregate a miner's tasks; a task whose complexity is no group counts in the total alone."""
    main_score, hard_boost = _aggregate(tasks.values(), profile)
    total = _total(tasks.values(), profile)
    groups = {
        group: _total((s for name, s in tasks.items() if complexity.get(name) == group), profile)
        for group in GROUPS
    }
    return MinerScore(tasks, main_score, hard_boost, total, groups)


def score_group(name: Hashable, group: Mapping[str, Any], *, profile: Profile = DEFAULT) -> TaskScore:
    """One task group in the reference's shape, scored.

    `baseline_runs` is a mapping (or list) of runs with `resolved` and the three token counts; `runs` is
    a list of runs with `pass_with_compression` (or `resolved`) and `weighted_tokens_with_compression`
    (or the three counts). n is `planned_repeats` or `repeats`, else the larger number of runs.
    Raises UsageError, naming the task, for what does not fit.
    """
    try:
        given = group["baseline_runs"]
        baseline = list(given.values()) if isinstance(given, Mapping) else list(given)
        runs = list(group["runs"])
        won = [run for run in baseline if run["resolved"] is True]
        spent = [_tokens(run, "", profile) for run in won]
        used = [_tokens(run, "_with_compression", profile) for run in runs]
        y = sum(1 for run in runs if run.get("pass_with_compression", run.get("resolved")) is True)
        planned = group.get("planned_repeats", group.get("repeats"))
        n = max(len(baseline), len(runs)) if planned is None else int(planned)
        return score_task(
            len(won),
            y,
            _mean([value for value in spent if value is not None]),
            _mean([value for value in used if value is not None and value > 0]),
            n=n,
            profile=profile,
        )
    except (KeyError, TypeError, AttributeError, ValueError, UsageError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"task {name}: {what}") from error


def _tokens(run: Mapping[str, Any], suffix: str, profile: Profile) -> float | None:
    weighted = run.get(f"weighted_tokens{suffix}") if suffix else None
    if weighted is not None:
        return float(weighted)
    counts = {
        name: run.get(f"{name}{suffix}", run.get(name))
        for name in ("input_tokens", "cached_input_tokens", "output_tokens")
    }
    return compute_weighted_tokens(profile=profile, **counts)


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


TaskGroups = Mapping[Any, Mapping[str, Any]]


def build_swe_miner_scores(
    task_groups: TaskGroups,
) -> tuple[float | None, float | None, dict[Any, dict[str, object]]]:
    """The reference's call: (main_score, hard_boost, task_scores), None when nothing is scored."""
    scored = {name: score_group(name, group) for name, group in task_groups.items()}
    main_score, hard_boost = _aggregate(scored.values(), DEFAULT)
    return main_score, hard_boost, {name: _reference_row(task) for name, task in scored.items()}


def _reference_row(task: TaskScore) -> dict[str, object]:
    weight = {"main": DEFAULT.task_weight(task.x), "hard_boost": 1.0, "excluded": None}[task.pool]
    return {**task.as_json(), "task_run_count": task.n, "weight": weight}


def build_swe_miner_total_score(
    task_groups: TaskGroups,
) -> tuple[float | None, dict[Any, dict[str, object]]]:
    """The reference's call: (total in [-1, 1] or None, task_scores)."""
    main_score, hard_boost, rows = build_swe_miner_scores(task_groups)
    if main_score is None or hard_boost is None:
        return None, rows
    return DEFAULT.total(main_score, hard_boost), rows
