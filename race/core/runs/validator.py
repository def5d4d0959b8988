"""Rows of a SOMA validator's export, turned into runs.

Two shapes are read.

*Joined* rows pair a baseline run with a miner's run of one task, as the platform's query gives them:
`task_name` (or `instance_id`), `hotkey`, `baseline_run_id`, `baseline_resolved`,
`baseline_input_tokens`, `baseline_cached_input_tokens`, `baseline_output_tokens`, `run_id`,
`attempt_no`, `run_resolved`, `run_input_tokens`, `run_cached_input_tokens`, `run_output_tokens`,
`time_taken_seconds`, `agent_steps`.
A run appears in many rows and counts once, by its id.

*Plain* rows tell one run each: `instance_id` (or `task_name`), `baseline_run` (true or false), `hotkey`,
`attempt_no`, `resolved` and the three token counts.

A run whose result is null was never graded: an accident, not a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from race.errors import UsageError

Row = Mapping[str, Any]


def is_validator_row(row: Row) -> bool:
    """Whether a row comes from a validator and not from our own runs."""
    return "agent" not in row and ("hotkey" in row or "baseline_run" in row)


class ValidatorReader:
    """Turns rows into runs; remembers which runs of joined rows it has given already."""

    def __init__(self, baseline: str) -> None:
        self.baseline = baseline
        self._seen: dict[tuple[str, str, Any], dict[str, Any]] = {}

    def runs(self, row: Row) -> list[dict[str, Any]]:
        """The runs that this row tells for the first time. Raises UsageError with what is wrong."""
        task = row.get("instance_id") or row.get("task_name")
        if not isinstance(task, str):
            raise UsageError("neither instance_id nor task_name")
        if "baseline_run" not in row and ("baseline_run_id" in row or "run_id" in row):
            told = []
            if row.get("baseline_run_id") is not None:
                run = _run(row, task, self.baseline, "baseline_", None)
                told += self._once((task, "", row["baseline_run_id"]), run)
            if row.get("run_id") is not None:
                run = _run(row, task, _hotkey(row), "run_", None)
                run |= {"steps": row.get("agent_steps"), "seconds": row.get("time_taken_seconds")}
                told += self._once((task, _hotkey(row), row["run_id"]), run)
            return told
        baseline = row.get("baseline_run")
        if not isinstance(baseline, bool):
            raise UsageError(f"baseline_run: expected true or false, found {baseline!r}")
        agent = self.baseline if baseline else _hotkey(row)
        run = _run(row, task, agent, "", row.get("attempt_no", row.get("attempt")))
        return [run | {"steps": row.get("agent_steps"), "seconds": row.get("time_taken_seconds")}]

    def _once(self, key: tuple[str, str, Any], run: dict[str, Any]) -> list[dict[str, Any]]:
        known = self._seen.setdefault(key, run)
        if known is run:
            return [run]
        if known != run:
            raise UsageError(f"task {key[0]}: run {key[2]} is told twice with different results")
        return []


def _hotkey(row: Row) -> str:
    hotkey = row.get("hotkey")
    if not isinstance(hotkey, str) or not hotkey:
        raise UsageError("hotkey: expected a non-empty string")
    return hotkey


def _run(row: Row, task: str, agent: str, prefix: str, attempt: Any) -> dict[str, Any]:
    resolved = row.get(f"{prefix}resolved")
    return {
        "instance_id": task,
        "agent": agent,
        "model": None,
        "attempt": attempt,
        "resolved": False if resolved is None else resolved,
        "input_tokens": row.get(f"{prefix}input_tokens"),
        "cached_input_tokens": row.get(f"{prefix}cached_input_tokens"),
        "output_tokens": row.get(f"{prefix}output_tokens"),
        "cost_usd": None,
        "steps": None,
        "seconds": None,
        "ended": "accident" if resolved is None else None,
    }
