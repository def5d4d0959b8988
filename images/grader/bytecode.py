"""Byte-code of the project's own files, made once per grading, so that no run has to compile them.

A process of its own compiles those files that a trial saw imported, without running any of them, while
the rest starts. Root puts what came out beside the sources, only for the very bytes that it was made
of; plain byte-code names the digest of its source besides, and Python believes it for no other one. All
runs of a grading find the same.

    <venv python> -s -S bytecode.py ROOT UID < names      the process; JSON lines on stdout

Standard library (and, for files whose assertions pytest rewrites, pytest) only, Python 3.8 and newer.
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
import subprocess
import sys

import cage

SECONDS = 20.0
_LIMITS = {"file_bytes": 2**20, "processes": 0, "open_files": 256}
_CHECKED_HASH = (3).to_bytes(4, "little")


class Bytecode:
    """What the process made. It is waited for when it is first needed."""

    def __init__(self, python: str, root: str, names: dict[str, bool], uid: int) -> None:
        """`names`: files below `root`, with whether pytest rewrites them; with none, nothing is made."""
        self._made: dict[str, tuple[str, str, bytes]] = {}
        self._process: subprocess.Popen | None = None
        if not names:
            return
        asked, self._said = os.memfd_create("names"), os.memfd_create("code")
        with os.fdopen(asked, "wb") as stream, contextlib.suppress(OSError):
            stream.write(json.dumps(names).encode())
            stream.flush()
            stream.seek(0)
            self._process = subprocess.Popen(
                [python, "-s", "-S", os.path.abspath(__file__), root, str(uid)],
                stdin=asked,
                stdout=self._said,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
                start_new_session=True,
            )

    def _wait(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        with os.fdopen(self._said, "rb") as stream:
            stream.seek(0)
            for line in stream:
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


def main(root: str, uid: int) -> None:
    """The process: compile, and print a line for each file that compiles."""
    import worker

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    names = json.load(sys.stdin)
    if any(names.values()):
        worker.find_packages()
    cage.enter(uid, _LIMITS)
    for path, rewritten in names.items():
        with contextlib.suppress(Exception):  # whoever imports it is told
            print(json.dumps(compiled(root, path, rewritten)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
