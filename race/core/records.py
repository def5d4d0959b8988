"""The records of a release: frozen, closed, canonical.

A record is one JSON file in a task's folder, written by one stage and never changed afterwards. It
says what it was made from (`inputs`, name -> SHA-256) so that a stage is due when a digest differs.
Nothing volatile is in it: seconds, container ids, host names and image ids go to the local ledger.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["error", "warning", "note"]


class Closed(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(Closed):
    """One problem: the rule that found it, where, and what a person should know.

    An `error` rejects the task or blocks the release; a `warning` and a `note` do not.
    """

    rule: str
    message: str
    place: str = ""
    severity: Severity = "error"


class FileRef(Closed):
    """A file beside the record, by name and SHA-256 of its bytes."""

    path: str
    sha256: str
    bytes: int


class StageRecord(Closed):
    """What every stage's record says. `accepted` is the verdict, `findings` are its reasons."""

    stage: ClassVar[str]
    schema_version: ClassVar[int] = 1

    instance_id: str
    accepted: bool
    findings: tuple[Finding, ...] = ()
    inputs: dict[str, str] = Field(default_factory=dict)
    sample: bool = False

    @property
    def reasons(self) -> list[str]:
        """The messages of the findings that reject."""
        return [finding.message for finding in self.findings if finding.severity == "error"]


ModelRole = Literal["writer", "auditor", "miner"]


class ModelCall(Closed):
    """One question to a model and what it cost. `problem` says why the answer was not used."""

    role: ModelRole
    model: str
    parameters: dict[str, int | float | str] = Field(default_factory=dict)
    prompt_sha256: str
    reply_sha256: str
    input_tokens: int
    cached_input_tokens: int | None = None
    output_tokens: int
    cost_usd: float | None = None
    problem: str = ""


class PullRequest(Closed):
    """Who and when: one merged pull request, as its source tells it. Dates are ISO 8601."""

    repo: str
    number: int
    title: str
    body: str = ""
    merged_at: str
    authored_at: str
    base_commit: str
    merge_commit: str
    merge_style: Literal["merge", "squash", "rebase"]
    linked_issues: tuple[str, ...] = ()


class Mined(StageRecord):
    """Why this pull request is (not) a candidate, and its diff split into fix and test patch."""

    stage: ClassVar[str] = "mine"

    repo: str
    pr: int
    title: str
    merged_at: str
    authored_at: str
    base_commit: str
    merge_commit: str
    merge_style: Literal["merge", "squash", "rebase"]
    licence: str | None
    linked_issues: tuple[str, ...] = ()
    kind: str | None = None
    score: float = 0.0
    signals: dict[str, float] = Field(default_factory=dict)
    product_files: tuple[str, ...] = ()
    test_files: tuple[str, ...] = ()
    other_files: tuple[str, ...] = ()
    fix_lines: int = 0
    fix_patch: FileRef | None = None
    test_patch: FileRef | None = None
    told: tuple[str, ...] = ()
    """What the fix's pull request and its changelog entries say; statements are audited against it."""
    calls: tuple[ModelCall, ...] = ()
    """What models were asked for a second opinion, and what it cost."""
    members: tuple[str, ...] = ()
    """Instance ids whose fixes a composite combines; empty for a single pull request."""


def canonical(value: Any) -> bytes:
    """The one JSON spelling of a value: sorted keys, two spaces, UTF-8, one final newline."""
    text = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False)
    return text.encode() + b"\n"


def dump(record: StageRecord) -> bytes:
    """A record as the bytes of its file."""
    head = {"stage": record.stage, "schema": record.schema_version}
    return canonical(head | record.model_dump(mode="json"))


def sha256(data: bytes) -> str:
    """Hex SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON."""
    return sha256(canonical(value))
