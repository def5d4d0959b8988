"""Byte-code of the project's own files, made once per grading, so that no run has to compile them.

The first process that the worker forks compiles those files that a trial saw imported, without running
any of them. Root puts what came out beside the sources, only for the very bytes that it was made of;
plain byte-code names the digest of its source besides, and Python believes it for no other one. All
runs of a grading find the same. Standard library (and, for files whose assertions pytest rewrites,
pytest) only, Python 3.8 and newer.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.util
import io
import json
import marshal
import os
import selectors
import time
from typing import Any

import cage

SECONDS = 20.0
_LIMITS = {"file_bytes": 2**20, "processes": 0, "open_files": 256}
_CHECKED_HASH = (3).to_bytes(4, "little")


class Bytecode:
    """What was compiled. It is waited for when it is first needed."""

    def __init__(self, worker: Any, root: str, names: dict[str, bool], uid: int) -> None:
        """`names`: files below `root`, with whether pytest rewrites them; with none, nothing is made."""
        self._made: dict[str, tuple[str, str, bytes]] = {}
        self._uid, self._handles = uid, ()
        if names:
            self._handles = worker.fork({"compile": names, "root": root, "uid": uid})

    def _wait(self) -> None:
        if not self._handles:
            return
        events, output, stacks = self._handles
        self._handles = ()
        data = _read(events, SECONDS)
        for handle in (events, output, stacks):
            os.close(handle)
        cage.end_all(self._uid)
        for line in data.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                path, name = str(entry["path"]), str(entry["name"])
                if name.endswith(".pyc") and "/" not in name:
                    self._made[path] = str(entry["digest"]), name, base64.b64decode(entry["code"])

    def files(self, wanted: dict[str, tuple[str, str]], fresh: set[str]) -> dict[str, bytes]:
        """What to put below the root, path -> bytes: for sources that are those that were compiled.

        `wanted` is the manifest of the tree, `fresh` names the files that are written anew for each run.
        """
        self._wait()
        found = {}
        for path, (digest, name, code) in self._made.items():
            if path not in fresh and wanted.get(path, ("", ""))[1] == digest:
                found["/".join([*path.split("/")[:-1], "__pycache__", name])] = code
        return found


def _read(handle: int, seconds: float) -> bytes:
    """All that comes until the other end is closed, or the time is over."""
    found, end = [], time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        while selector.select(max(0.0, end - time.monotonic())):
            data = os.read(handle, 2**20)
            if not data:
                break
            found.append(data)
    return b"".join(found)


def compiled(root: str, path: str, rewritten: bool) -> dict[str, str]:
    """One file: its digest, and name and content of its byte-code. Raises what compiling raises."""
    where = os.path.join(root, path)
    with open(where, "rb") as stream:
        source = stream.read()
    if rewritten:
        from pathlib import Path

        from _pytest.assertion import rewrite

        written = io.BytesIO()
        rewrite._write_pyc_fp(written, *rewrite._rewrite_test(Path(where), None))
        code, name = written.getvalue(), os.path.basename(where)[:-3] + rewrite.PYC_TAIL
    else:
        made = compile(source, where, "exec", dont_inherit=True)
        head = importlib.util.MAGIC_NUMBER + _CHECKED_HASH + importlib.util.source_hash(source)
        code = head + marshal.dumps(made)
        name = os.path.basename(importlib.util.cache_from_source(where))
    return {"path": path, "digest": hashlib.sha256(source).hexdigest(), "name": name,
            "code": base64.b64encode(code).decode()}  # fmt: skip


def send(handle: int, root: str, names: dict[str, bool], uid: int) -> None:
    """In the forked process: compile as this user, and write a line for each file that compiles."""
    cage.enter(uid, _LIMITS)
    for path, rewritten in names.items():
        with contextlib.suppress(Exception):  # whoever imports it is told
            data = json.dumps(compiled(root, path, rewritten)).encode() + b"\n"
            while data:
                data = data[os.write(handle, data) :]
