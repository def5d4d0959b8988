"""The release check on a real release: exclusions, resumption, foreign lists."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_checks import smallest

from race.core.foreign import read_rows
from race.core.sealed import Sealed
from race.core.verified import Verified
from race.errors import Missing
from race.ports import Engine
from race.progress import Progress
from race.stages._loop import run_stage
from race.store import Store, TaskFolder
from race.work.exporting import export_release
from race.work.foreign_check import check_foreign
from race.work.sealing import materials
from race.work.stage import stage_named
from race.work.task_facts import exportable
from race.work.verifying import named_otherwise
from race.workbench import Workbench

pytestmark = pytest.mark.engine


def test_a_record_that_names_another_image_is_one_finding(release: Path) -> None:
    """The seal's record has to name the images that the release folder makes."""
    store = Store(release)
    task = smallest(store)
    made = materials(task, store)
    env, test = made.recipes
    sealed = Sealed(instance_id=task.id, accepted=True, env_image=env, test_image=test)
    assert named_otherwise(sealed, made, made) == []
    other = env.model_copy(update={"recipe": "e" * 64})
    (finding,) = named_otherwise(sealed.model_copy(update={"env_image": other}), made, made)
    assert finding.rule == "image-digest"
    assert finding.message.startswith(f"seal.json names {other.ref} by recipe eeeeeeeeeeee, but ")


def verified(store: Store, task: TaskFolder, bench: Workbench) -> dict[str, bytes]:
    """One undisturbed check: everything in the task's folder afterwards."""
    tally = run_stage(
        stage_named("verify"), store, bench, [task.id], force=True,
        progress=Progress("verify", 1, quiet=True),
    )  # fmt: skip
    assert tally.done + tally.rejected == [task.id]
    return {path.name: path.read_bytes() for path in task.path.iterdir()}


@pytest.fixture(scope="module")
def undisturbed(release: Path, bench: Workbench) -> dict[str, bytes]:
    """What a check of the smallest task writes when nothing disturbs it."""
    store = Store(release)
    return verified(store, smallest(store), bench)


def test_a_check_without_images_of_the_release_gives_the_same_record(
    release: Path, bench: Workbench, engine: Engine, undisturbed: dict[str, bytes]
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
    assert verified(store, task, bench) == undisturbed
    assert engine.image(sealed.test_image.ref)


def test_a_task_that_flips_between_two_checks_is_unstable(
    release: Path, bench: Workbench, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """The same recipes held once and once they did not: rejected, with the runs of both checks."""
    copy = tmp_path / "release"
    shutil.copytree(release, copy)
    store = Store(copy)
    task = smallest(store)
    *_, last = checks = json.loads(task.evidence_path("checks.json").read_bytes())
    assert last["stood"]
    checks[:] = [last | {"stood": False}]
    task.evidence("checks.json", json.dumps(checks).encode())
    verified(store, task, bench)
    record = task.read(Verified)
    assert record
    assert not record.accepted
    (finding,) = [f for f in record.findings if f.rule == "unstable"]
    runs = [run.run_id for run in (*record.gold, *record.empty)]
    assert runs
    assert set(runs).isdisjoint(last["runs"])
    for run_id in (*last["runs"], *runs):
        assert run_id in finding.message
    assert record.exclusion == finding.message


ELSEWHERE = """\
diff --git a/nowhere.py b/nowhere.py
--- a/nowhere.py
+++ b/nowhere.py
@@ -1,1 +1,1 @@
-a = 1
+a = 2
"""


def test_a_foreign_list_is_checked_row_by_row(release: Path, bench: Workbench, tmp_path: Path) -> None:
    """A SOMA row is graded with its fix and with nothing; a wrong fix or image excludes a row."""
    store = Store(release)
    found = exportable(store)
    found.tasks[:] = [t for t in found.tasks if t.instance_id == smallest(store).id]
    assert found.tasks
    export_release(bench, store, found, "soma", tmp_path)
    row = json.loads((tmp_path / "tasks.jsonl").read_text())
    good, bad, gone, stray = read_rows(
        "\n".join(
            json.dumps(r)
            for r in (
                row,
                row | {"instance_id": "x__bad-1", "patch": row["patch"].replace("\n+", "\n+    #")},
                row | {"instance_id": "x__gone-2", "test_image": "race-none:none"},
                row | {"instance_id": "x__stray-3", "patch": ELSEWHERE},
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
    (finding,) = check_foreign(bench, stray, say).findings
    assert finding.message == "gold-1: the reference fix does not apply by any of the three ways"


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
