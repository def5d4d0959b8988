"""Reading the grader's report, and what the grade and attack commands say to bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from race.cli import run
from race.core.grading import GraderBroke, read_report, soma_resolved, without_container
from race.core.records import Finding
from race.core.validated import Validated
from race.errors import Missing
from race.store import TaskFolder
from race.work.listed import listed_tests

LISTED = (("t.py::a",), ("t.py::b",))
RELEASE = """
[release]
name = "small"
canary = "00000000-0000-4000-8000-000000000000"
"""


def report(verdict: str = "resolved", outcome: str = "passed", **said: Any) -> dict[str, Any]:
    """A report of two tests."""
    return {
        "tests": [{"nodeid": name, "outcome": outcome} for (name,) in LISTED],
        "race": {
            "instance_id": "o__r-1",
            "verdict": verdict,
            "reasons": [],
            "outcomes": {"t.py::a": outcome},
            "messages": {},
            "set_aside": ["tests/x.py"],
            "checks": [],
            "pytest_seconds": 1.5,
            **said,
        },
    }


def read(value: object) -> Any:
    """The verdict of a report."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_report(text, "o__r-1", *LISTED, image="sha256:1", patch=b"p", seconds=2.0)


def test_a_report_becomes_a_verdict() -> None:
    """Verdict, outcomes of every listed id (missing ones too) and the paths set aside are read."""
    graded = read(report())
    assert graded.resolved
    assert dict(graded.fail_to_pass) == {"t.py::a": "passed"}
    assert dict(graded.pass_to_pass) == {"t.py::b": "missing"}
    answer = graded.as_json()
    wanted = "instance_id resolved verdict reasons fail_to_pass pass_to_pass set_aside image seconds"
    assert set(wanted.split()) <= set(answer)
    assert (answer["set_aside"], answer["pytest_seconds"]) == (["tests/x.py"], 1.5)
    assert len(answer["patch"]) == 64


def test_what_a_submission_says_is_harmless_to_print() -> None:
    """Halves of characters and commands for a terminal in an error's text come out as escapes."""
    graded = read(report("unresolved", "failed", reasons=["a: \udcff\x1b[2J\rresolved", "ü\tb"]))
    assert graded.reasons == ("a: \\udcff\\x1b[2J\\rresolved", "ü\tb")
    "".join(graded.reasons).encode()


@pytest.mark.parametrize(
    "broken",
    [
        b"not json",
        {"tests": []},
        report(accident="MemoryError()"),
        report(unfinished=True),
        report(instance_id="o__r-2"),
        report(verdict="excellent"),
        report(verdict="unresolved"),
        report(outcome="failed"),
        report(verdict="tampered"),
    ],
)
def test_a_report_that_contradicts_itself_is_no_verdict(broken: object) -> None:
    """A report that is cut off, about another task, or at odds with itself is an accident."""
    with pytest.raises(GraderBroke):
        read(broken)


def test_only_passed_counts_and_no_list_is_no_pass() -> None:
    """A SOMA reader counts `passed` alone, and an empty list of tests resolves nothing."""
    for outcome in ("failed", "error", "skipped", "xfailed", "xpassed"):
        assert not soma_resolved(report(outcome=outcome), ["t.py::a"])
    assert soma_resolved(report(), ["t.py::a", "t.py::b"])
    assert not soma_resolved(report(), [])
    assert not soma_resolved(report(), ["t.py::a", "t.py::c"])


def test_nothing_needs_no_container() -> None:
    """An empty patch is unresolved at once; anything that looks like a diff has to be looked at."""
    graded = without_container("o__r-1", b" \n", *LISTED, "sha256:1")
    assert graded is not None
    assert (graded.verdict, dict(graded.fail_to_pass)) == ("unresolved", {"t.py::a": "missing"})
    assert without_container("o__r-1", b"diff --git a/x b/x\n", *LISTED, "sha256:1") is None


def test_a_task_that_validation_rejected_cannot_be_graded_and_says_why(tmp_path: Path) -> None:
    """Not that validation has to run first, for it has."""
    task = TaskFolder(tmp_path, "o__r-1")
    with pytest.raises(Missing, match="`race validate` finds them"):
        listed_tests(task)
    shown = Finding(rule="no-fail-to-pass", message="nothing shows the bug")
    task.write(Validated(instance_id=task.id, accepted=False, findings=(shown,)))
    with pytest.raises(Missing, match="validate rejected it: nothing shows the bug"):
        listed_tests(task)


def test_commands_say_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No release, no such task, no patch and an unknown entry are one line and the documented code."""
    (tmp_path / "release.toml").write_text(RELEASE)
    patch = tmp_path / "p.patch"
    patch.write_text("diff --git a/x b/x\n")
    folder = str(tmp_path)
    cases = [
        (["grade", folder, "o__r-1", "--patch", str(tmp_path / "none")], 2, "cannot read the patch"),
        (["grade", str(tmp_path / "no"), "o__r-1", "--patch", str(patch)], 3, "no release folder"),
        (["grade", folder, "o__r-1", "--patch", str(patch)], 2, "has no task 'o__r-1'"),
        (["attack", folder, "o__r-1", "--only", "conftest-rot"], 2, "did you mean conftest-root?"),
    ]
    for arguments, code, words in cases:
        assert run(arguments) == code
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        assert words in lines[0]
    for command in ("grade", "attack"):
        assert run([command, "--help"]) == 0
        assert capsys.readouterr().out.count(f"  race {command} ") == 2
