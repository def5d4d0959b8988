"""What release checks of a task on this machine saw, so that the next one can tell whether it flips."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from race.core.grading import Graded
from race.core.release_check import Check
from race.core.verified import RunVerdict
from race.work.stage import Desk

CHECKS = "checks.json"


def checks(desk: Desk) -> list[dict[str, Any]]:
    """Earlier checks of this task on this machine, oldest first."""
    try:
        value = json.loads(desk.task.evidence_path(CHECKS).read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    return [check for check in value if isinstance(check, dict)] if isinstance(value, list) else []


def earlier(desk: Desk, key: str) -> list[Check]:
    """Earlier checks of the same recipes on this machine, oldest first."""
    return [
        Check(bool(check.get("stood")), tuple(str(run) for run in check.get("runs", [])))
        for check in checks(desk)
        if check.get("key") == key
    ]


def keep(
    desk: Desk, key: str, number: int, stood: bool, runs: Sequence[RunVerdict], graded: Sequence[Graded]
) -> None:
    """Add a check; `graded` are the gradings that `runs` are the verdicts of, in the same order."""
    check = {
        "check": number,
        "key": key,
        "stood": stood,
        "runs": [run.run_id for run in runs],
        "gradings": [
            run.as_json() | {"run_id": verdict.run_id} for run, verdict in zip(graded, runs, strict=True)
        ],
    }
    text = json.dumps([*checks(desk), check], indent=1)
    desk.task.evidence(CHECKS, text.encode())
