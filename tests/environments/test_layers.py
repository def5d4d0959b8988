"""The scripts of a builder stage: which modules get byte-code, and which files make a layer."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "images" / "env"
SITE = f"lib/python3.{sys.version_info.minor}/site-packages"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """Three distributions: one with a folder of many modules, one with tests of its own, a small one."""
    files = {f"many/lexers/l{number}.py": "" for number in range(120)}
    files["many/lexers/l7.py"] = "from .l8 import x\nfrom many.lexers import l9\n"
    files |= {
        "many/__init__.py": "",
        "many/lexers/__init__.py": "NAMES = ['many.lexers.l1', 'many.lexers.l2']\n",
        "many/data.bin": "x" * 2**21,
        "user/__init__.py": "def late():\n    from many.lexers.l7 import y\n",
        "user/_tests/__init__.py": "",
        "user/_tests/test_user.py": "def test(): ...\n",
        "user/broken.py": "print 'of another Python'\n",
        "user/data.bin": "y" * 2**20,
        "small.py": "",
        "tests/__init__.py": "",
    }
    of = {"many": ("many/",), "user": ("user/",), "small": ("small.py", "tests/")}
    top = tmp_path / "venv" / SITE
    for name, data in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(data)
    (tmp_path / "venv" / "bin").mkdir()
    (tmp_path / "venv" / "bin" / "user").write_text("#!/bin/sh\n")
    (tmp_path / "venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    for distribution, starts in of.items():
        rows = [name for name in files if name.startswith(starts)]
        rows += ["../../../bin/user"] if distribution == "user" else []
        info = top / f"{distribution}-1.dist-info"
        info.mkdir()
        record = f"{info.name}/RECORD"
        (top / record).write_text("".join(f"{row},,\n" for row in [*rows, record]))
    return tmp_path / "venv"


def script(name: str, *arguments: str | Path) -> None:
    """Run one of the scripts as the builder does."""
    subprocess.run([sys.executable, "-s", "-S", SCRIPTS / name, *map(str, arguments)], check=True)


def compiled(venv: Path) -> set[str]:
    """The modules that have byte-code."""
    found = (venv / SITE).rglob("*.pyc")
    return {str((path.parents[1] / path.name.split(".")[0]).relative_to(venv / SITE)) for path in found}


def test_byte_code_is_made_of_what_is_imported(venv: Path) -> None:
    """All modules but a package's own tests and the plug-ins of a large folder that nobody names."""
    script("compile.py", venv)
    lexers = {"many/lexers/__init__", *(f"many/lexers/l{number}" for number in (7, 8, 9))}
    assert compiled(venv) == lexers | {"many/__init__", "user/__init__", "small", "tests/__init__"}


def listing(folder: Path) -> dict[str, str]:
    """Every file and folder with its mode, time and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        body = path.read_bytes() if path.is_file() else b""
        body = str(path.readlink()).encode() if path.is_symlink() else body
        told = f"{info.st_mode:o} {info.st_mtime_ns} {hashlib.sha256(body).hexdigest()}"
        found[str(path.relative_to(folder))] = told
    return found


def test_the_largest_distributions_have_layers_of_their_own(venv: Path) -> None:
    """Largest first, with their byte-code and scripts; small ones and the skeleton come last."""
    script("compile.py", venv)
    before = {path for path, told in listing(venv).items() if not told.startswith("4")}
    script("layers.py", venv, venv.parent / "out", "4")
    layers = [venv.parent / "out" / str(number) for number in range(1, 5)]
    parts = []
    for layer in layers:
        inside = layer / venv.relative_to("/")
        parts.append({path for path, told in listing(inside).items() if not told.startswith("4")})
    assert {path.split("/")[3].split("-")[0] for path in parts[0]} == {"many"}
    assert "bin/user" in parts[1]
    assert f"{SITE}/user/__pycache__/__init__.{sys.implementation.cache_tag}.pyc" in parts[1]
    assert parts[2] == set()
    assert {"bin/python", f"{SITE}/small.py"} <= parts[3]
    assert set.union(*parts) == before
    assert sum(map(len, parts)) == len(before)
    assert not (layers[3] / venv.relative_to("/") / SITE / "many").exists(), "no empty folder is left"


def test_layers_carry_no_time_and_none_is_empty(venv: Path) -> None:
    """The same files make the same layers a second time; each layer changes something."""
    kept = venv.parent / "kept"
    subprocess.run(["cp", "-R", venv, kept], check=True)
    out = venv.parent / "out"
    script("layers.py", venv, out, "4")
    first = listing(out)
    out.rename(venv.parent / "first")
    kept.rename(venv)
    script("layers.py", venv, out, "4")
    assert listing(out) == first
    above = str(venv.parent.relative_to("/"))
    times = [(out / str(number) / above).stat().st_mtime for number in range(1, 5)]
    assert len(set(times)) == 4
    assert times[-1] == 946684800
