"""A release as the site sees it: every task with its records, and what may be shown of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from race.core.records import Mined, StageRecord
from race.core.runs.tasks import TaskRow, day
from race.core.sealed import Sealed
from race.core.specified import Specified
from race.core.tiered import Tiered
from race.core.validated import Validated
from race.core.verified import Verified

STAGES = ("mine", "validate", "specify", "seal", "tier", "verify")


@dataclass(frozen=True)
class TaskView:
    """One task with a folder. `state` is verified, rejected or pending; a record is None when its stage
    has not run. A `private` task, or a composite of one, is counted
    and never shown."""

    id: str
    private: bool
    state: str
    verdict: str
    stages: Mapping[str, str]
    mined: Mined
    validated: Validated | None = None
    specified: Specified | None = None
    sealed: Sealed | None = None
    tiered: Tiered | None = None
    verified: Verified | None = None
    statement: str = ""
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    """Digests of its images, `env` and `test`, where they are known."""

    @property
    def members(self) -> tuple[str, ...]:
        """Ids of the tasks that a composite combines."""
        return self.mined.members

    @property
    def tier(self) -> str | None:
        """clean, split or hard, once measured."""
        return self.tiered.tier if self.tiered is not None and self.tiered.accepted else None

    @property
    def complexity(self) -> str | None:
        """short, medium or long, once measured."""
        return self.tiered.complexity if self.tiered is not None and self.tiered.accepted else None

    @property
    def merged(self) -> date:
        """The UTC day of the merge."""
        return day(self.mined.merged_at)

    @property
    def records(self) -> tuple[StageRecord, ...]:
        """The records that are there, in order of the stages."""
        some = (
            self.mined, self.validated, self.specified, self.sealed, self.tiered, self.verified
        )  # fmt: skip
        return tuple(record for record in some if record is not None)

    def row(self, repeats: int | None) -> TaskRow:
        """The task for scores. A composite never was a commit, so it has no date to compare by."""
        return TaskRow(
            instance_id=self.id,
            repeats=repeats,
            complexity=self.complexity,
            merged=None if self.members else self.merged,
            fix_lines=self.mined.fix_lines,
            tier=self.tier,
            kind=self.mined.kind,
            project=self.mined.repo,
        )


@dataclass(frozen=True)
class ReleaseView:
    """A release: its settings' facts, its tasks, what mining turned down."""

    name: str
    version: str
    sample: bool
    minimum_count: int
    settings: Any
    tasks: tuple[TaskView, ...]
    turned_down: tuple[Mapping[str, Any], ...]
    changelog: str = ""

    def of(self, *states: str, private: bool | None = None) -> list[TaskView]:
        """Tasks in one of these states, public or private ones only when asked."""
        return [
            task
            for task in self.tasks
            if task.state in states and (private is None or task.private is private)
        ]


@dataclass(frozen=True)
class Step:
    """How many tasks a stage accepted, rejected, and has not judged yet."""

    stage: str
    accepted: int
    rejected: int
    waiting: int
    rules: tuple[tuple[str, int], ...]


def steps(view: ReleaseView) -> list[Step]:
    """The pipeline in numbers; what mining turned down without a folder counts as rejected by mine.

    Rules name why tasks were rejected, most frequent first; tasks may have several.
    """
    found = []
    reached = list(view.tasks)
    for stage in STAGES:
        accepted = [task for task in reached if task.stages.get(stage) == "accepted"]
        rejected = [task for task in reached if task.stages.get(stage) == "rejected"]
        rules = Counter(rule for task in rejected for rule in _rules(task.records, stage))
        extra = 0
        if stage == "mine":
            extra = len(view.turned_down)
            rules.update(rule for row in view.turned_down for rule in _row_rules(row))
        found.append(
            Step(
                stage,
                len(accepted),
                len(rejected) + extra,
                len(reached) - len(accepted) - len(rejected),
                tuple(sorted(rules.items(), key=lambda item: (-item[1], item[0]))),
            )
        )
        reached = accepted
    return found


def _rules(records: Sequence[StageRecord], stage: str) -> set[str]:
    for record in records:
        if record.stage == stage:
            return {finding.rule for finding in record.findings if finding.severity == "error"}
    return set()


def _row_rules(row: Mapping[str, Any]) -> set[str]:
    findings = row.get("findings")
    if not isinstance(findings, list):
        return set()
    return {
        str(item.get("rule"))
        for item in findings
        if isinstance(item, dict) and item.get("severity", "error") == "error"
    }
