"""Commits, trees and blobs of a project behind GitHub's API, each asked for once."""

from __future__ import annotations

import base64
from typing import Any

from race.adapters.github_client import GithubClient
from race.errors import Malformed

_TREES_AT_HAND = 40


class GithubObjects:
    """The objects of one project's repository."""

    def __init__(self, repo: str, client: GithubClient) -> None:
        self.repo, self._client = repo, client
        self._at = f"/repos/{repo}"
        self._trees: dict[str, dict[str, tuple[str, str]]] = {}

    def commit(self, sha: str) -> dict[str, Any]:
        """A commit with all its files, however many pages they take."""
        pages = self._client.pages(f"{self._at}/commits/{sha}", for_ever=True)
        whole: dict[str, Any] = next(pages)
        files = list(whole.get("files") or [])
        for page in pages:
            files += page.get("files") or []
        return whole | {"files": files}

    def tree(self, commit: str) -> dict[str, tuple[str, str]]:
        """Every entry of a commit's tree, folders included."""
        if commit not in self._trees:
            if len(self._trees) > _TREES_AT_HAND:
                self._trees.clear()
            tree = self.commit(commit)["commit"]["tree"]["sha"]
            self._trees[commit] = self._entries(tree)
        return self._trees[commit]

    def _entries(self, tree: str, prefix: str = "") -> dict[str, tuple[str, str]]:
        """A tree in one request, or folder by folder when the server cuts it off."""
        at = f"{self._at}/git/trees/{tree}"
        whole = self._client.get(at, for_ever=True, recursive=1)
        if not whole.get("truncated"):
            return {prefix + e["path"]: (e["mode"], e["sha"]) for e in whole["tree"]}
        found: dict[str, tuple[str, str]] = {}
        for entry in self._client.get(at, for_ever=True)["tree"]:
            found[prefix + entry["path"]] = (entry["mode"], entry["sha"])
            if entry["type"] == "tree":
                found |= self._entries(entry["sha"], f"{prefix}{entry['path']}/")
        return found

    def blob(self, sha: str) -> bytes:
        """The bytes of a blob."""
        answer = self._client.get(f"{self._at}/git/blobs/{sha}", for_ever=True)
        if answer.get("encoding") == "base64":
            return base64.b64decode(answer["content"])
        if answer.get("encoding") == "utf-8":
            return str(answer["content"]).encode()
        raise Malformed(f"{self.repo}: blob {sha}", "encoding", repr(answer.get("encoding")))
