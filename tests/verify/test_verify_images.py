"""The release check on a real release: corrections, exclusions, resumption, foreign lists."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from race.core.foreign import read_rows
from race.core.sealed import Sealed
from race.core.validated import Validated
from race.core.verified import Verified
from race.errors import Missing
from race.ports import Engine
from race.progress import Progress
from race.stages._loop import run_stage
from race.store import Store, TaskFolder
from race.work.exporting import export_release
from race.work.foreign_check import check_foreign
from race.work.stage import Desk, stage_named
from race.work.task_facts import exportable
from race.work.verifying import verify_task
from race.workbench import Workbench

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def release(built_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the built sample with a short check."""
    folder = tmp_path_factory.mktemp("verify") / "sample"
    shutil.copytree(built_sample, folder)
    path = folder / "release.toml"
    path.write_text(path.read_text() + "\n[verify]\ngold = 1\nempty = 1\nrepeats = 2\n")
    return folder


def smallest(store: Store) -> TaskFolder:
    """The verified task with the fewest listed tests."""
    tasks = [store.task(i) for i in store.ids()]
    done = [(t, v) for t in tasks if (v := t.read(Verified)) is not None and v.accepted]
    return min(done, key=lambda pair: (len(pair[1].pass_to_pass), pair[0].id))[0]


def desk_of(store: Store, task: TaskFolder, bench: Workbench) -> Desk:
    """What the stage function works with."""
    return Desk(task, store, bench, Progress("verify", 1, quiet=True))


def test_lists_are_corrected_by_what_pytest_collects(release: Path, bench: Workbench) -> None:
    """An id that nobody collects and one listed twice over are taken out, recorded, and it ships."""
    store = Store(release)
    task = smallest(store)
    validated = task.read(Validated)
    assert validated is not None
    keep = {name: (task.path / f"{name}.json").read_bytes() for name in ("validate", "verify", "seal")}
    ghost = validated.fail_to_pass[0] + "_that_was_renamed"
    task.write(
        validated.model_copy(
            update={
                "fail_to_pass": (*validated.fail_to_pass, ghost),
                "pass_to_pass": (*validated.pass_to_pass, validated.fail_to_pass[0]),
            }
        )
    )
    try:
        record = verify_task(desk_of(store, task, bench))
        assert record.accepted, record.findings
        assert record.fail_to_pass == validated.fail_to_pass
        assert {c.rule: c.before for c in record.corrections} == {
            "in-both-lists": (validated.fail_to_pass[0],),
            "not-collected": (ghost,),
        }
        assert [run.run_id for run in (*record.gold, *record.empty)] == ["gold-1", "empty-1"]
        assert record.collected == len(record.fail_to_pass) + len(record.pass_to_pass)
    finally:
        for name, data in keep.items():
            (task.path / f"{name}.json").write_bytes(data)


def test_a_check_without_images_of_the_release_gives_the_same_record(
    release: Path, bench: Workbench, engine: Engine
) -> None:
    """With its images gone, a task is rebuilt from its folder; two checks write the same bytes."""
    store = Store(release)
    task = smallest(store)
    sealed = task.read(Sealed)
    assert sealed
    assert sealed.env_image
    assert sealed.test_image
    for image in (sealed.env_image, sealed.test_image):
        engine.remove_image(image.ref)
    records = []
    for _ in range(2):
        tally = run_stage(
            stage_named("verify"), store, bench, [task.id], force=True,
            progress=Progress("verify", 1, quiet=True),
        )  # fmt: skip
        assert tally.done == [task.id]
        records.append((task.path / "verify.json").read_bytes())
    assert records[0] == records[1]
    assert engine.image(sealed.test_image.ref)


def test_a_foreign_list_is_checked_row_by_row(release: Path, bench: Workbench, tmp_path: Path) -> None:
    """A SOMA row is graded with its fix and with nothing; a wrong fix or image excludes a row."""
    store = Store(release)
    found = exportable(store)
    found.tasks[:] = [t for t in found.tasks if t.instance_id == smallest(store).id]
    assert found.tasks
    export_release(bench, store, found, "soma", tmp_path)
    row = json.loads((tmp_path / "tasks.jsonl").read_text())
    good, bad, gone = read_rows(
        "\n".join(
            json.dumps(r)
            for r in (
                row,
                row | {"instance_id": "x__bad-1", "patch": row["patch"].replace("\n+", "\n+    #")},
                row | {"instance_id": "x__gone-2", "test_image": "race-none:none"},
            )
        ).encode(),
        "rows",
    )
    say = lambda _: None  # noqa: E731
    checked = check_foreign(bench, good, say, runs=1)
    assert checked.accepted, checked.findings
    assert [run.verdict for run in (*checked.gold, *checked.empty)] == ["resolved", "unresolved"]
    assert "gold" in {f.rule for f in check_foreign(bench, bad, say, runs=1, audit=False).findings}
    assert {f.rule for f in check_foreign(bench, gone, say).findings} == {"no-image"}


def test_swebench_export_without_images_says_what_to_do(
    release: Path, bench: Workbench, engine: Engine, tmp_path: Path
) -> None:
    """An export that derives images needs those of the release."""
    store = Store(release)
    found = exportable(store)
    task = found.tasks[0]
    found.tasks[:] = [type(task)(**{**task.__dict__, "test_image": "race-none:none"})]
    with pytest.raises(Missing, match="race seal"):
        export_release(bench, store, found, "swebench", tmp_path)
