"""Byte-code of a fix is found, and the byte-code of other packages is not taken for it."""

from __future__ import annotations

import marshal
from importlib.util import MAGIC_NUMBER

import pytest

from race.core.leaks.fragments import wanted_from
from race.core.leaks.layers import Entry, ImageView
from race.core.leaks.patchtext import read_patch
from race.core.leaks.probes import run_probes
from race.core.leaks.probing import Subject
from race.core.leaks.scanner import LayerScanner
from race.core.sealed import LeakFinding

BASE = """\
import asyncio


class Queue:
    def __init__(self, loop=None):
        if loop is None:
            loop = asyncio.get_event_loop()
        self._loop = loop
        self._finished = asyncio.Event(loop=self._loop)

    async def close(self):
        await self._finished.wait()
"""
FIXED = """\
import asyncio

current_loop = getattr(asyncio, 'get_running_loop', None)
if current_loop is None:
    current_loop = asyncio.get_event_loop


class Queue:
    def __init__(self):
        self._loop = current_loop()
        self._finished = asyncio.Event()

    async def close(self):
        await asyncio.sleep(0)
        await self._finished.wait()

    def _make(self, coroutine):
        return self._loop.create_task(coroutine)
"""
COUNTS = b"-1,%d +1,%d" % (len(BASE.splitlines()), len(FIXED.splitlines()))
FIX = (
    b"--- a/janus/__init__.py\n+++ b/janus/__init__.py\n@@ "
    + COUNTS
    + b" @@\n"
    + b"".join(
        sign + line.encode() + b"\n"
        for sign, text in ((b"-", BASE), (b"+", FIXED))
        for line in text.splitlines()
    )
)
OTHER = """\
import asyncio, sys


def sleep(seconds, loop):
    run = getattr(asyncio, 'get_running_loop', None)
    return loop.create_task(run().sleep(seconds, getattr(sys, 'flags')))
"""
"""A package that has nothing to do with the fix but uses the same names of the standard library."""


def compiled(text: str) -> bytes:
    """Byte-code as it lies in a cache, with its source's size in the header."""
    code = marshal.dumps(compile(text, "x.py", "exec"))
    return MAGIC_NUMBER + bytes(8) + len(text.encode()).to_bytes(4, "little") + code


def by_hash(text: str) -> bytes:
    """Byte-code that is not compared with its source; its header does not tell a size."""
    code = marshal.dumps(compile(text, "x.py", "exec"))
    return MAGIC_NUMBER + b"\1\0\0\0" + bytes(8) + code


def findings(*files: tuple[str, bytes]) -> list[LeakFinding]:
    """What the probe of byte-code says about a tree at the base commit with some files beside it."""
    wanted = wanted_from(read_patch(FIX), (), [BASE.encode()])
    scanner = LayerScanner(wanted, "/repo")
    for path, data in (("/repo/janus/__init__.py", BASE.encode()), *files):
        scanner.add(Entry(path, "f", len(data), 0, 0o644), data)
    view = ImageView([scanner.finish("sha256:1", 1)], {}, "/repo")
    subject = Subject(view=view, wanted=wanted, leaks=[])
    return [f for p in run_probes(subject) if p.name == "byte-code" for f in p.findings]


LIBRARY = "/usr/lib/python3.11/ctypes/__init__.py"
CACHED = "/usr/lib/python3.11/ctypes/__pycache__/__init__.cpython-311.pyc"


@pytest.mark.parametrize("pack", [compiled, by_hash])
def test_packages_that_use_the_same_common_names(pack) -> None:
    """Every package has an `__init__`; that one calls what the fix calls is no evidence."""
    assert findings((LIBRARY, OTHER.encode()), (CACHED, pack(OTHER))) == []


@pytest.mark.parametrize(
    "path",
    [
        CACHED,
        "/opt/venv/lib/python3.11/site-packages/janus/__pycache__/__init__.cpython-311.pyc",
        "/repo/janus/__pycache__/__init__.cpython-311.pyc",
        "/var/tmp/fixed.pyc",
        "/opt/elsewhere/__pycache__/__init__.cpython-311.pyc",
    ],
)
def test_the_fixed_module_is_found_wherever_it_was_put(path: str) -> None:
    """Also in the place of a system module's byte-code, whose own source lies beside it."""
    (found,) = findings((LIBRARY, OTHER.encode()), (path, compiled(FIXED)))
    assert found.path == path


def test_the_size_of_the_fixed_source_is_enough() -> None:
    """Byte-code without any name of the fix, but compiled from a source of just that size."""
    filler = BASE + "#" * (len(FIXED) - len(BASE) - 1) + "\n"
    (found,) = findings(("/opt/x/__init__.pyc", compiled(filler)))
    assert "of the size that the fixed janus/__init__.py has" in found.what
