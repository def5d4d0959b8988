"""One task's score as arithmetic that a person can follow with a pocket calculator."""

from __future__ import annotations

from race.core.soma.profile import Profile
from race.core.soma.task_score import TaskScore


def explain_task(instance_id: str, miner: str, task: TaskScore, profile: Profile) -> list[str]:
    """The steps from counts and tokens to the score, each with its numbers filled in."""
    lines = [f"{instance_id}, {miner} against the baseline (profile {profile.name})"]
    lines.append(
        f"  x = {task.x} resolved baseline runs, y = {task.y} resolved miner runs, n = {task.n} runs"
    )
    if task.note:
        return [*lines, f"  not scored: {task.note}"]
    lines += _tokens(task, profile)
    lines.append(
        f"  t = floor({float(profile.quality_share):g} * x) = "
        f"floor({float(profile.quality_share * task.x):g}) = {task.threshold}"
    )
    lines.append(f"  pool {task.pool}, zone {task.zone}: {_why(task, profile)}")
    lines.append(f"  score = {_arithmetic(task, profile)}")
    if task.hard_boost_contribution is not None:
        lines.append(
            f"  hard boost contribution = max(0, score) = {_short(task.hard_boost_contribution)}"
        )
    if task.pool == "main":
        lines.append(f"  weight in the main score = x^(1/3) = {_short(profile.task_weight(task.x))}")
    return lines


def _tokens(task: TaskScore, profile: Profile) -> list[str]:
    weights = (
        f"{profile.input_weight:g} * input + {profile.cached_weight:g} * cached + "
        f"{profile.output_weight:g} * output"
    )
    before, after = task.tokens_without_compression, task.tokens_with_compression
    lines = [
        f"  T_B = {_some(before)} mean weighted tokens of resolved baseline runs ({weights})",
        f"  T_A = {_some(after)} mean weighted tokens of miner runs with valid counts",
    ]
    if before is None or after is None or before <= 0 or after <= 0:
        return [*lines, "  r = 0, because a token count is missing or not positive"]
    limit = profile.ratio_limit
    quotient = f"{_short(before)} / {_short(after)}"
    return [
        *lines,
        f"  r = clamp({profile.log_name}({quotient}), {-limit:g}, {limit:g}) = {_short(task.r)}",
    ]


def _why(task: TaskScore, profile: Profile) -> str:
    if task.pool == "excluded":
        return f"x <= {profile.hard_at_most} and y = 0"
    if task.pool == "hard_boost":
        return f"x <= {profile.hard_at_most} and y > 0" + (" with y = x" if task.x == task.y else "")
    return {"penalty": "y < t", "maintain": "t <= y <= x", "bonus": "y > x"}[task.zone]


def _arithmetic(task: TaskScore, profile: Profile) -> str:
    if task.score is None:
        return "none; the task takes no part for this miner"
    if task.zone == "maintain":
        return f"r = {_short(task.score)}"
    if task.zone == "bonus":
        return (
            f"clamp(r + (y - x) / (n - x), {profile.bonus_floor:g}, {profile.bonus_cap:g}) = "
            f"clamp({_short(task.r)} + {task.y - task.x} / {task.n - task.x}, ...) = "
            f"{_short(task.score)}"
        )
    span = profile.penalty_ceiling - profile.penalty_floor
    return (
        f"{profile.penalty_ceiling:g} - {span:g} * (1 - y / t) = "
        f"{profile.penalty_ceiling:g} - {span:g} * (1 - {task.y} / {task.threshold}) = "
        f"{_short(task.score)}"
    )


def _short(value: float) -> str:
    return f"{value:.6g}"


def _some(value: float | None) -> str:
    return "no" if value is None else _short(value)
