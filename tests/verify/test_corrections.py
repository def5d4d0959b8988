"""Faults of lists and patches that the release check puts right, by what really runs."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from small_checks import desk_of, smallest

from race.core.records import Mined
from race.core.sealed import Sealed
from race.core.validated import Validated
from race.store import Store, TaskFolder
from race.work.sealing import materials
from race.work.source import read_source
from race.work.verifying import verify_task
from race.workbench import Workbench

pytestmark = pytest.mark.engine

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


def test_a_fix_that_does_not_apply_is_excluded_with_that_reason(
    release: Path, bench: Workbench, tmp_path: Path
) -> None:
    """What keeps the reference fix from being graded is the reason; no id is corrected for it."""
    copy = tmp_path / "release"
    shutil.copytree(release, copy)
    store = Store(copy)
    task = smallest(store)
    mined, validated = task.read(Mined), task.read(Validated)
    assert mined and validated and mined.fix_patch  # noqa: PT018
    lines = task.read_file(mined.fix_patch).splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.startswith(b" "))
    lines[first] = b" nothing = 'of the kind'\n"
    fix = task.write_file("fix.patch", b"".join(lines))
    task.write(mined.model_copy(update={"fix_patch": fix}))
    record = verify_task(desk_of(store, task, bench))
    assert not record.accepted
    assert record.corrections == ()
    assert record.fail_to_pass == validated.fail_to_pass
    assert [run.verdict for run in (*record.gold, *record.empty)] == ["refused", "unresolved"]
    (finding,) = [f for f in record.findings if f.rule == "gold"]
    assert "gold-1); refused: the patch does not apply exactly" in finding.message
    assert record.exclusion.startswith(finding.message)
