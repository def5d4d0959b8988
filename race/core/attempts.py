"""One attempt of an agent at a task, as a line of runs.jsonl."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from race.core.scripted import PREFIX
from race.core.soma.task_score import compute_weighted_tokens
from race.errors import Malformed, UsageError

SCAFFOLD = "mini-swe-agent"
ACCIDENT = "accident"


class Attempt(BaseModel):
    """What cli.md says of a run, and more: `verdict`, `note`, what it was made with.

    `task` is the digest of the task as it was given; a row of another tool has none. `scripted`
    marks a run whose skill and tokens are simulated. Fields that other tools add are kept.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    instance_id: str
    agent: str
    model: str = ""
    attempt: int = 1
    resolved: bool
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    steps: int | None = None
    seconds: float | None = None
    ended: str | None = None
    started_at: str | None = None
    verdict: str = ""
    note: str = ""
    task: str = ""
    image: str = ""
    patch_sha256: str = ""
    scripted: bool = False
    sample: bool = False

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What there is one row for: task, agent, model and attempt."""
        return self.instance_id, self.agent, self.model, self.attempt

    @property
    def weighted_tokens(self) -> float | None:
        """Tokens as SOMA weighs them; None when they are not known."""
        return compute_weighted_tokens(
            input_tokens=self.input_tokens,
            cached_input_tokens=self.cached_input_tokens,
            output_tokens=self.output_tokens,
        )


def read_attempts(data: bytes, name: str) -> list[Attempt]:
    """The rows of a runs.jsonl. Malformed names the line and the field."""
    rows = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(Attempt.model_validate_json(line))
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in problem["loc"])
            raise Malformed(
                name, f"line {number}" + f": {place}" * bool(place), problem["msg"]
            ) from error
    return rows


def write_attempts(rows: list[Attempt]) -> bytes:
    """The rows as lines, in the order in which they ended."""
    return b"".join(
        json.dumps(row.model_dump(mode="json"), ensure_ascii=False).encode() + b"\n" for row in rows
    )


def with_attempt(rows: list[Attempt], row: Attempt) -> list[Attempt]:
    """The rows with one more at the end.

    It takes the place of its agent's earlier row for the same attempt. Rows of ours about another
    state of the task (an earlier statement or image) leave: they say nothing about this one.
    """
    kept = [
        other
        for other in rows
        if other.key != row.key
        and not (other.instance_id == row.instance_id and other.task and other.task != row.task)
    ]
    return [*kept, row]


def contestant(name: str, model: str = "") -> tuple[str, str]:
    """Agent and model from `scripted/NAME`, `mini-swe-agent` with a model, or `mini-swe-agent:MODEL`.

    Raises UsageError for anything else.
    """
    agent, _, inside = name.partition(":")
    model = model or inside
    if agent.startswith(PREFIX):
        if model:
            raise UsageError(f"{agent} is a script and takes no model")
        return agent, "scripted"
    if agent != SCAFFOLD:
        raise UsageError(f"no agent {agent!r}; there are {SCAFFOLD} (with a model) and {PREFIX}NAME")
    if not model:
        raise UsageError(f"{SCAFFOLD} needs a model: --model, or {SCAFFOLD}:MODEL in release.toml")
    return agent, model


def as_row(value: Attempt) -> dict[str, Any]:
    """A row for a program."""
    return value.model_dump(mode="json")
