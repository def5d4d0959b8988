"""Writes a release in a neighbour's format; images that a neighbour wants otherwise are derived."""

from __future__ import annotations

from pathlib import Path

from race.core.export import harbor, soma, swebench
from race.core.export.facts import TaskFacts
from race.core.records import digest
from race.errors import CheckFailed, Missing
from race.ports import Engine
from race.store import Store, write_atomic
from race.work.task_facts import Exportable
from race.workbench import Workbench

FORMATS = ("soma", "swebench", "harbor")


def export_release(
    bench: Workbench, store: Store, found: Exportable, kind: str, output: Path
) -> list[Path]:
    """Write the tasks in one of FORMATS below `output`; the files that were written.

    Raises CheckFailed when there is no task to write, Missing when an image is not on this engine.
    """
    if not found.tasks:
        raise CheckFailed(f"{store.folder} has no task to export; `race verify` makes tasks ready")
    if kind == "soma":
        return [
            _write(output / "tasks.jsonl", soma.lines(soma.row(task) for task in found.tasks)),
            _write(output / "grading.jsonl", soma.lines(soma.grading_row(t) for t in found.tasks)),
        ]
    if kind == "swebench":
        rows = []
        for task in found.tasks:
            _derive(bench.engine, task, swebench.image(task), swebench.image_files(task))
            rows.append(swebench.row(task))
        return [_write(output / "tasks.jsonl", soma.lines(rows))]
    written = []
    for task in found.tasks:
        _derive(bench.engine, task, harbor.verifier_image(task), harbor.image_files(task))
        for name, data in harbor.folder(task).items():
            path = _write(output / task.instance_id / name, data)
            if data.startswith(b"#!"):
                path.chmod(0o755)
            written.append(path)
    return written


def _write(path: Path, data: bytes) -> Path:
    write_atomic(path, data)
    return path


def _derive(engine: Engine, task: TaskFacts, ref: str, files: dict[str, bytes]) -> None:
    """A grading image with what a neighbour's harness expects on top; nothing in it is replaced."""
    base = engine.image(task.test_image)
    if base is None:
        raise Missing(f"there is no image {task.test_image} on this engine; `race seal` builds it")
    recipe = digest({"base": base.id, "files": {n: d.decode("latin-1") for n, d in files.items()}})
    have = engine.image(ref)
    if have is None or have.labels.get("race.recipe") != recipe:
        labels = {"race.recipe": recipe, "race.instance": task.instance_id}
        engine.build(files, tag=ref, labels=labels)
