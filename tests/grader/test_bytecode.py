"""Byte-code that a grading makes of the project's files: used for the bytes it was made of only."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent.parent / "images" / "grader"
TELL = "import box, sys; print(box.ANSWER, box.__spec__.cached)"


@pytest.fixture(scope="module")
def bytecode() -> Any:
    """The grader's module `bytecode`, imported as the grader does it."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module("bytecode")
    finally:
        sys.path.remove(str(FOLDER))


class Worker:
    """Stands for the worker: forks the process, or closes the pipe when there is no module."""

    def __init__(self, bytecode: Any) -> None:
        self.bytecode = bytecode

    def fork(self, order: dict[str, Any]) -> tuple[int, int, int]:
        """The ends of events, output and stacks."""
        events, event_end = os.pipe()
        if self.bytecode is not None and os.fork() == 0:
            try:
                self.bytecode.send(event_end, order["root"], order["compile"], order["uid"])
            finally:
                os._exit(0)
        os.close(event_end)
        return events, os.memfd_create("output"), os.memfd_create("stacks")


@pytest.fixture
def seen_by_all() -> Iterator[Path]:
    """A folder that any user may read, as a repository is."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def put(root: Path, path: str, made: dict[str, str]) -> Path:
    """Place byte-code as the grader does it."""
    where = (root / path).parent / "__pycache__" / made["name"]
    where.parent.mkdir(exist_ok=True)
    where.write_bytes(b64decode(made["code"]))
    return where


def loaded(root: Path) -> str:
    """What an interpreter gets that imports the module there, and whether it read byte-code."""
    done = subprocess.run(
        [sys.executable, "-v", "-B", "-c", TELL], cwd=root, capture_output=True, text=True, check=True
    )
    used = "code object from" in done.stderr and "box.cpython" in done.stderr
    matched = any("matches" in line and "box.cpython" in line for line in done.stderr.splitlines())
    return f"{done.stdout.split()[0]} {'byte-code' if used and matched else 'source'}"


def test_plain_byte_code_is_read_for_its_source_and_for_no_other(bytecode: Any, tmp_path: Path) -> None:
    """Python itself compares the digest of the source, so that a changed file is compiled anew."""
    (tmp_path / "box.py").write_text("ANSWER = 3\n")
    put(tmp_path, "box.py", bytecode.compiled(str(tmp_path), "box.py", False))
    assert loaded(tmp_path) == "3 byte-code"
    (tmp_path / "box.py").write_text("ANSWER = 4\n")
    assert loaded(tmp_path) == "4 source"


def test_a_file_that_pytest_rewrites_is_read_by_pytest_as_its_own(bytecode: Any, tmp_path: Path) -> None:
    """What is made has pytest's own name and form, and pytest does not take it for another source."""
    from _pytest.assertion import rewrite

    source = tmp_path / "conftest.py"
    source.write_text("def check(value):\n    assert value == 3\n")
    made = bytecode.compiled(str(tmp_path), "conftest.py", True)
    where = put(tmp_path, "conftest.py", made)
    assert where.name.endswith(rewrite.PYC_TAIL)
    code = rewrite._read_pyc(source, where)
    assert code is not None
    space: dict[str, Any] = {}
    exec(code, space)
    with pytest.raises(AssertionError, match="assert 4 == 3"):
        space["check"](4)
    source.write_text("def check(value):\n    assert value == 33\n")
    assert rewrite._read_pyc(source, where) is None


def test_byte_code_lies_beside_the_very_bytes_it_was_made_of(bytecode: Any, seen_by_all: Path) -> None:
    """Not beside a file that the submission or a hidden test changes, nor one written for each run."""
    tmp_path = seen_by_all
    (tmp_path / "box.py").write_text("ANSWER = 3\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "other.py").write_text("x = 1\n")
    (tmp_path / "wrong.py").write_text("def (:\n")
    names = {"box.py": False, "inner/other.py": False, "wrong.py": False, "gone.py": False}
    digests = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
               for name in ("box.py", "inner/other.py")}  # fmt: skip
    wanted = {name: ("f", digest) for name, digest in digests.items()}
    tag = sys.implementation.cache_tag
    made = bytecode.Bytecode(Worker(bytecode), str(tmp_path), names, 54321)
    assert set(made.files(wanted, set())) == {
        f"__pycache__/box.{tag}.pyc", f"inner/__pycache__/other.{tag}.pyc"
    }  # fmt: skip
    assert set(made.files(wanted, {"box.py"})) == {f"inner/__pycache__/other.{tag}.pyc"}
    changed = {**wanted, "inner/other.py": ("f", "0" * 64)}
    assert set(made.files(changed, set())) == {f"__pycache__/box.{tag}.pyc"}


def test_without_a_trial_nothing_is_made(bytecode: Any, tmp_path: Path) -> None:
    """No names, no process."""
    made = bytecode.Bytecode(None, str(tmp_path), {}, 54321)
    assert made.files({}, set()) == {}


def test_a_worker_that_is_dead_makes_nothing(bytecode: Any, tmp_path: Path) -> None:
    """The runs say what is wrong; byte-code is no reason to end a grading."""
    made = bytecode.Bytecode(Worker(None), str(tmp_path), {"box.py": False}, 54321)
    assert made.files({"box.py": ("f", "0" * 64)}, set()) == {}
