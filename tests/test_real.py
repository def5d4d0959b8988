"""The whole path on real code: two consecutive releases of asgiref, from their source archives.

3.9.1 fixes the deletion of `Local` values, which leaked into other contexts, and adds a test.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from race.cli import run
from race.ports import Engine

DATES = {"3.9.0": "2025-07-03T13:25:00+00:00", "3.9.1": "2025-07-08T09:07:00+00:00"}
FIX = "Fixed deletion of Local values affecting other contexts (#523)"
RELEASE = """
[release]
name = "real"
canary = "6a1f2f0e-7f0c-4c8e-9c55-3d3c6f3f8f11"
[validate.reliability]
limit = 0.2
repeats = 14
"""


def git(folder: Path, *arguments: str, date: str = "") -> str:
    names = {"GIT_AUTHOR_NAME": "Release", "GIT_AUTHOR_EMAIL": "release@example.invalid"}
    names |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in names.items()}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}
    command = ["git", "-C", str(folder), "-c", "init.defaultBranch=main", *arguments]
    environment = names | dates | {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def two_commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose two commits are the two releases' trees, without packaging output."""
    work = tmp_path_factory.mktemp("archives")
    repository = tmp_path_factory.mktemp("real") / "asgiref"
    repository.mkdir()
    git(repository, "init", "-q")
    for version, date in DATES.items():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        subprocess.run(
            [*command, "-d", str(work), f"asgiref=={version}"], check=True, capture_output=True
        )
        with tarfile.open(work / f"asgiref-{version}.tar.gz") as archive:
            archive.extractall(work, filter="data")
        for old in repository.iterdir():
            if old.name != ".git":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(
            work / f"asgiref-{version}",
            repository,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("*.egg-info", "PKG-INFO"),
        )
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "Release 3.9.0" if version == "3.9.0" else FIX, date=date)
    return repository


@pytest.mark.engine
@pytest.mark.network
def test_a_real_fix_becomes_a_verified_task(
    two_commits: Path, tmp_path: Path, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """From two real source archives to a task whose fix grades 1 and whose empty submission grades 0."""
    release = tmp_path / "real"
    release.mkdir()
    (release / "release.toml").write_text(RELEASE)
    arguments = [
        "build",
        str(release),
        "--clone",
        str(two_commits),
        "--repo",
        "django/asgiref",
        "-j",
        "2",
    ]
    assert run([*arguments, "--json"]) == 0
    tally = json.loads(capsys.readouterr().out)
    assert tally["verify"]["done"] == ["django__asgiref-523"], tally

    task = release / "django__asgiref-523"
    mined = json.loads((task / "mine.json").read_text())
    assert mined["licence"] == "BSD-3-Clause"
    assert mined["product_files"] == ["asgiref/__init__.py", "asgiref/local.py"]
    validated = json.loads((task / "validate.json").read_text())
    assert "tests/test_local.py::test_deletion" in validated["fail_to_pass"]
    assert len(validated["pass_to_pass"]) >= 10
    assert "test_deletion" not in (task / "statement.md").read_text()

    for patch, resolved in ((task / "fix.patch", True), (tmp_path / "empty.patch", False)):
        (tmp_path / "empty.patch").write_text("")
        assert run(["grade", str(release), "django__asgiref-523", "--patch", str(patch), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["resolved"] is resolved
    listing = ["docker", "ps", "-aq", "--filter", "label=race.instance=django__asgiref-523"]
    assert subprocess.run(listing, capture_output=True, text=True, check=True).stdout == ""
