"""The release check on a real release: corrections, exclusions, resumption, foreign lists."""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from race.core.foreign import read_rows
from race.core.records import Mined
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
from race.work.sealing import materials
from race.work.source import read_source
from race.work.stage import Desk, stage_named
from race.work.task_facts import exportable
from race.work.verifying import named_otherwise, verify_task
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


NEVER = "def test_that_never_passes():\n    assert False, 'this is wrong with and without the fix'\n"


def spoiled(store: Store, task: TaskFolder, clone: Path) -> tuple[str, str]:
    """Give a task every fault that a check can put right; the ids that must go.

    The change gets a helper file that its test patch misses and a test file that stands in its fix
    patch, a test that never passes, and an id that nobody collects. `clone` becomes its project.
    """
    mined, validated, sealed = task.read(Mined), task.read(Validated), task.read(Sealed)
    assert mined and validated and sealed and validated.source  # noqa: PT018
    assert mined.fix_patch and mined.test_patch  # noqa: PT018
    clone.mkdir()
    with tarfile.open(fileobj=io.BytesIO(read_source(task, validated.source))) as archive:
        archive.extractall(clone, filter="data")
    git(clone, "init", "-q", "-b", "main")
    base = committed(clone, "base")
    for patch in (mined.fix_patch, mined.test_patch):
        subprocess.run(["git", "-C", str(clone), "apply"], input=task.read_file(patch), check=True)
    hidden = validated.fail_to_pass[0].partition("::")[0]
    folder = Path(hidden).parent
    with (clone / hidden).open("a") as stream:
        stream.write(f"\n\nimport clock_of_the_tests  # noqa: E402, F401\n\n\n{NEVER}")
    (clone / folder / "clock_of_the_tests.py").write_text("TICKS_OF_THE_CLOCK = 60\n")
    (clone / folder / "test_in_the_wrong_patch.py").write_text("def test_nothing_much():\n    pass\n")
    merge = committed(clone, "the whole change")
    whole = ("diff", "--full-index", base, merge, "--")
    stray = str(folder / "test_in_the_wrong_patch.py")
    product = [line[6:] for line in task.read_file(mined.fix_patch).decode().splitlines()
               if line.startswith("+++ b/")]  # fmt: skip
    fix = task.write_file("fix.patch", git(clone, *whole, *product, stray).encode())
    tests = task.write_file("test.patch", git(clone, *whole, hidden).encode())
    task.write(
        mined.model_copy(
            update={
                "base_commit": base, "merge_commit": merge, "fix_patch": fix, "test_patch": tests,
            }
        )
    )  # fmt: skip
    ghost, never = validated.fail_to_pass[0] + "_renamed", f"{hidden}::test_that_never_passes"
    lists = {
        "fail_to_pass": (*validated.fail_to_pass, ghost, never),
        "pass_to_pass": (*validated.pass_to_pass, validated.fail_to_pass[0]),
    }
    task.write(validated.model_copy(update=lists))
    env, test = materials(task, store).recipes
    task.write(sealed.model_copy(update={"env_image": env, "test_image": test}))
    store.write_local("clones.json", {mined.repo: str(clone)})
    return ghost, never


def git(folder: Path, *words: str) -> str:
    """Run git; what it prints."""
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=True)
    return done.stdout.decode()


def committed(folder: Path, message: str) -> str:
    """Commit everything; the id."""
    git(folder, "add", "-A", "-f")
    git(
        folder, "-c", "user.name=Sample Author", "-c", "user.email=sample@example.invalid",
        "commit", "-qm", message,
    )  # fmt: skip
    return git(folder, "rev-parse", "HEAD").strip()


def test_lists_and_patches_are_corrected_by_what_really_runs(
    release: Path, bench: Workbench, tmp_path: Path
) -> None:
    """Ids that are gone or never pass, a missing helper, a stray test file: put right, recorded with
    before and after, and the task ships with the lists that it should have had."""
    copy = tmp_path / "release"
    shutil.copytree(release, copy)
    store = Store(copy)
    task = smallest(store)
    right = task.read(Validated)
    assert right
    ghost, never = spoiled(store, task, tmp_path / "clone")
    record = verify_task(desk_of(store, task, bench))
    assert record.accepted, record.findings
    assert (record.fail_to_pass, record.pass_to_pass) == (right.fail_to_pass, right.pass_to_pass)
    folder = Path(never.partition("::")[0]).parent
    stray, helper = (str(folder / n) for n in ("test_in_the_wrong_patch.py", "clock_of_the_tests.py"))
    assert {c.rule: (c.before, c.after) for c in record.corrections} == {
        "test-file-in-fix-patch": ((stray,), (f"test_patch: {stray}",)),
        "helper-file-missing": ((), (helper,)),
        "in-both-lists": ((right.fail_to_pass[0],), ()),
        "not-collected": ((ghost,), ()),
        "never-passes-with-the-fix": ((never,), ()),
    }
    assert record.fix_patch
    assert record.test_patch
    assert stray.encode() not in task.read_file(record.fix_patch)
    assert helper.encode() in task.read_file(record.test_patch)
    assert [run.verdict for run in (*record.gold, *record.empty)] == ["resolved", "unresolved"]
    assert record.collected == len(record.fail_to_pass) + len(record.pass_to_pass)


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


KILLS = 3


def containers_of(instance_id: str) -> list[str]:
    """Ids of all containers, running or not, that were made of this task's images."""
    listing = ["docker", "ps", "-aq", "--filter", f"label=race.instance={instance_id}"]
    return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()


def test_a_check_that_is_killed_and_resumed_gives_the_same_record(
    release: Path, undisturbed: dict[str, bytes]
) -> None:
    """SIGKILL at random moments; the check that is let finish writes the same bytes, leaves nothing."""
    task = smallest(Store(release))
    command = [sys.executable, "-m", "race", "verify", str(release), task.id]
    longest = task.noted("verify")["seconds"]  # so that any step of a check can be hit
    moments, hit = random.Random(20261130), 0
    for _ in range(KILLS):
        (task.path / "verify.json").unlink(missing_ok=True)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.3, longest))
        hit += process.poll() is None
        process.kill()
        process.wait()
    assert hit >= KILLS // 2, "the check was over before it was killed"
    (task.path / "verify.json").unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in task.path.iterdir()} == undisturbed
    assert containers_of(task.id) == []
    assert not list(release.rglob(".writing-*"))


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
