"""The sample project: the same commits everywhere, and the history that the README promises."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from race.cli import run
from race.errors import UsageError
from race.sample import HEAD, writing
from race.sample.changes import Change, changes

GOOD = {3, 7, 12, 15, 17, 23, 24, 26, 29, 31, 32}
BAD = {2, 5, 8, 10, 13, 18, 20, 21, 27}
CHANGES = {change.number: change for change in changes() if change.number}


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def suite(tree: Path, *arguments: str) -> dict[str, str]:
    """Test id -> outcome, from a real pytest run on a tree."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tree / "src"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q", *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("PASSED", "FAILED", "ERROR"):
            outcomes[rest.split(" - ")[0]] = word
    return outcomes


def cell(project: Path, number: int, to: Path) -> Path:
    """The tree before a pull request, with its tests as they are after it."""
    merge = commit_of(project, number)
    for commit, paths in ((f"{merge}^1", ["."]), (merge, ["tests"])):
        archive = subprocess.run(
            ["git", "-C", str(project), "archive", commit, *paths], capture_output=True, check=True
        ).stdout
        to.mkdir(exist_ok=True)
        subprocess.run(["tar", "-x", "-C", str(to)], input=archive, check=True)
    return to


def commit_of(project: Path, number: int) -> str:
    """The commit on the main branch that brought a pull request in."""
    for line in git(project, "log", "--first-parent", "--format=%H %s").splitlines():
        commit, subject = line.split(" ", 1)
        if subject.endswith(f"(#{number})") or subject.startswith(f"Merge pull request #{number} "):
            return commit
    raise LookupError(number)


def test_writes_the_same_commits_again(sample_project: Path, tmp_path: Path) -> None:
    """Every copy of the sample has the same commits, whatever the user's git is configured to do."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\nname = Somebody\nemail = else@example.invalid\n[core]\nautocrlf = true\n"
        "[commit]\ngpgsign = true\n[init]\ndefaultBranch = trunk\n"
    )
    environment = os.environ | {
        "HOME": str(home),
        "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
        "TZ": "Asia/Tokyo",
    }
    code = "import sys; from race.cli import run; sys.exit(run(['sample', sys.argv[1]]))"
    copy = tmp_path / "copy"
    done = subprocess.run([sys.executable, "-c", code, str(copy)], env=environment, check=False)
    assert done.returncode == 0
    assert git(copy, "rev-parse", "main").strip() == HEAD
    assert git(sample_project, "rev-parse", "main").strip() == HEAD
    assert git(copy, "status", "--porcelain") == ""
    git(copy, "fsck", "--strict")


def test_is_left_alone_when_it_is_there(sample_project: Path, tmp_path: Path) -> None:
    """A second `race sample` changes nothing; a folder with other things in it is refused."""
    copy = tmp_path / "copy"
    shutil.copytree(sample_project, copy)
    (copy / "mine.txt").write_text("kept")
    assert run(["sample", str(copy)]) == 0
    assert (copy / "mine.txt").read_text() == "kept"
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("no copy of it")
    assert run(["sample", str(other)]) == 2
    assert [entry.name for entry in other.iterdir()] == ["thesis.txt"]


def test_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history that cannot be replayed leaves nothing behind."""

    def broken() -> list[Change]:
        first, second, *_ = changes()
        return [
            first,
            Change(9, "x", "squash", "", 0, second.date, "", (*second.commits, *first.commits)),
        ]

    monkeypatch.setattr(writing, "changes", broken)
    with pytest.raises(Exception, match="git apply"):
        writing.write_sample(tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    """A file where the folder should be is an error of use."""
    target = tmp_path / "file"
    target.write_text("x")
    with pytest.raises(UsageError, match="is there already"):
        writing.write_sample(target)


def test_holds_both_styles_and_every_kind() -> None:
    """At least 14 pull requests, merged and squashed, on both sides of the era's cut."""
    assert CHANGES.keys() == GOOD | BAD
    assert {CHANGES[number].style for number in GOOD} == {"merge", "squash"}
    assert {change.style for change in CHANGES.values() if change.number in BAD} == {"merge", "squash"}
    dates = [change.date for change in changes()]
    assert dates == sorted(dates)
    assert {date[:4] for date in dates} == {"2025", "2026"}
    assert any(change.behind for change in changes())
    assert any(len(change.commits) > 1 for change in changes())


def test_says_that_it_is_a_sample(sample_project: Path) -> None:
    """Whoever opens the project reads that it is a sample."""
    assert "**sample project**" in (sample_project / "README.md").read_text()
    assert "sample project" in (sample_project / "pyproject.toml").read_text()


@pytest.mark.parametrize("number", sorted(GOOD | {18, 20}))
@pytest.mark.slow
def test_each_fix_is_what_it_is_said_to_be(sample_project: Path, tmp_path: Path, number: int) -> None:
    """A good fix's tests fail before and pass after, and it breaks nothing; #18 and #20 do otherwise."""
    merge = commit_of(sample_project, number)
    before = suite(cell(sample_project, number, tmp_path / "before"))
    after_tree = tmp_path / "after"
    git(sample_project, "worktree", "add", "--detach", "--force", str(after_tree), merge)
    try:
        after = suite(after_tree)
    finally:
        git(sample_project, "worktree", "remove", "--force", str(after_tree))
    fails = {name for name, outcome in before.items() if outcome != "PASSED"}
    broken = {name for name, outcome in after.items() if outcome != "PASSED"}
    assert bool(fails) == (number != 18)
    expected = {"tests/test_limiter.py::test_the_newest_waiter_is_next"} if number == 20 else set()
    assert broken == expected
    assert not fails & broken


@pytest.mark.slow
def test_the_flaky_race_shows_about_three_times_in_four(sample_project: Path, tmp_path: Path) -> None:
    """Without its fix, #27's test fails with a probability of 0.75: 60 runs, four sigmas wide."""
    tree = cell(sample_project, 27, tmp_path / "before")
    path = tree / "tests" / "test_refresher.py"
    path.write_text(
        path.read_text().replace(
            "def test_a_late_answer_does_not_replace_a_newer_one():",
            "import pytest\n\n\n@pytest.mark.parametrize('turn', range(60))\n"
            "def test_a_late_answer_does_not_replace_a_newer_one(turn):",
        )
    )
    outcomes = suite(tree, "tests/test_refresher.py")
    failed = sum(outcome == "FAILED" for outcome in outcomes.values())
    assert len(outcomes) == 61
    assert 31 <= failed <= 58
