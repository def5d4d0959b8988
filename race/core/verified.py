"""The record Verified: the release check of one task, from its published files alone."""

from __future__ import annotations

from typing import ClassVar

from race.core.records import Closed, FileRef, StageRecord
from race.core.sealed import ImageRecipe


class Correction(Closed):
    """Something the check put right: the rule, what it is about, and the values before and after."""

    rule: str
    what: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class RunVerdict(Closed):
    """One grading: the same id names its log in the ledger."""

    run_id: str
    verdict: str
    failed: tuple[str, ...] = ()
    """Listed ids that did not pass."""


class Verified(StageRecord):
    """Three gradings with the reference fix, three with nothing, ids against what pytest collects.

    The lists are those that ship. `fix_patch` and `test_patch` are set when the check corrected them,
    else the mined ones ship. `exclusion` is empty for a task that ships, else one sentence for the
    changelog.
    """

    stage: ClassVar[str] = "verify"

    env_image: ImageRecipe | None = None
    test_image: ImageRecipe | None = None
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    fix_patch: FileRef | None = None
    test_patch: FileRef | None = None
    corrections: tuple[Correction, ...] = ()
    gold: tuple[RunVerdict, ...] = ()
    empty: tuple[RunVerdict, ...] = ()
    repeats: int = 0
    """Further runs of the fail-to-pass tests alone, each way, without a wrong outcome."""
    collected: int = 0
    """Listed ids that pytest collects in the shipped image."""
    exclusion: str = ""
