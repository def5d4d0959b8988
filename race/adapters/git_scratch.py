"""Objects that came by another way, in a git repository of their own, so that git can diff them."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from race.adapters.git_repository import GitRepository


class ScratchRepository:
    """A bare repository in a temporary folder that is gone with this object."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="race-scratch-"))
        weakref.finalize(self, shutil.rmtree, self._folder, True)
        for name in ("objects", "refs"):
            (self._folder / name).mkdir()
        (self._folder / "HEAD").write_text("ref: refs/heads/none\n")
        self._repository = GitRepository(self._folder)

    def add(self, data: bytes) -> str:
        """Keep a blob; its id."""
        return self._write(b"blob", data)

    def tree(self, entries: Mapping[str, tuple[str, str]]) -> str:
        """Keep a tree of whole paths (path -> mode and id of a kept blob, or of a submodule)."""
        folders: dict[str, dict[str, tuple[str, str]]] = {}
        names: dict[bytes, tuple[bytes, str]] = {}
        for path, (mode, sha) in entries.items():
            head, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(head, {})[rest] = (mode, sha)
            else:
                names[head.encode(errors="surrogateescape")] = (mode.lstrip("0").encode(), sha)
        for head, inside in folders.items():
            names[head.encode(errors="surrogateescape")] = (b"40000", self.tree(inside))
        ordered = sorted(names, key=lambda name: name + (b"/" if names[name][0] == b"40000" else b""))
        body = b"".join(
            names[name][0] + b" " + name + b"\0" + bytes.fromhex(names[name][1]) for name in ordered
        )
        return self._write(b"tree", body)

    def diff(self, old: str, new: str) -> bytes:
        """The diff between two kept trees, as a clone gives it."""
        return self._repository.diff(old, new)

    def function_diff(self, old: str, new: str) -> bytes:
        """The diff between two kept trees with whole functions as context."""
        return next(self._repository.function_diffs([(old, new)]))

    def applied(self, tree: str, patches: Sequence[bytes]) -> dict[str, tuple[str, str]]:
        """What patches make of a kept tree; Malformed when one does not apply exactly."""
        return self._repository.applied(tree, patches)

    def _write(self, kind: bytes, data: bytes) -> str:
        whole = kind + b" " + str(len(data)).encode() + b"\0" + data
        sha = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        file = self._folder / "objects" / sha[:2] / sha[2:]
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(zlib.compress(whole, 1))
        return sha
