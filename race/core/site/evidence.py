"""Methodology, leak audit and changelog: what was checked, and what came of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from race.core.leaks.kinds import NOT_OPENED, OPENED
from race.core.sealed import ProbeResult
from race.core.site.audit_document import (
    audited_tasks,
    images_of,
    is_clean,
    is_outdated,
    probe_rows,
)
from race.core.site.standings import Results, era_section
from race.core.site.view import ReleaseView, TaskView, steps
from race.core.text_table import percent


def methodology_page(view: ReleaseView, results: Results | None) -> dict[str, Any]:
    """The pipeline in this release's numbers, its protocol, its release check, its eras."""
    checked = [task.verified for task in view.tasks if task.verified is not None]
    measured = [
        task.validated.reliability
        for task in view.tasks
        if task.validated is not None
        and task.validated.accepted
        and task.validated.reliability is not None
    ]
    return {
        "steps": steps(view),
        "settings": view.settings,
        "composites": sum(1 for task in view.of("verified") if task.members),
        "gradings": sum(len(check.gold) + len(check.empty) for check in checked),
        "corrected": sum(1 for check in checked if check.accepted and check.corrections),
        "excluded": sum(1 for check in checked if not check.accepted),
        "exclusions": _exclusions(view),
        "bounds": {
            "tasks": len(measured),
            "runs": min((found.plain for found in measured), default=0),
            "empty": percent(max((found.empty_bound for found in measured), default=None)),
            "gold": percent(max((found.gold_bound for found in measured), default=None)),
        },
        "study": era_section(results.study) if results is not None else None,
    }


def audit_page(view: ReleaseView) -> dict[str, Any]:
    """Every probe that ran on a shipped or rejected image. Private tasks count; theirs are not shown."""
    audited = audited_tasks(view)
    public = [task for task in audited if not task.private]
    return {
        "audited": len(audited),
        "private": len(audited) - len(public),
        "clean": sum(is_clean(task) for task in audited),
        "outdated": sum(is_outdated(task) for task in audited),
        "rows": probe_rows(audited),
        "opened": OPENED,
        "not_opened": NOT_OPENED,
        "tasks": [
            {
                "task": task,
                "clean": is_clean(task),
                "outdated": is_outdated(task),
                "found": sum(len(probe.findings) for probe in _probes(task)),
                "probes": len(_probes(task)),
                "not_checked": task.sealed.not_checked if task.sealed else (),
                "fragments": task.sealed.fragments if task.sealed else None,
                "images": images_of(task),
            }
            for task in public
        ],
        "findings": [
            (task.id, probe.name, finding)
            for task in public
            for probe in _probes(task)
            for finding in probe.findings
        ],
    }


def _probes(task: TaskView) -> list[ProbeResult]:
    return [*task.sealed.probes, *task.sealed.test_probes] if task.sealed is not None else []


def _exclusions(view: ReleaseView) -> dict[str, Any]:
    gone = [task for task in view.tasks if task.verified is not None and not task.verified.accepted]
    return {
        "public": [
            (task, task.verified.exclusion or "; ".join(task.verified.reasons))
            for task in gone
            if task.verified is not None and not task.private
        ],
        "private": sum(task.private for task in gone),
    }


def changelog_page(view: ReleaseView) -> dict[str, Any]:
    """What the release check changed: corrections, exclusions, and tasks dropped on the way."""
    corrected = [
        task
        for task in view.tasks
        if task.verified is not None and task.verified.accepted and task.verified.corrections
    ]
    dropped = Counter(
        stage
        for task in view.of("rejected")
        for stage, state in task.stages.items()
        if state == "rejected" and stage != "verify"
    )
    return {
        "shipped": len(view.of("verified")),
        "corrected": [(task, task.verified.corrections) for task in corrected
                      if task.verified is not None and not task.private],
        "corrected_private": sum(task.private for task in corrected),
        "exclusions": _exclusions(view),
        "dropped": sorted(dropped.items()),
        "text": view.changelog,
    }  # fmt: skip
