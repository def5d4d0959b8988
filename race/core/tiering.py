"""Sorts a task by difficulty and effort from the attempts of the calibration agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from race.core.attempts import ACCIDENT, Attempt
from race.core.intervals import wilson
from race.core.tiered import AgentTier, Complexity, Tier

_DIGITS = 4


def tier(attempts: int, resolved: int) -> Tier:
    """clean when all attempts resolve, hard when none does, else split."""
    if not attempts:
        return "unmeasured"
    if resolved == attempts:
        return "clean"
    return "split" if resolved else "hard"


def complexity(steps: float | None, short: float, medium: float) -> Complexity | None:
    """The group of a task by the mean steps of its resolved attempts; cut points are upper bounds."""
    if steps is None:
        return None
    if steps <= short:
        return "short"
    return "medium" if steps <= medium else "long"


def effort(rows: Sequence[Attempt]) -> float | None:
    """Mean steps of resolved attempts, None without any."""
    return _mean([row.steps for row in rows if row.resolved and row.steps is not None])


def by_agent(rows: Sequence[Attempt]) -> tuple[AgentTier, ...]:
    """One summary per agent and model, sorted by name. Accidents count as nothing."""
    groups: dict[tuple[str, str], list[Attempt]] = {}
    for row in rows:
        if row.ended != ACCIDENT:
            groups.setdefault((row.agent, row.model), []).append(row)
    return tuple(_summary(*names, rows) for names, rows in sorted(groups.items()))


def _summary(agent: str, model: str, rows: list[Attempt]) -> AgentTier:
    resolved = [row for row in rows if row.resolved]
    low, high = bounds(len(rows), len(resolved))
    tokens = [row.weighted_tokens for row in resolved]
    return AgentTier(
        agent=agent,
        model=model,
        scripted=any(row.scripted for row in rows),
        attempts=len(rows),
        resolved=len(resolved),
        low=low,
        high=high,
        steps=effort(rows),
        weighted_tokens=_mean([value for value in tokens if value is not None]),
        ended=dict(sorted(Counter(row.ended or "unknown" for row in rows).items())),
    )


def bounds(attempts: int, resolved: int) -> tuple[float, float]:
    """Wilson's 95% interval, rounded so that a record does not hang on the last bit."""
    estimate = wilson(resolved, attempts)
    return round(estimate.low or 0.0, _DIGITS), round(
        1.0 if estimate.high is None else estimate.high, _DIGITS
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), _DIGITS) if values else None
