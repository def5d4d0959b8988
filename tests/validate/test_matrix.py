import subprocess
from pathlib import Path

from race.core.matrix import (
    CELLS,
    Suite,
    cell_paths,
    has_fix,
    has_new_tests,
    modules_with_tests,
    next_run,
    schedule,
    spread,
    touched_files,
    touched_suite,
    whole_suite,
)


def _git(folder: Path, *words: str) -> bytes:
    return subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@example.invalid", *words],
        cwd=folder, check=True, capture_output=True,
    ).stdout  # fmt: skip


def _diff(folder: Path, before: dict[str, bytes], after: dict[str, bytes | None]) -> bytes:
    _git(folder, "init", "-q")
    for name, data in before.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "before")
    for name, value in after.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if value is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(value)
    _git(folder, "add", "-A")
    return _git(folder, "diff", "--cached", "--binary", "--full-index", "--no-renames")


def test_a_schedule_holds_every_cell_the_asked_number_of_times():
    """Every cell gets its runs, a round at a time."""
    plan = schedule(3)
    assert len(plan) == 12
    assert {cell: sum(c == cell for c, _ in plan) for cell in CELLS} == dict.fromkeys(CELLS, 3)
    assert {cell for cell, _ in plan[:4]} == set(CELLS)
    assert [cell for cell in CELLS if has_fix(cell)] == ["old-with", "new-with"]
    assert [cell for cell in CELLS if has_new_tests(cell)] == ["new-without", "new-with"]


def test_long_cells_start_first_and_rounds_stay_together():
    """Unknown cells first, then by what they took before; never a later round before an earlier one."""
    pending = schedule(2)
    assert next_run(pending, {}) == ("new-without", 0)
    lasted = {"new-without": 1.0, "new-with": 9.0, "old-without": 2.0}
    assert next_run(pending, lasted) == ("old-with", 0)
    later = [key for key in pending if key[1] == 1]
    assert next_run(later, lasted | {"old-with": 0.5}) == ("new-with", 1)
    assert next_run([("old-with", 0), *later], lasted | {"old-with": 0.5}) == ("old-with", 0)


def test_paths_of_a_real_git_diff_are_found_whatever_their_names(tmp_path):
    """Added, changed, deleted, binary, empty, spaced and non-ASCII paths come out as git means them."""
    patch = _diff(
        tmp_path,
        {
            "tests/test_a.py": b"one\n",
            "tests/test_gone.py": b"x\n",
            "tests/data.bin": b"\0\1",
            "tests/with space.py": b"a\n",
        },
        {
            "tests/test_a.py": b"one\ntwo\n--- a/tests/not_a_header.py\n",
            "tests/test_gone.py": None,
            "tests/test_new.py": b"def test(): pass\n",
            "tests/data.bin": b"\0\1\2",
            "tests/empty.py": b"",
            "tests/with space.py": b"b\n",
            "tests/tëst_ü.py": b"c\n",
        },
    )
    assert touched_files(patch) == {
        "tests/test_a.py": "changed",
        "tests/test_gone.py": "deleted",
        "tests/test_new.py": "added",
        "tests/data.bin": "changed",
        "tests/empty.py": "added",
        "tests/with space.py": "changed",
        "tests/tëst_ü.py": "added",
    }
    suite = touched_suite(patch)
    assert suite.width == "touched"
    assert suite.paths == ("tests/test_a.py", "tests/test_new.py")
    old = cell_paths(suite, "old-with", touched_files(patch))
    assert old == ("tests/test_a.py",)
    added = Suite(width="touched", paths=("tests/test_new.py",))
    assert cell_paths(added, "old-without", touched_files(patch)) is None
    assert cell_paths(added, "new-without", touched_files(patch)) == ("tests/test_new.py",)
    assert cell_paths(Suite(width="whole", paths=()), "old-with", touched_files(patch)) == ()


def test_helpers_are_run_only_when_there_is_nothing_else():
    """conftest and package files are never arguments; helpers only when nothing is named a test."""
    assert modules_with_tests(["tests/conftest.py", "tests/helper.py", "tests/__init__.py"]) == (
        "tests/helper.py",
    )
    both = ["tests/check_a.py", "tests/helper.py", "tests/test_b.py"]
    assert modules_with_tests(both, {"tests/check_a.py"}) == ("tests/check_a.py", "tests/test_b.py")
    assert modules_with_tests(["tests/helper.py", "pkg/tests/foo_test.py", "tests.py"]) == (
        "pkg/tests/foo_test.py",
        "tests.py",
    )


def test_the_whole_suite_is_the_outermost_test_folder():
    """The suite is widened to the test folders around the touched files, not to docs or examples."""
    whole = whole_suite(Suite(width="touched", paths=("pkg/tests/unit/test_a.py", "tests/test_b.py")))
    assert whole is not None
    assert whole.paths == ("pkg/tests", "tests")
    assert whole_suite(Suite(width="touched", paths=("test_top.py",))) is None
    assert whole_suite(Suite(width="touched", paths=())) is None


def test_spreading_takes_the_same_items_from_everywhere():
    """A sample of ids is even and repeatable."""
    assert spread(["a", "b"], 3) == ("a", "b")
    assert spread([str(n) for n in range(10)], 3) == ("0", "3", "6")
