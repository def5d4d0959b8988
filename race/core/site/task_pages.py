"""The page of all tasks, and one page per public task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from race.core.intervals import clustered_rate, wilson
from race.core.site.rates import Rate, amount, rate, size
from race.core.site.standings import Results, is_scripted
from race.core.site.view import ReleaseView, TaskView
from race.core.text_table import percent

LISTED = 300
"""Pull requests that mining turned down are named up to this many, rare reasons first."""


def tasks_page(view: ReleaseView, results: Results | None) -> dict[str, Any]:
    """Public tasks by standing, private ones as counts, and what mining turned down by reason."""
    shipped = view.of("verified", private=False)
    waiting = view.of("pending", private=False)
    rejected = view.of("rejected", private=False)
    merged = [task.merged.isoformat() for task in shipped]
    hidden = set(view.settings.release.private)
    turned_down = [_turned_down(row) for row in view.turned_down]
    rules = Counter(row["rule"] for row in turned_down)
    listed = [row for row in turned_down if row["id"] not in hidden]
    listed.sort(key=lambda row: (rules[row["rule"]], row["rule"]))
    return {
        "merged": (min(merged), max(merged)) if merged else None,
        "shipped": [_line(task, results, view.minimum_count) for task in shipped],
        "waiting": [_line(task, results, view.minimum_count) for task in waiting],
        "rejected": [{"task": task, "stage": _last(task), "reason": _reason(task)} for task in rejected],
        "private": {
            state: len(view.of(state, private=True)) for state in ("verified", "pending", "rejected")
        },
        "rules": sorted(rules.items(), key=lambda item: (-item[1], item[0])),
        "turned_down": listed[:LISTED],
        "turned_down_hidden": max(0, len(listed) - LISTED),
        "turned_down_total": len(turned_down),
    }


def _turned_down(row: Mapping[str, Any]) -> dict[str, str]:
    """One line about a pull request that mining turned down: id, title, first rule and its words."""
    findings = row.get("findings")
    first: Any = {}
    for item in findings if isinstance(findings, list) else ():
        if isinstance(item, dict) and item.get("severity", "error") == "error":
            first = item
            break
    return {
        "id": str(row.get("instance_id", "")),
        "title": str(row.get("title", "")),
        "rule": str(first.get("rule", "no reason recorded")),
        "message": str(first.get("message", "")),
    }


def _last(task: TaskView) -> str:
    return next((stage for stage, state in task.stages.items() if state == "rejected"), "")


def _reason(task: TaskView) -> str:
    return task.verdict.partition(": ")[2] or task.verdict


def _pooled(task_id: str, results: Results | None, minimum_count: int) -> Rate | None:
    """A task's rate over the entrants that ran it: each counts once, runs of one are not independent."""
    if results is None:
        return None
    index = next((i for i, t in enumerate(results.grid.tasks) if t.instance_id == task_id), None)
    if index is None:
        return None
    shares = results.grid.shares[index]
    known = shares[~np.isnan(shares)]
    return rate(clustered_rate(known), minimum_count, "agents") if len(known) else None


def _line(task: TaskView, results: Results | None, minimum_count: int) -> dict[str, Any]:
    lists = task.verified if task.verified is not None else task.validated
    return {
        "task": task,
        "kind": task.mined.kind or "–",
        "tier": task.tier or "–",
        "complexity": task.complexity or "–",
        "merged": task.merged.isoformat(),
        "fail_to_pass": len(lists.fail_to_pass) if lists is not None else "–",
        "pass_to_pass": len(lists.pass_to_pass) if lists is not None else "–",
        "rate": _pooled(task.id, results, minimum_count),
    }


def task_page(view: ReleaseView, task: TaskView, results: Results | None) -> dict[str, Any]:
    """Everything that may be said about one task. Hidden tests and the fix are counted, not shown."""
    members = [other for other in view.tasks if other.id in task.members]
    return {
        "task": task,
        "line": _line(task, results, view.minimum_count),
        "pull_requests": [other.mined.pr for other in members or (task,)],
        "stages": [(record.stage, task.stages.get(record.stage, ""), record) for record in task.records],
        "reliability": _reliability(task),
        "probes": _probes(task),
        "attempts": _attempts(task, results, view.minimum_count),
        "dropped": _dropped(task),
        "image": size(task.facts.get("seal", {}).get("env_size")),
        "gold": _verdicts(task, "gold"),
        "empty": _verdicts(task, "empty"),
    }


def _reliability(task: TaskView) -> dict[str, Any] | None:
    found = task.validated.reliability if task.validated is not None else None
    if found is None:
        return None
    return {
        "plain": found.plain,
        "empty": percent(found.empty_bound),
        "gold": percent(found.gold_bound),
        "limit": percent(found.limit),
        "perturbed": sorted(found.perturbed.items()),
        "gold_fails_under": found.gold_fails_under,
    }


def _probes(task: TaskView) -> list[Any]:
    return list(task.sealed.probes) if task.sealed is not None else []


def _dropped(task: TaskView) -> list[tuple[str, int]]:
    """Why tests of the suite are in neither list, most frequent first."""
    found = Counter(test.reason for test in task.validated.dropped) if task.validated else Counter()
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _verdicts(task: TaskView, which: str) -> str:
    runs = getattr(task.verified, which) if task.verified is not None else ()
    return ", ".join(run.verdict for run in runs) or "not run yet"


def _attempts(task: TaskView, results: Results | None, minimum_count: int) -> list[dict[str, Any]]:
    if results is None:
        return []
    grid = results.grid
    index = next((i for i, t in enumerate(grid.tasks) if t.instance_id == task.id), None)
    if index is None:
        return []
    rows = []
    for column, name in enumerate(grid.entrants):
        runs = int(grid.attempts[index, column])
        if not runs:
            continue
        told = int(grid.steps_n[index, column])
        tokens_n = int(grid.tokens_n[index, column])
        rows.append(
            {
                "name": name,
                "scripted": is_scripted(name),
                "rate": rate(wilson(int(grid.resolved[index, column]), runs), minimum_count, "attempts"),
                "steps": amount(float(grid.steps[index, column]) / told if told else None, 1),
                "tokens": amount(float(grid.tokens[index, column]) / tokens_n if tokens_n else None),
            }
        )
    return rows
