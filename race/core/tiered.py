"""What tiering records about one task: how hard it was for the calibration agents."""

from __future__ import annotations

from typing import ClassVar, Literal

from race.core.records import Closed, StageRecord

Tier = Literal["clean", "split", "hard", "unmeasured"]
Complexity = Literal["short", "medium", "long"]


class AgentTier(Closed):
    """One agent's attempts. `low` and `high` are Wilson's 95% bounds of the share resolved.

    `steps` and `weighted_tokens` are means over resolved attempts, None without any; those of a
    scripted agent are simulated. `ended` counts how attempts ended, accidents never among them.
    """

    agent: str
    model: str
    scripted: bool
    attempts: int
    resolved: int
    low: float
    high: float
    steps: float | None
    weighted_tokens: float | None
    ended: dict[str, int]


class Tiered(StageRecord):
    """The label and what it rests on: `attempts` and `resolved` are pooled over all agents.

    `complexity` comes from `effort_steps`, the mean steps of resolved attempts, by the release's cut
    points; None when nothing was resolved. `scripted` says that the label rests on scripts alone or
    in part, so that it is simulated.
    """

    stage: ClassVar[str] = "tier"

    tier: Tier = "unmeasured"
    complexity: Complexity | None = None
    attempts: int = 0
    resolved: int = 0
    low: float | None = None
    high: float | None = None
    effort_steps: float | None = None
    scripted: bool = False
    agents: tuple[AgentTier, ...] = ()
