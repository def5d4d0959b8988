"""What specifying records about one task: its statement, the interface, and how both came about."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from race.core.interface.items import InterfaceItem
from race.core.records import Closed, FileRef, StageRecord
from race.core.statement.writer import Coverage

RULES_WRITER = "rules"
HAND_WRITER = "hand"


class ModelCall(Closed):
    """One question to a model and what it cost. `problem` says why the answer was not used."""

    role: Literal["writer", "auditor"]
    model: str
    parameters: dict[str, int | float | str] = Field(default_factory=dict)
    prompt_sha256: str
    reply_sha256: str
    input_tokens: int
    cached_input_tokens: int | None = None
    output_tokens: int
    cost_usd: float | None = None
    problem: str = ""


class Specified(StageRecord):
    """The statement and what stands behind it.

    `writer` is `rules`, `hand` (a maintainer edited the file: it was audited, not written) or the
    name of a model. `rounds` is how often a text was written and audited. `findings` are those of the
    last round: errors when it was rejected. `transcript` holds what models were asked and said.
    """

    stage: ClassVar[str] = "specify"

    statement: FileRef | None = None
    writer: str = ""
    edited: bool = False
    auditor: str = RULES_WRITER
    rounds: int = 0
    interface: tuple[InterfaceItem, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    transcript: FileRef | None = None
