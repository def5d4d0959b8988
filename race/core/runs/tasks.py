"""The row of a task list, as far as scores and statistics need it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from race.errors import UsageError


@dataclass(frozen=True)
class TaskRow:
    """One task. What a list does not say is None; `repeats` is the planned number of runs."""

    instance_id: str
    repeats: int | None = None
    complexity: str | None = None
    merged: date | None = None
    fix_lines: int | None = None
    tier: str | None = None
    kind: str | None = None
    project: str | None = None
    sample: bool = False


def read_task(row: Mapping[str, Any]) -> TaskRow:
    """A row of a SOMA task list, or any row with these keys. Raises UsageError saying what is wrong.

    The merge date is `merged_at`, else `created_at`; the size of the fix is `fix_lines`, else it is
    counted in `patch`; the project is `project`, else `repo`. A composite (`members` names its parts)
    never was a commit, so it has no merge date.
    """
    instance_id = row.get("instance_id")
    if not isinstance(instance_id, str) or not instance_id.strip():
        raise UsageError("instance_id: expected a non-empty string")
    fix_lines = _count(row, "fix_lines", least=0)
    if fix_lines is None and isinstance(row.get("patch"), str) and row["patch"].strip():
        fix_lines = changed_lines(row["patch"])
    return TaskRow(
        instance_id=instance_id,
        repeats=_count(row, "repeats", least=1),
        complexity=_text(row, "complexity"),
        merged=None if row.get("members") else _day(row, "merged_at") or _day(row, "created_at"),
        fix_lines=fix_lines,
        tier=_text(row, "tier"),
        kind=_text(row, "kind"),
        project=_text(row, "project") or _text(row, "repo"),
        sample=row.get("sample") is True,
    )


def _text(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise UsageError(f"{key}: expected text, found {value!r}"[:120])
    return value


def _count(row: Mapping[str, Any], key: str, *, least: int) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not whole or value != int(value) or value < least:
        raise UsageError(f"{key}: expected a whole number of at least {least}, found {value!r}"[:120])
    return int(value)


def _day(row: Mapping[str, Any], key: str) -> date | None:
    value = _text(row, key)
    if value is None:
        return None
    try:
        return day(value)
    except ValueError as error:
        raise UsageError(f"{key}: {value!r} is no ISO 8601 date"[:120]) from error


def day(text: str) -> date:
    """The UTC day of an ISO 8601 date or moment; a moment without a zone is taken as UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date()


def changed_lines(patch: str) -> int:
    """Added plus removed lines of a unified diff, counted inside hunks only."""
    changed = old = new = 0
    for line in patch.splitlines():
        if old > 0 or new > 0:
            kind = line[:1]
            changed += kind in ("+", "-")
            old -= kind != "+" and kind != "\\"
            new -= kind != "-" and kind != "\\"
        elif line.startswith("@@ "):
            old, new = (_length(part) for part in line.split()[1:3])
    return changed


def _length(span: str) -> int:
    _, comma, length = span.partition(",")
    return int(length) if comma and length.isdigit() else 1
