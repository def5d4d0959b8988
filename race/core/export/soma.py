"""SOMA's task list and the smaller grading file, as bytes that are the same every time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from race.core.export.facts import TaskFacts


def row(task: TaskFacts) -> dict[str, Any]:
    """One row of the task list; keys that its readers do not know come last."""
    known: dict[str, Any] = {
        "instance_id": task.instance_id,
        "benchmark_name": task.benchmark,
        "repo": task.repo,
        "base_commit": task.base_commit,
        "created_at": task.created_at,
        "problem_statement": task.statement,
        "patch": task.patch,
        "test_patch": task.test_patch,
        "FAIL_TO_PASS": list(task.fail_to_pass),
        "PASS_TO_PASS": list(task.pass_to_pass),
        "test_command": task.test_command,
        "images": {
            "env": {"ref": task.env_image, "workdir": task.workdir},
            "test": {"ref": task.test_image, "workdir": task.workdir, "run_tests": task.run_tests},
        },
    }
    if task.complexity in ("short", "medium", "long"):
        known["complexity"] = task.complexity
    more: dict[str, Any] = {
        "merged_at": task.merged_at,
        "fix_lines": task.fix_lines,
        "repeats": task.repeats,
        "project": task.repo,
        "canary": task.canary_line,
    }
    for key in ("kind", "tier", "version"):
        if getattr(task, key):
            more[key] = getattr(task, key)
    if task.members:
        more["members"] = list(task.members)
    if task.sample:
        more["sample"] = True
    return known | more


def grading_row(task: TaskFacts) -> dict[str, Any]:
    """The part of a row that a validator keeps for grading, with its overrides spelled out."""
    return {
        "instance_id": task.instance_id,
        "FAIL_TO_PASS": list(task.fail_to_pass),
        "PASS_TO_PASS": list(task.pass_to_pass),
        "test_image": task.test_image,
        "workdir": task.workdir,
        "run_tests": task.run_tests,
        "report_path": report_path(task.test_command),
    }


def report_path(test_command: str) -> str:
    """The report's path as its readers find it in the test command."""
    for word in test_command.replace("'", " ").replace('"', " ").split():
        if word.startswith("--json-report-file="):
            return word.split("=", 1)[1]
    return "/tmp/report.json"


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    """Rows as JSONL, sorted by id. ASCII only: a reader that splits at U+2028 reads it too."""
    ordered = sorted(rows, key=lambda r: str(r["instance_id"]))
    return "".join(json.dumps(r, ensure_ascii=True) + "\n" for r in ordered).encode()
