"""What validation records about one task.

Only what every rebuild finds again: lists, reasons, normalised failures, bounds and the plan. How
often something happened, how long it took and what was printed is in the ledger.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from race.core.classify import Dropped
from race.core.failure_text import ObservedFailure
from race.core.matrix import Suite
from race.core.records import FileRef, StageRecord
from race.core.reliability import Reliability


class Validated(StageRecord):
    """The environment, the matrix's lists and how surely they discriminate."""

    stage: ClassVar[str] = "validate"

    runs: int = 0
    source: FileRef | None = None
    suite: Suite | None = None
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    regressions: tuple[str, ...] = ()
    failures: dict[str, ObservedFailure] = Field(default_factory=dict)
    reliability: Reliability | None = None
