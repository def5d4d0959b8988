"""Models that answer, and agents that work by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from race.ports.engine import Container


@dataclass(frozen=True)
class ModelReply:
    """What a model answered and what it cost. Token counts as in runs.jsonl; cost in US dollars.

    `cut_off` says that it stopped at its limit of tokens.
    """

    text: str
    input_tokens: int
    cached_input_tokens: int | None
    output_tokens: int
    cost_usd: float | None
    cut_off: bool = False


class Model(Protocol):
    """A chat model behind any provider."""

    name: str

    def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int = 4096) -> ModelReply:
        """One completion. Raises Unreachable, RateLimited, or Missing when a key is not set."""


@dataclass(frozen=True)
class AgentLimits:
    """What an agent may use: model calls, seconds per command, seconds in all."""

    steps: int = 100
    command_seconds: float = 600
    run_seconds: float = 7200


@dataclass(frozen=True)
class AgentRun:
    """How an agent's work ended, what it took, and its trajectory as JSON.

    `ended` is submitted, step_limit or timeout, `note` says more when there is more to say. Token
    counts as in runs.jsonl; `cost_usd` is None when nobody knows the price.
    """

    ended: str
    note: str
    steps: int
    input_tokens: int
    cached_input_tokens: int | None
    output_tokens: int
    cost_usd: float | None
    trajectory: bytes


class Agent(Protocol):
    """Something that works on a task by commands in a container."""

    def solve(self, container: Container, statement: str, limits: AgentLimits) -> AgentRun:
        """Work until it submits or meets a limit; what it did is then in the container.

        Raises Unreachable or RateLimited when its model does not answer, Missing when its model
        needs a key or is not known, EngineDown when the engine breaks.
        """
