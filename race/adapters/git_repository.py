"""The objects of a local git repository: trees, files, diffs, and what patches make of a tree."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from race.adapters.git_command import GitCommand
from race.adapters.git_output import cut_pairs, tar_of
from race.core.mining.facts import Changed
from race.errors import Malformed

_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--full-index", "--binary")
_FUNCTION = r"^([[:space:]]{0,4}(class|async def|def|cdef|cpdef)[[:space:]].*)$"
_WANTED = (
    "*.py", "*.pyx", "*.pyi", ":(icase)*change*", ":(icase)*history*", ":(icase)*news*",
    ":(icase)*release*note*", "*.bugfix*", "*.feature*", "*.misc*",
)  # fmt: skip
"""What mining reads of a diff: code, and what changelogs say of it."""

Pair = tuple[str, str]
"""Two commits, or two trees: the old one and the new one."""


class GitRepository:
    """What lies in a repository at a commit. A commit may be named by its tree as well."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git = GitCommand(path)
        self.close = self._git.close
        self._trees: dict[str, str] = {}

    def diff(self, base: str, commit: str) -> bytes:
        """The diff between two commits: binary-safe, full index lines, renames as delete and add."""
        return self._git.output(["diff-tree", "-p", "-r", *_DIFF, base, commit])

    def read(self, commit: str, path: str) -> bytes | None:
        """A file at a commit, or None when there is none (or a folder or submodule is there)."""
        found = self._git.object(f"{commit}:{path}") if "\n" not in path else None
        return found[1] if found is not None and found[0] == "blob" else None

    def files(self, commit: str) -> list[str]:
        """Every path at a commit, in git's order."""
        return [path for _, kind, _, path in self._tree(commit) if kind == "blob"]

    def archive(self, commit: str) -> bytes:
        """The tree at a commit as a deterministic tar: sorted names, zero times, owner 0.

        Made from the objects themselves, so that attributes of the tree (export-ignore,
        export-subst, text conversion) change nothing. A submodule becomes an empty folder.
        """
        return tar_of(self._tree(commit), self._blob)

    def top(self, commit: str) -> dict[str, str]:
        """Names at the root of a tree, each with its object id."""
        found = self._git.object(f"{commit}^{{tree}}")
        if found is None:
            raise Malformed(self.path, commit, "the clone lacks this commit")
        data, names, index = found[1], {}, 0
        while index < len(data):
            space, end = data.index(b" ", index), data.index(b"\0", index)
            names[os.fsdecode(data[space + 1 : end])] = data[end + 1 : end + 21].hex()
            index = end + 21
        return names

    def tree_entries(self, commit: str) -> dict[str, tuple[str, str]]:
        """Mode and object id of every path at a commit."""
        return {path: (mode, sha) for mode, _, sha, path in self._tree(commit)}

    def applied(self, base: str, patches: Sequence[bytes]) -> dict[str, tuple[str, str]]:
        """What the patches make of the base, as `tree_entries` would say it of a commit.

        git applies them exactly, one after the other, in an index and an object store of its own.
        Malformed when one does not apply.
        """
        with tempfile.TemporaryDirectory(prefix="race-apply-") as scratch:
            (Path(scratch) / "objects").mkdir()
            environment = {
                "GIT_INDEX_FILE": f"{scratch}/index",
                "GIT_OBJECT_DIRECTORY": f"{scratch}/objects",
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._git.objects),
            }
            self._git.run(["read-tree", base], environment)
            for patch in patches:
                if not patch:
                    continue
                file = Path(scratch) / "patch"
                file.write_bytes(patch)
                self._git.run(["apply", "--cached", "--whitespace=nowarn", str(file)], environment)
            listed = self._git.run(["ls-files", "-s", "-z"], environment)
        entries = {}
        for line in listed.split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, sha, _ = head.decode().split(" ")
            entries[os.fsdecode(path)] = (mode, sha)
        return entries

    def changed_files(self, pairs: Sequence[Pair]) -> Iterator[list[Changed]]:
        """Which files differ in each pair, in one pass; one list a pair, in order."""
        command = ["diff-tree", "--stdin", "-r", "--raw", "--no-abbrev", "--no-renames", "-z"]
        for data in self._for_each(command, pairs, separated=True):
            fields = data.split(b"\0")
            changed = []
            for index in range(0, len(fields) - 1, 2):
                old_mode, new_mode, old, new, _ = fields[index].decode().lstrip(":").split(" ")
                changed.append(Changed(os.fsdecode(fields[index + 1]), old_mode, new_mode, old, new))
            yield changed

    def function_diffs(self, pairs: Sequence[Pair]) -> Iterator[bytes]:
        """Each pair's diff of code files with the whole changed functions as context, in order."""
        with tempfile.NamedTemporaryFile("w", suffix=".attributes") as attributes:
            attributes.write("*.py diff=race\n*.pyx diff=race\n*.pyi diff=race\n")
            attributes.flush()
            command = [
                "-c", f"core.attributesFile={attributes.name}", "-c", f"diff.race.xfuncname={_FUNCTION}",
                "diff-tree", "--stdin", "-r", "-p", "-W", *_DIFF[:-1], "--", *_WANTED,
            ]  # fmt: skip
            yield from self._for_each(command, pairs, separated=False)

    def know_trees(self, trees: Mapping[str, str]) -> None:
        """Trees of commits that are known already, so that git need not be asked for each."""
        self._trees.update(trees)

    def _tree(self, commit: str) -> list[tuple[str, str, str, str]]:
        entries = []
        for line in self._git.output(["ls-tree", "-r", "-z", "--full-tree", commit]).split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, kind, sha = head.decode().split()
            entries.append((mode, kind, sha, os.fsdecode(path)))
        return entries

    def _blob(self, sha: str) -> bytes:
        found = self._git.object(sha)
        if found is None:
            raise Malformed(self.path, sha, "the clone lacks this object")
        return found[1]

    def _tree_of(self, commit: str) -> str:
        if commit not in self._trees:
            told = self._git.output(["rev-parse", "--verify", f"{commit}^{{tree}}"])
            self._trees[commit] = told.decode().strip()
        return self._trees[commit]

    def _for_each(
        self, command: list[str], pairs: Sequence[Pair], *, separated: bool
    ) -> Iterator[bytes]:
        """Run `diff-tree --stdin` over pairs of trees and cut its output at each pair.

        There is one output for every pair, in order; git is silent about a pair that does not differ.
        """
        trees = [(self._tree_of(old), self._tree_of(new)) for old, new in pairs]
        with tempfile.TemporaryFile() as asked:
            asked.write("".join(f"{old} {new}\n" for old, new in trees).encode())
            asked.seek(0)
            waiting = trees[::-1]
            with self._git.reading(command, asked) as stream:
                for pair, data in cut_pairs(stream, separated=separated):
                    while waiting:
                        if waiting.pop() == pair:
                            yield data
                            break
                        yield b""
        for _ in waiting:
            yield b""
