"""Stubs made from a statement alone let real pytest import and call what hidden tests need."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from race.core.interface.applying import apply_diff
from race.core.interface.items import InterfaceItem, read_interface
from race.core.interface.stubs import stubbed
from race.core.statement.writer import write

pytestmark = pytest.mark.slow


def collect(folder: Path, files: dict[str, bytes], *arguments: str) -> str:
    """What pytest prints over these files."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout


def test_hidden_tests_collect_against_the_statement(project: Callable, tmp_path: Path) -> None:
    """Without stubs the tests cannot be imported; with those of the statement they can and may call."""
    made = project("harbour")
    before = apply_diff(made.base, made.test_patch)
    assert "ImportError" in collect(tmp_path / "bare", before, "--collect-only")
    items = read_interface(write(made.facts).text)
    printed = collect(tmp_path / "stubbed", stubbed(before, items), "--collect-only")
    assert "4 tests collected" in printed
    assert "Error" not in printed


def test_each_kind_of_stub(tmp_path: Path) -> None:
    """New modules, names, classes, methods, attributes, parameters, positions and coroutines."""
    files = {
        "src/kit/__init__.py": b"from kit._core import Thing\n",
        "src/kit/_core.py": b"class Thing:\n    def __init__(self, a):\n        self.a = a\n"
        b"    def close(self):\n        return 7\n\ndef make(a):\n    return Thing(a)\n",
    }
    items = [
        InterfaceItem(kind="module", name="kit.tools"),
        InterfaceItem(kind="function", name="kit.tools.tidy", asynchronous=True),
        InterfaceItem(kind="exception", name="kit.Bad", detail="ValueError"),
        InterfaceItem(kind="class", name="kit.Other"),
        InterfaceItem(kind="method", name="kit.Other.go"),
        InterfaceItem(kind="attribute", name="kit.Thing.usage"),
        InterfaceItem(kind="name", name="kit.LIMIT"),
        InterfaceItem(kind="parameter", name="label", detail="kit.Thing"),
        InterfaceItem(kind="parameter", name="b", detail="kit._core.make", position=2),
        InterfaceItem(kind="coroutine", name="kit.Thing.close"),
        InterfaceItem(kind="message", name="no"),
    ]
    files["tests/test_kit.py"] = b"""
import asyncio, inspect, pytest
import kit, kit.tools
from kit._core import make

def test_it():
    assert issubclass(kit.Bad, ValueError) and str(kit.Bad("x")) == "x"
    assert inspect.iscoroutinefunction(kit.tools.tidy)
    with pytest.raises(NotImplementedError):
        kit.Other(1, b=2).go(3)
    thing = kit.Thing(1, label="a")
    assert thing.usage is None and kit.LIMIT is None
    assert make(1, 2).a == 1
    async def main():
        return await thing.close()
    assert asyncio.run(main()) == 7
"""
    assert "1 passed" in collect(tmp_path, stubbed(files, items))
