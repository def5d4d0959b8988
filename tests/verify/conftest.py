"""A built release whose check is short."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def release(built_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the built sample with a short check."""
    folder = tmp_path_factory.mktemp("verify") / "sample"
    shutil.copytree(built_sample, folder)
    path = folder / "release.toml"
    path.write_text(path.read_text() + "\n[verify]\ngold = 1\nempty = 1\nrepeats = 2\n")
    return folder
