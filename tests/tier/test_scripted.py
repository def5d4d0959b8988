"""Scripted agents: real commands, made from the fix, the same every time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from race.core.scripted import SKILLS, script, simulated_tokens
from race.errors import UsageError

ODD = {
    "plain.py": (b"a = 1\nb = 2\n", b"a = 1\nb = 3\n"),
    "it's odd.py": (b"x = 1\n", b"x = '$HOME `date` \\\\ \"q\"'\n"),
    "gone.py": (b"g = 1\n", None),
    "new.py": (None, b"n = 1\nTHE_CHANGE\n"),
    "crlf.py": (b"a = 1\r\nb = 2\r\n", b"a = 1\r\nb = 9\r\n"),
    "latin.py": (b"# caf\xe9\na = 1\n", b"# caf\xe9\na = 2\n"),
    "data.bin": (b"\0\1\2", b"\0\3\2\xff"),
    "two.py": (
        b"".join(b"l%d\n" % number for number in range(60)),
        b"".join(b"l%d\n" % (number if number not in (5, 50) else -number) for number in range(60)),
    ),
}


def git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, check=True
    ).stdout


def write(folder: Path, side: int) -> None:
    for name, sides in ODD.items():
        path, data = folder / name, sides[side]
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(data)


@pytest.fixture
def fix(tmp_path: Path) -> tuple[Path, bytes]:
    """A repository at the base, and a fix of every odd kind."""
    repository = tmp_path / "repo"
    repository.mkdir()
    git(repository, "init", "-q")
    write(repository, 0)
    git(repository, "add", "-A")
    git(repository, "-c", "user.name=S", "-c", "user.email=s@example.invalid", "commit", "-qm", "base")
    write(repository, 1)
    git(repository, "add", "-A")
    patch = git(repository, "diff", "--cached", "--binary", "--full-index", "--no-renames")
    git(repository, "reset", "-q", "--hard")
    return repository, patch


def _knowing(instance_id: str) -> int:
    """An attempt at which the stubborn script knows the fix."""
    return next(
        number
        for number in (1, 2, 3)
        if any(
            "git apply" in command
            for command in script("scripted/stubborn", big_fix(5), instance_id, number)
        )
    )


def test_a_script_that_knows_the_fix_makes_it(fix: tuple[Path, bytes]) -> None:
    """Its commands, run by bash, turn the base into the fixed tree, whatever the files hold."""
    repository, patch = fix
    for command in script("scripted/stubborn", patch, "a__b-1", _knowing("a__b-1")):
        subprocess.run(["bash", "-c", command], cwd=repository, capture_output=True, check=False)
    for name, (_, after) in ODD.items():
        path = repository / name
        assert (path.read_bytes() if path.exists() else None) == after, name


def test_a_script_that_does_not_know_it_mends_nothing(fix: tuple[Path, bytes]) -> None:
    """An idle script changes nothing; one that guesses adds a comment."""
    repository, patch = fix
    for command in script("scripted/idle", patch, "a__b-1", 1):
        subprocess.run(["bash", "-c", command], cwd=repository, capture_output=True, check=False)
    assert git(repository, "status", "--porcelain") == b""


def big_fix(lines: int) -> bytes:
    body = b"".join(b"+x%d\n" % number for number in range(lines))
    return (
        b"diff --git a/a.py b/a.py\nindex %s..%s 100644\n--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,%d @@\n"
        % (b"1" * 40, b"2" * 40, lines)
    ) + body


@pytest.mark.parametrize(
    ("agent", "lines", "solved"),
    [
        ("scripted/steady", 60, 6),
        ("scripted/steady", 61, 0),
        ("scripted/half", 10, 6),
        ("scripted/half", 30, 3),
        ("scripted/half", 61, 0),
        ("scripted/stubborn", 500, 4),
        ("scripted/idle", 1, 0),
    ],
)
def test_skill_is_what_it_is_said_to_be(agent: str, lines: int, solved: int) -> None:
    """Of six attempts a script knows the fix in as many as its skill says."""
    fix = big_fix(lines)
    scripts = [script(agent, fix, "a__b-1", number) for number in range(1, 7)]
    assert sum(any("git apply" in command for command in commands) for commands in scripts) == solved
    assert scripts == [script(agent, fix, "a__b-1", number) for number in range(1, 7)]
    assert all(commands[-1] == "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" for commands in scripts)


def test_an_unknown_script_is_an_error_of_use() -> None:
    """The error lists the scripts that there are."""
    with pytest.raises(UsageError, match=r"scripted/half.*scripted/steady"):
        script("scripted/clever", b"", "a__b-1", 1)
    assert "scripted/idle" in SKILLS


def test_simulated_tokens_grow_as_a_conversation_does() -> None:
    """Every call pays again, at the cached price, for what was said before."""
    one = simulated_tokens("s" * 400, ["a" * 40])
    assert one == (400, 0, 30)
    assert simulated_tokens("s" * 400, ["a" * 40, "b"]) == (600, 430, 50)
