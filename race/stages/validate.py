"""`race validate`: build the environment and prove that the bug reproduces, with an error bound."""

from __future__ import annotations

from race.core.records import Mined, digest
from race.core.validated import Validated
from race.errors import Malformed
from race.settings import ProjectSection
from race.stages._loop import stage_command
from race.store import Store, TaskFolder
from race.work.stage import Desk, Stage
from race.work.validating import prepare, validate_task

_NO_PROJECT = ProjectSection()


def inputs(task: TaskFolder, store: Store) -> dict[str, str]:
    """The mined change with its patches, how the matrix runs, and what is set for this project."""
    mined = task.read(Mined)
    project = store.settings.projects.get(mined.repo, _NO_PROJECT) if mined else _NO_PROJECT
    return {
        "mine": task.record_digest("mine"),
        "settings": store.settings.slice_digest("validate"),
        "project": digest(project.model_dump(mode="json")),
    }


def work(desk: Desk) -> Validated:
    """Validate one task. Choices and sightings of an earlier record of the same inputs are kept."""
    mined = desk.task.read(Mined)
    if mined is None or mined.fix_patch is None or mined.test_patch is None:
        raise Malformed(desk.task.path / "mine.json", "", "an accepted task without its patches")
    earlier = desk.task.read(Validated)
    prepared = prepare(desk, mined, earlier)
    same = earlier is not None and earlier.inputs == inputs(desk.task, desk.store)
    return validate_task(desk, prepared, earlier if same else None)


STAGE = Stage("validate", Validated, inputs, work, engine=True)
command = stage_command(
    STAGE,
    "Build each task's environment and prove that its bug reproduces: the 2x2 matrix of old and new "
    "tests with and without the fix, then repeats that bound how often a verdict would be wrong.",
    ("race validate tasks/sample -j 2", "race validate tasks/2026-q1 agronholm__anyio-1145 --force -v"),
)
