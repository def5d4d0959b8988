"""What specifying records about one task: its statement, the interface, and how both came about."""

from __future__ import annotations

from typing import ClassVar

from race.core.interface.items import InterfaceItem
from race.core.records import FileRef, ModelCall, StageRecord
from race.core.statement.writer import Coverage

RULES_WRITER = "rules"
HAND_WRITER = "hand"


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
