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
            for base, ref, user in (
                (task.test_image, swebench.image(task), "root"),
                (task.env_image, swebench.agent_image(task), "agent"),
            ):
                _derive(bench.engine, task, base, ref, swebench.image_files(task, base, user))
            rows.append(swebench.row(task))
        return [_write(output / "tasks.jsonl", soma.lines(rows))]
    written = []
    for task in found.tasks:
        files = harbor.image_files(task)
        _derive(bench.engine, task, task.test_image, harbor.verifier_image(task), files)
        for name, data in harbor.folder(task).items():
            path = _write(output / task.instance_id / name, data)
            if data.startswith(b"#!"):
                path.chmod(0o755)
            written.append(path)
    return written


def _write(path: Path, data: bytes) -> Path:
    write_atomic(path, data)
    return path


def _derive(engine: Engine, task: TaskFacts, base_ref: str, ref: str, files: dict[str, bytes]) -> None:
    """A shipped image with what a neighbour's harness expects on top; nothing in it is replaced."""
    base = engine.image(base_ref)
    if base is None:
        raise Missing(f"there is no image {base_ref} on this engine; `race seal` builds it")
    recipe = digest({"base": base.id, "files": {n: d.decode("latin-1") for n, d in files.items()}})
    have = engine.image(ref)
    if have is None or have.labels.get("race.recipe") != recipe:
        labels = {"race.recipe": recipe, "race.instance": task.instance_id}
        engine.build(files, tag=ref, labels=labels)
