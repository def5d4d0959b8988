"""A project behind GitHub's API as a history: the same candidates as a clone of it gives.

A pull request's commit comes with its files in one request; trees and blobs are asked for only of
those that change product code and tests. Blobs go into a scratch repository, where git itself makes
the diffs, so that patches are byte for byte what a clone would give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from race.adapters.git_output import tar_of, utc
from race.adapters.git_scratch import ScratchRepository
from race.adapters.github_client import GithubClient
from race.adapters.github_objects import GithubObjects
from race.adapters.github_search import WORDS, search
from race.core.mining.diffs import sections
from race.core.mining.facts import Changed
from race.core.mining.links import linked_issues, numbered
from race.core.records import PullRequest
from race.errors import UsageError

_NOTHING = "0" * 40
_FILES_LIMIT = 3000
"""GitHub names no more files of a commit than this."""


class GithubHistory:
    """Merged pull requests of a project's default branch: all of them, or what searches find."""

    when_empty = "nothing that was asked for was merged into its default branch in that time"

    def __init__(
        self,
        repo: str,
        client: GithubClient,
        scratch: ScratchRepository,
        searches: Sequence[str] = (),
    ) -> None:
        self.repo, self._client, self._scratch = repo, client, scratch
        self._searches = tuple(
            query for asked in searches for query in (WORDS if asked == "words" else (asked,))
        )
        self._at = f"/repos/{repo}"
        self._objects = GithubObjects(repo, client)

    # -- History ---------------------------------------------------------------------------

    def pull_requests(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[PullRequest]:
        """Merged pull requests of the default branch, newest first."""
        branch = self._client.get(self._at)["default_branch"]
        rows = self._searched(branch, since, until) if self._searches else self._listed(branch, since)
        found = [
            request
            for row in {row["number"]: row for row in rows}.values()
            if row.get("merged_at")
            and row.get("merge_commit_sha")
            and (since is None or datetime.fromisoformat(row["merged_at"]) >= since)
            and (until is None or datetime.fromisoformat(row["merged_at"]) < until)
            and (request := self._request(row)) is not None
        ]
        found.sort(key=lambda request: (request.merged_at, request.number), reverse=True)
        yield from found

    def _listed(self, branch: str, since: datetime | None) -> Iterator[dict[str, Any]]:
        """Every closed pull request, by its last update.

        That is never before the merge, so that the listing ends early when only what was merged
        `since` is wanted.
        """
        listing = self._client.pages(
            f"{self._at}/pulls", state="closed", base=branch, sort="updated", direction="desc"
        )
        for page in listing:
            yield from page
            if since and page and datetime.fromisoformat(page[-1]["updated_at"]) < since:
                return

    def _searched(
        self, branch: str, since: datetime | None, until: datetime | None
    ) -> Iterator[dict[str, Any]]:
        """What the searches find; a result does not name its merge commit, so each is asked for."""
        numbers = {
            number
            for query in self._searches
            for number in search(self._client, self.repo, query, since, until)
        }
        for number in sorted(numbers, reverse=True):
            row = self._client.get(f"{self._at}/pulls/{number}")
            if row["base"]["ref"] == branch:
                yield row

    def diff(self, base: str, commit: str) -> bytes:
        """The whole diff between two commits."""
        old, new = self._pair(base, commit)
        return self._scratch.diff(self._scratch.tree(old), self._scratch.tree(new))

    def read(self, commit: str, path: str) -> bytes | None:
        """A file at a commit, or None."""
        entry = self._objects.tree(commit).get(path)
        return self._objects.blob(entry[1]) if entry and entry[0] not in ("160000", "040000") else None

    def files(self, commit: str) -> list[str]:
        """Every path at a commit."""
        return [path for path, (mode, _) in self._objects.tree(commit).items() if mode not in _NO_FILES]

    def archive(self, commit: str) -> bytes:
        """The tree at a commit as the same deterministic tar that a clone gives."""
        entries = [
            (mode, "commit" if mode == "160000" else "blob", sha, path)
            for path, (mode, sha) in self._objects.tree(commit).items()
            if mode != "040000"
        ]
        return tar_of(entries, self._objects.blob)

    def changes(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, list[Changed]]]:
        """Which files each pull request changes. Modes and old ids are not known at this point."""
        for request in requests:
            yield request, self._changes(request)

    def wide_diffs(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, bytes]]:
        """The diff of each request's code files with whole functions as context, in order."""
        for request in requests:
            old, new = self._pair(request.base_commit, request.merge_commit)
            trees = self._scratch.tree(old), self._scratch.tree(new)
            yield request, self._scratch.function_diff(*trees)

    def top(self, commit: str) -> dict[str, str]:
        """Names at the root of a tree, each with its object id."""
        return {path: sha for path, (_, sha) in self._objects.tree(commit).items() if "/" not in path}

    def tree_entries(self, commit: str) -> dict[str, tuple[str, str]]:
        """Mode and object id of every path at a commit."""
        return {p: entry for p, entry in self._objects.tree(commit).items() if entry[0] != "040000"}

    def applied(self, base: str, patches: Sequence[bytes]) -> dict[str, tuple[str, str]]:
        """What patches make of a base: of the files that they touch."""
        touched = {path for patch in patches for path in _paths(patch)}
        before = {p: entry for p, entry in self.tree_entries(base).items() if p in touched}
        for mode, sha in before.values():
            if mode != "160000":
                self._scratch.add(self._objects.blob(sha))
        return self._scratch.applied(self._scratch.tree(before), patches)

    def linked(self, request: PullRequest) -> tuple[str, ...]:
        """Issues it closes: by keyword, and those that its timeline says were connected by hand."""
        found = list(request.linked_issues)
        for page in self._client.pages(f"{self._at}/issues/{request.number}/timeline"):
            for event in page:
                issue = (event.get("source") or {}).get("issue") or {}
                if event.get("event") == "connected" and issue and "pull_request" not in issue:
                    owner = (issue.get("repository") or {}).get("full_name", self.repo)
                    found.append(f"{owner}#{issue['number']}")
        return tuple(dict.fromkeys(found))

    def issue_text(self, request: PullRequest) -> str:
        """Titles and texts of the issues that it closes; one that cannot be seen says nothing."""
        said = []
        for name in self.linked(request):
            repo, _, number = name.rpartition("#")
            try:
                issue = self._client.get(f"/repos/{repo}/issues/{number}")
            except UsageError:
                continue
            if "pull_request" not in issue:
                body = (issue.get("body") or "").replace("\r\n", "\n").strip()
                said.append(f"{issue['title'].strip()}\n{body}")
        return "\n\n".join(said)

    # -- inside ----------------------------------------------------------------------------

    def _request(self, row: Mapping[str, Any]) -> PullRequest | None:
        commit = self._objects.commit(row["merge_commit_sha"])
        parents = [parent["sha"] for parent in commit["parents"]]
        if not parents:
            return None
        style: Literal["merge", "squash", "rebase"] = "merge" if len(parents) > 1 else "squash"
        base = parents[0]
        message = commit["commit"]["message"]
        subject, _, rest = message.partition("\n")
        if style == "squash" and numbered(subject, rest, merge=False) is None:
            style, base = self._rebased(row, base)
        title, body = row["title"].strip(), (row.get("body") or "").replace("\r\n", "\n").strip()
        committed = commit["commit"]["committer"]["date"]
        return PullRequest(
            repo=self.repo,
            number=row["number"],
            title=title,
            body=body,
            merged_at=utc(_merge_date(row["merged_at"], committed)),
            authored_at=utc(commit["commit"]["author"]["date"]),
            base_commit=base,
            merge_commit=commit["sha"],
            merge_style=style,
            linked_issues=linked_issues(f"{title}\n{body}", self.repo),
        )

    def _rebased(
        self, row: Mapping[str, Any], parent: str
    ) -> tuple[Literal["merge", "squash", "rebase"], str]:
        """Commits put on the branch one by one: the base is before the first of them."""
        count = int(self._client.get(f"{self._at}/pulls/{row['number']}").get("commits", 1))
        for _ in range(count - 1):
            parents = self._objects.commit(parent)["parents"]
            if not parents:
                break
            parent = parents[0]["sha"]
        return ("rebase" if count > 1 else "squash"), parent

    def _changes(self, request: PullRequest) -> list[Changed]:
        files = self._objects.commit(request.merge_commit)["files"]
        if request.merge_style == "rebase" or len(files) >= _FILES_LIMIT:
            return self._compared(request)
        changed = []
        for file in files:
            gone = file["status"] == "removed"
            if file["status"] == "renamed":
                changed.append(Changed(file["previous_filename"], "100644", "000000", "", _NOTHING))
            new = (file["filename"], "000000" if file["status"] == "added" else "100644")
            changed.append(
                Changed(*new, "000000" if gone else "100644", "", _NOTHING if gone else file["sha"])
            )
        return sorted(changed, key=lambda change: change.path)

    def _compared(self, request: PullRequest) -> list[Changed]:
        """The same from the two trees, when the API's list is not the whole or not for this base."""
        old, new = self._pair(request.base_commit, request.merge_commit, blobs=False)
        return [
            Changed(
                path,
                *(side.get(path, ("000000", _NOTHING))[0] for side in (old, new)),
                *(side.get(path, ("000000", _NOTHING))[1] for side in (old, new)),
            )
            for path in sorted({*old, *new})
        ]

    def _pair(
        self, base: str, commit: str, *, blobs: bool = True
    ) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
        """The entries that differ between two commits, on both sides, their blobs in the scratch."""
        old, new = self.tree_entries(base), self.tree_entries(commit)
        differ = {path for path in {*old, *new} if old.get(path) != new.get(path)}
        sides = tuple({p: entry for p, entry in side.items() if p in differ} for side in (old, new))
        if blobs:
            for side in sides:
                for mode, sha in side.values():
                    if mode != "160000":
                        self._scratch.add(self._objects.blob(sha))
        return sides[0], sides[1]


_NO_FILES = ("040000", "160000")


def _merge_date(merged: str, committed: str) -> str:
    """The commit's date when it agrees with the API's to two minutes; else what the API says.

    A commit's date is what a clone knows; a rebase or a forged clock can make it another time.
    """
    apart = datetime.fromisoformat(merged) - datetime.fromisoformat(committed)
    return committed if abs(apart.total_seconds()) <= 120 else merged


def _paths(patch: bytes) -> Iterator[str]:
    for section in sections(patch):
        yield section.path
