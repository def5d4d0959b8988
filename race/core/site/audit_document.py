"""The leak audit of a release as one JSON document, made for publishing.

    {"schema": 1, "release": {...}, "made_by": "race 0.1.0", "counts": {...},
     "opened": [...], "not_opened": [...],
     "probes": [{"name", "title", "group", "image", "passed", "found", "not_checked", ...}],
     "images": [{"instance_id", "image", "ref", "recipe", "digest", "current", "clean", "probes",
                 "not_checked"}]}

`probes` has one row for each probe and kind of image, counted over all tasks. `images` tells of
public tasks only, each probe with its findings (path, layer, what; no excerpt) or why it was not
checked. An image is `current` unless what its seal read, the auditor's own rules among it, has changed
since. A private task adds to the counts and is named nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from race.core.leaks.kinds import NOT_OPENED, OPENED
from race.core.sealed import ImageRecipe, ProbeResult
from race.core.site.view import ReleaseView, TaskView

SCHEMA = 1
AGENT, GRADING = "agent", "grading"
_PREFIX = "grading image: "
"""What the seal puts before those of its remarks that are about the grading image."""


def audit_document(view: ReleaseView, made_by: str) -> dict[str, Any]:
    """The document, ready for JSON."""
    audited = audited_tasks(view)
    public = [task for task in audited if not task.private]
    return {
        "schema": SCHEMA,
        "release": {"name": view.name, "version": view.version, "sample": view.sample},
        "made_by": made_by,
        "counts": {
            "tasks": len(view.tasks),
            "audited": len(audited),
            "not_audited": len(view.tasks) - len(audited),
            "clean": sum(is_clean(task) for task in audited),
            "outdated": sum(is_outdated(task) for task in audited),
            "private": sum(task.private for task in audited),
        },
        "opened": list(OPENED),
        "not_opened": list(NOT_OPENED),
        "probes": probe_rows(audited),
        "images": [image for task in public for image in images_of(task)],
    }


def audited_tasks(view: ReleaseView) -> list[TaskView]:
    """Tasks whose images were audited, shipped or rejected."""
    return [task for task in view.tasks if task.sealed is not None and task.sealed.probes]


def is_clean(task: TaskView) -> bool:
    """Every probe of both images was checked and passed."""
    return all(image["clean"] for image in images_of(task))


def is_outdated(task: TaskView) -> bool:
    """The audit is due again: what it read has changed since."""
    return task.stages.get("seal") == "stale"


def images_of(task: TaskView) -> list[dict[str, Any]]:
    """A task's audited images: what they are, and what each probe said of them."""
    sealed = task.sealed
    if sealed is None:
        return []
    found: list[dict[str, Any]] = []
    for kind, recipe, probes in (
        (AGENT, sealed.env_image, sealed.probes),
        (GRADING, sealed.test_image, sealed.test_probes),
    ):
        if not probes:
            continue
        found.append(
            {
                "instance_id": task.id,
                "image": kind,
                **_names(recipe),
                "digest": task.images.get("env" if kind == AGENT else "test"),
                "current": not is_outdated(task),
                "clean": all(probe.passed and probe.checked for probe in probes),
                "probes": [_probe(probe) for probe in probes],
                "not_checked": list(_remarks(sealed.not_checked, kind)),
            }
        )
    if found and sealed.fragments is not None:
        found[0]["looked_for"] = sealed.fragments.model_dump(mode="json")
    return found


def _names(recipe: ImageRecipe | None) -> dict[str, str | None]:
    return {"ref": recipe.ref if recipe else None, "recipe": recipe.recipe if recipe else None}


def _probe(probe: ProbeResult) -> dict[str, Any]:
    told: dict[str, Any] = {"name": probe.name, "passed": probe.passed, "checked": probe.checked}
    if not probe.checked:
        told["why"] = probe.why
    told["findings"] = [
        {"path": found.path, "layer": found.layer, "what": found.what} for found in probe.findings
    ]
    return told


def _remarks(remarks: Sequence[str], kind: str) -> Iterator[str]:
    for remark in remarks:
        of = GRADING if remark.startswith(_PREFIX) else AGENT
        if of == kind:
            yield remark.removeprefix(_PREFIX)


def probe_rows(audited: Sequence[TaskView]) -> list[dict[str, Any]]:
    """One row for each probe and kind of image: how often it passed, found, was not checked."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for task in audited:
        assert task.sealed is not None
        for kind, probes in ((AGENT, task.sealed.probes), (GRADING, task.sealed.test_probes)):
            for probe in probes:
                row = rows.setdefault(
                    (kind, probe.name),
                    {
                        "name": probe.name,
                        "title": probe.title,
                        "group": probe.group,
                        "image": kind,
                        "passed": 0,
                        "found": 0,
                        "not_checked": 0,
                        "findings": 0,
                    },
                )
                key = "not_checked" if not probe.checked else "passed" if probe.passed else "found"
                row[key] += 1
                row["findings"] += len(probe.findings)
    return list(rows.values())
