"""Rows that somebody else wrote, and what their gradings print."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from race.cli import run
from race.core.foreign import log_outcomes, read_rows, report_outcomes, resolved
from race.errors import Malformed
from race.ports import Image
from race.work.foreign_check import check_foreign

SOMA = {
    "instance_id": "o__r-1", "patch": "p", "test_patch": "t", "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": [],
    "test_command": "pytest --json-report-file=/x/r.json tests", "images": {
        "env": {"ref": "i:1.env", "workdir": "/w"},
        "test": {"ref": "i:1.test", "workdir": "/w", "run_tests": "/go"},
    },
}  # fmt: skip
SWE = {
    "instance_id": "o__r-2", "image": "i:2", "eval_script": "echo", "FAIL_TO_PASS": '["a b"]',
    "PASS_TO_PASS": "[]", "patch": "p",
}  # fmt: skip


def lines(*rows: object) -> bytes:
    """Rows as JSONL with a blank line between."""
    return "\n\n".join(json.dumps(row) for row in rows).encode()


def test_both_kinds_are_read() -> None:
    """A SOMA row and a SWE-bench row, lists as lists or as text."""
    soma, swe = read_rows(lines(SOMA, SWE), "f")
    assert (soma.kind, soma.image, soma.env_image, soma.workdir) == ("soma", "i:1.test", "i:1.env", "/w")
    assert (soma.run_tests, soma.report) == ("/go", "/x/r.json")
    assert (swe.kind, swe.image, swe.workdir, swe.fail_to_pass) == (
        "swebench",
        "i:2",
        "/testbed",
        ("a b",),
    )


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ([1], "not an object"),
        ({"instance_id": " "}, "instance_id"),
        ({"instance_id": "x"}, "names no image"),
        ({"instance_id": "x", "image": "i"}, "eval_script"),
        (SOMA | {"FAIL_TO_PASS": "["}, "no JSON list"),
        (SOMA | {"FAIL_TO_PASS": [1]}, "not a list of test ids"),
    ],
)
def test_a_bad_row_is_one_line_with_its_place(row: object, what: str) -> None:
    """File, line and what is wrong."""
    with pytest.raises(Malformed, match=what) as caught:
        read_rows(lines(SWE, row), "list.jsonl")
    assert caught.value.place.startswith("line 3")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"[" * 100_000, "too deep"),
        (b'{"instance_id": "a__b-1", "patch": "\\ud800"}', "half of a character"),
        (
            b'{"instance_id": "a__b-1", "test_image": "x", "FAIL_TO_PASS": "%s"}' % (b"[" * 99_999),
            "JSON list",
        ),
        (b"\xff\xfe{}", "not JSON"),
    ],
)
def test_an_odd_line_is_one_line_with_its_place(line: bytes, what: str) -> None:
    """Great depth, half characters, other encodings: said with file and line."""
    with pytest.raises(Malformed, match=what) as told:
        read_rows(b"\n" + line + b"\n", "list.jsonl")
    assert "line 2" in str(told.value)


def test_a_report_of_great_depth_gives_nothing() -> None:
    """What a stranger's container writes cannot stop the check."""
    assert report_outcomes(b'{"tests": ' + b"[" * 100_000) is None


def test_a_second_row_of_one_id_and_an_empty_list_are_refused() -> None:
    """Nothing is dropped silently."""
    with pytest.raises(Malformed, match="second row"):
        read_rows(lines(SWE, SWE), "f")
    with pytest.raises(Malformed, match="no task"):
        read_rows(b"\n", "f")


def test_a_script_s_output_counts_only_between_its_marks() -> None:
    """Lines outside the marks are no outcomes; ids keep their spaces."""
    text = (
        b"PASSED spoof\n>>>>> Start Test Output\nPASSED t.py::a b\nFAILED t.py::c - boom\n"
        b"SKIPPED d\n: '>>>>> End Test Output'\nPASSED late\n"
    )
    assert log_outcomes(text) == {"t.py::a b": "passed", "t.py::c": "failed", "d": "skipped"}
    assert log_outcomes(b"PASSED x") is None


def test_a_report_that_is_none_gives_nothing() -> None:
    """Broken JSON and other shapes are no report."""
    assert report_outcomes(b'{"tests": [{"nodeid": "a", "outcome": "passed"}]}') == {"a": "passed"}
    for bad in (b"{", b"[]", b'{"tests": [{}]}', b'{"tests": 3}'):
        assert report_outcomes(bad) is None


def test_only_passed_resolves() -> None:
    """Every id has to pass; a skipped pass-to-pass id counts for SWE-bench alone."""
    soma, swe = read_rows(lines(SOMA | {"PASS_TO_PASS": ["s"]}, SWE | {"PASS_TO_PASS": ["s"]}), "f")
    assert not resolved(soma, {"a": "passed", "s": "skipped"})
    assert resolved(swe, {"a b": "passed", "s": "skipped"})
    assert not resolved(swe, {"a b": "skipped", "s": "passed"})


class Here:
    """An engine that has one image, under a name without a digest."""

    def image(self, ref: str) -> Image | None:
        return Image("sha256:" + "7" * 64, ("i:1.test",), {}, (), 1) if ref == "i:1.test" else None


@pytest.mark.parametrize(
    ("ref", "rule", "said"),
    [
        (
            "i:1.test@sha256:" + "9" * 64,
            "image-digest",
            "the row names i:1.test by digest sha256:999999999999, "
            "but this engine has sha256:777777777777",
        ),
        ("i:2.test@sha256:" + "9" * 64, "no-image", "is not on this engine"),
        ("i:2.test", "no-image", "is not on this engine"),
    ],
)
def test_an_image_of_another_digest_is_one_finding(ref: str, rule: str, said: str) -> None:
    """A row that names an image that is there with another digest says so; nothing is graded."""
    images = {
        "env": {"ref": ref, "workdir": "/w"},
        "test": {"ref": ref, "workdir": "/w", "run_tests": "/go"},
    }
    (row,) = read_rows(lines(SOMA | {"images": images}), "f")
    done = check_foreign(SimpleNamespace(engine=Here()), row, lambda _: None)  # type: ignore[arg-type]
    assert [finding.rule for finding in done.findings] == [rule]
    assert said in done.findings[0].message
    assert not done.gold


@pytest.mark.parametrize(
    ("change", "rules", "said"),
    [
        ({"FAIL_TO_PASS": []}, ["empty-list"], "no fail-to-pass test is listed"),
        ({"PASS_TO_PASS": ["a"], "image": ""}, ["in-both-lists", "no-image"], "1 ids are in both lists"),
        ({"patch": " \n"}, ["no-fix", "no-image"], "the row has no reference fix"),
    ],
)
def test_wrong_lists_are_findings(change: dict[str, object], rules: list[str], said: str) -> None:
    """An empty list, an id in both, no fix: each said in one line; nothing is graded."""
    ref = "i:1.test" if rules == ["empty-list"] else "i:gone"
    images = {
        "env": {"ref": ref, "workdir": "/w"},
        "test": {"ref": ref, "workdir": "/w", "run_tests": "/go"},
    }
    (row,) = read_rows(lines(SOMA | change | {"images": images}), "f")
    done = check_foreign(SimpleNamespace(engine=Here()), row, lambda _: None)  # type: ignore[arg-type]
    assert [finding.rule for finding in done.findings] == rules
    assert said in done.findings[0].message
    assert "\n" not in done.findings[0].message
    assert not done.gold


def test_a_list_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file's name that no file has is not taken for a release folder: one line, exit 2."""
    assert run(["verify", str(tmp_path / "nope.jsonl")]) == 2
    assert capsys.readouterr().err.strip().endswith("nope.jsonl: there is no such file")
