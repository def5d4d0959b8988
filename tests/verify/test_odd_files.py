"""A release folder may hold anything: each is a finding or one line, never taken for the release."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from race.cli import run

SAMPLE = Path(__file__).parents[2] / "tasks" / "sample"
TASK = "sample__brook-3"
CHECKED = ["release.toml", "manifest.json", f"{TASK}/seal.json"]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """The sample release as it stands in the repository."""
    copy = tmp_path / "release"
    shutil.copytree(SAMPLE, copy, ignore=shutil.ignore_patterns("local"))
    return copy


def linked(path: Path) -> None:
    """The same bytes, but behind a link to a place outside of the release."""
    outside = path.parents[1] / "outside"
    path.rename(outside)
    path.symlink_to(outside)


def replaced(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Something else in the place of a file."""

    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


ODD: dict[str, Callable[[Path], None]] = {
    "a link": linked,
    "a link to nowhere": replaced(lambda path: path.symlink_to("/nowhere")),
    "a folder": replaced(Path.mkdir),
    "a named pipe": replaced(os.mkfifo),
    "other case": lambda path: path.rename(path.with_name(path.name.upper())) and None,
    "nothing": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("name", CHECKED)
def test_what_is_no_file_of_the_release_is_named(
    name: str, what: str, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding that names the file, or one line of error; at once, and no traceback."""
    ODD[what](release / name)
    started = time.monotonic()
    assert run(["verify", str(release), "--manifest"]) in (1, 2, 3)
    assert time.monotonic() - started < 5
    told = capsys.readouterr()
    assert Path(name).name in told.out + told.err
    assert "traceback" not in told.err


MANIFESTS: dict[str, tuple[str, str, str]] = {
    "without a digest of its own": (r'"digest": "[0-9a-f]{64}"', '"digest": ""', "no digest"),
    "with half of a character": (r'"made_by": "', r'"made_by": "\\ud800', "half of a character"),
    "with the same key twice": (r'"files": \{', '"files": {}, "files": {', "other bytes"),
    "with no number": (r'"bytes": \d+', '"bytes": NaN', "finite"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_an_odd_manifest_is_told(name: str, release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None of these says what the release is."""
    pattern, other, said = MANIFESTS[name]
    path = release / "manifest.json"
    path.write_text(re.sub(pattern, other, path.read_text(), count=1))
    assert run(["verify", str(release), "--manifest"]) in (1, 2)
    told = capsys.readouterr()
    assert said in told.out + told.err


@pytest.mark.parametrize("name", ["manifest.json", f"{TASK}/seal.json"])
def test_json_of_great_depth_is_one_line(
    name: str, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hundred thousand brackets are told, not counted."""
    (release / name).write_text("[" * 100_000)
    assert run(["verify", str(release), "--manifest"]) in (1, 2)
    assert run(["status", str(release)]) in (0, 1, 2)
    assert "traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", [b"a\nb", b"\xff\xfe", b"a\x1b[31mb"])
def test_the_name_of_an_odd_file_is_shown_readably(
    name: bytes, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one line, without control characters, in any encoding."""
    Path(os.fsdecode(os.fsencode(release) + b"/" + name)).write_text("x")
    assert run(["verify", str(release), "--manifest", "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)
    assert "\\\\" in json.dumps(findings)
    assert run(["verify", str(release), "--manifest"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert len([line for line in said if "not listed" in line]) == 1
    assert all(line.isprintable() for line in said)


@pytest.mark.parametrize("line", [b"x", b'{"a":', b"7", b"\xff\xfe", b"[" * 100_000])
def test_a_list_of_rejected_candidates_that_is_none_is_one_line(
    line: bytes, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status of a release says which file is wrong."""
    (release / "rejected.jsonl").write_bytes(line + b"\n")
    assert run(["status", str(release)]) == 2
    assert "rejected.jsonl" in capsys.readouterr().err
