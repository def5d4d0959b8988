"""What a stage is, and where to find one by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from race.core.records import StageRecord
from race.progress import Progress
from race.store import Store, TaskFolder
from race.workbench import Workbench


@dataclass(frozen=True)
class Desk:
    """What a stage function works with: one task, the release, the tools, a voice."""

    task: TaskFolder
    store: Store
    bench: Workbench
    progress: Progress

    def say(self, what: str) -> None:
        """Tell what is happening to this task now."""
        self.progress.doing(self.task.id, what)

    def note(self, **facts: Any) -> None:
        """Volatile facts for the ledger, written beside the record when the stage ends."""
        self.facts.update(facts)

    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One stage: its record, what it reads, how it works.

    `inputs` gives the digests of all that the stage reads (records, files, settings slice); when
    they equal those in the record, the stage is not due. `work` returns a record without `inputs`;
    the loop fills them in. `made` says whether what the stage made outside the folder (an image) is
    still there; without it a current record is enough.
    """

    name: str
    record: type[StageRecord]
    inputs: Callable[[TaskFolder, Store], dict[str, str]]
    work: Callable[[Desk], StageRecord]
    made: Callable[[TaskFolder, Store, Workbench], bool] | None = None
    engine: bool = False
    """Whether it starts containers; those that a killed command left are removed before it runs."""


def stage_named(name: str) -> Stage:
    """A stage by its name; stages do not import each other, the loop looks them up."""
    stage = importlib.import_module(f"race.stages.{name}").STAGE
    assert isinstance(stage, Stage)
    return stage
