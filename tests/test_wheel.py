"""Installed as a wheel, the command works in any folder: templates and grader travel with it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_carries_all_that_the_command_needs(tmp_path: Path) -> None:
    """From an installed wheel, in an empty folder, `race init` and `race sample` work."""
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "race/_data/images/grader/launch.py" in names
    assert any(name.startswith("race/_data/reports/") for name in names)
    assert not any(name.startswith(("tests/", "tasks/")) for name in names)

    place = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    empty = tmp_path / "empty"
    empty.mkdir()
    path = f"{place}:{sysconfig.get_paths()['purelib']}"
    for arguments in (["init", "winter"], ["sample", "project"], ["status", "winter"]):
        command = [sys.executable, "-m", "race", *arguments]
        done = subprocess.run(
            command,
            cwd=empty,
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert (empty / "winter" / "release.toml").is_file()
    assert (empty / "project" / ".git").is_dir()
