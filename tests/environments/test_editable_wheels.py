"""Editable wheels of back-ends that cannot make one themselves."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

from race.render import data_folder

BACK_END = """
import os

def prepare_metadata_for_build_wheel(folder, settings):
    name = {folder!r}
    os.mkdir(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as stream:
        stream.write("Metadata-Version: 2.1\\nName: Old-thing.x\\n")
        stream.write("Version: 3.1.dev2+local\\n\\nWords: no\\n")
    return name
"""


def made(tmp_path: Path, folder: str) -> Path:
    """The wheel that is made for a project whose back-end names its metadata folder so."""
    repo, out = tmp_path / "repo", tmp_path / "out"
    repo.mkdir()
    (repo / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    )
    (repo / "own.py").write_text(BACK_END.format(folder=folder))
    script = data_folder("images") / "env" / "editable.py"
    subprocess.run([sys.executable, "-B", script, "editable", repo, out], check=True, timeout=60)
    (wheel,) = (out / "wheels").iterdir()
    assert (out / "project.lock").read_text().startswith("==".join(wheel.name.split("-")[:2]) + " ")
    return wheel


def test_metadata_without_a_version_in_its_name_gives_a_right_wheel(tmp_path: Path) -> None:
    """Back-ends of old name their folder by the project alone; an installer demands the version."""
    wheel = made(tmp_path, "Old_thing.x.dist-info")
    name, version, _, _ = parse_wheel_filename(wheel.name)
    assert (name, str(version)) == ("old-thing-x", "3.1.dev2+local")
    with zipfile.ZipFile(wheel) as archive:
        folders = {path.split("/")[0] for path in archive.namelist() if "/" in path}
        assert folders == {"Old_thing_x-3.1.dev2+local.dist-info"}


def test_metadata_with_a_version_in_its_name_is_kept(tmp_path: Path) -> None:
    """What the back-end calls itself stays."""
    wheel = made(tmp_path, "Old_thing.x-3.1.dev2+local.dist-info")
    assert wheel.name == "Old_thing.x-3.1.dev2+local-py3-none-any.whl"
