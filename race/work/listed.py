"""The tests that a task is graded by, from the newest record that says so."""

from __future__ import annotations

from dataclasses import dataclass

from race.core.validated import Validated
from race.core.verified import Verified
from race.errors import Missing
from race.store import TaskFolder


@dataclass(frozen=True)
class Listed:
    """A task's two lists. `source` is the stage whose record they come from."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    source: str


def listed_tests(task: TaskFolder) -> Listed:
    """The lists as the release check corrected them, else as validation found them.

    Raises Missing when the task has none yet.
    """
    verified = task.read(Verified)
    if verified is not None and verified.accepted and verified.fail_to_pass:
        return Listed(verified.fail_to_pass, verified.pass_to_pass, "verify")
    validated = task.read(Validated)
    if validated is None or not validated.fail_to_pass:
        raise Missing(_why_none(task.id, validated))
    return Listed(validated.fail_to_pass, validated.pass_to_pass, "validate")


def _why_none(task_id: str, validated: Validated | None) -> str:
    rejecting = [one for one in validated.findings if one.severity == "error"] if validated else []
    if rejecting:
        return f"{task_id} has no tests to be graded by: validate rejected it: {rejecting[0].message}"
    return f"{task_id} has no tests to be graded by; `race validate` finds them"
