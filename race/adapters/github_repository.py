"""What lies in a project behind GitHub's API at a commit: the same bytes as in a clone of it.

Blobs that are asked for go into a scratch repository, where git itself makes the diffs.
"""

from __future__ import annotations

from collections.abc import Sequence

from race.adapters.git_output import tar_of
from race.adapters.git_scratch import ScratchRepository
from race.adapters.github_client import GithubClient
from race.adapters.github_objects import GithubObjects
from race.core.mining.diffs import sections

_FOLDER, _SUBMODULE = "040000", "160000"


class GithubRepository:
    """The repository of one project, read object by object."""

    def __init__(self, repo: str, client: GithubClient, scratch: ScratchRepository) -> None:
        self.repo, self._scratch = repo, scratch
        self._objects = GithubObjects(repo, client)

    def diff(self, base: str, commit: str) -> bytes:
        """The whole diff between two commits."""
        old, new = self._differing(base, commit)
        return self._scratch.diff(self._scratch.tree(old), self._scratch.tree(new))

    def read(self, commit: str, path: str) -> bytes | None:
        """A file at a commit, or None."""
        entry = self._objects.tree(commit).get(path)
        return self._objects.blob(entry[1]) if entry and _is_file(entry[0]) else None

    def files(self, commit: str) -> list[str]:
        """Every path at a commit."""
        return [path for path, (mode, _) in self._objects.tree(commit).items() if _is_file(mode)]

    def archive(self, commit: str) -> bytes:
        """The tree at a commit as the same deterministic tar that a clone gives."""
        entries = [
            (mode, "commit" if mode == _SUBMODULE else "blob", sha, path)
            for path, (mode, sha) in self._objects.tree(commit).items()
            if mode != _FOLDER
        ]
        return tar_of(entries, self._objects.blob)

    def top(self, commit: str) -> dict[str, str]:
        """Names at the root of a tree, each with its object id."""
        return {path: sha for path, (_, sha) in self._objects.tree(commit).items() if "/" not in path}

    def tree_entries(self, commit: str) -> dict[str, tuple[str, str]]:
        """Mode and object id of every path at a commit."""
        return {p: entry for p, entry in self._objects.tree(commit).items() if entry[0] != _FOLDER}

    def applied(self, base: str, patches: Sequence[bytes]) -> dict[str, tuple[str, str]]:
        """What patches make of a base: of the files that they touch."""
        touched = {section.path for patch in patches for section in sections(patch)}
        before = {p: entry for p, entry in self.tree_entries(base).items() if p in touched}
        for mode, sha in before.values():
            if mode != _SUBMODULE:
                self._scratch.add(self._objects.blob(sha))
        return self._scratch.applied(self._scratch.tree(before), patches)

    def _differing(
        self, base: str, commit: str, *, blobs: bool = True
    ) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
        """The entries that differ between two commits, on both sides, their blobs in the scratch."""
        old, new = self.tree_entries(base), self.tree_entries(commit)
        differ = {path for path in {*old, *new} if old.get(path) != new.get(path)}
        sides = tuple({p: entry for p, entry in side.items() if p in differ} for side in (old, new))
        if blobs:
            for side in sides:
                for mode, sha in side.values():
                    if mode != _SUBMODULE:
                        self._scratch.add(self._objects.blob(sha))
        return sides[0], sides[1]


def _is_file(mode: str) -> bool:
    return mode not in (_FOLDER, _SUBMODULE)
