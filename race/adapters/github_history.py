"""A project behind GitHub's API as a history: the same candidates as a clone of it gives.

A pull request's commit comes with its files in one request; trees and blobs are asked for only of
those that change product code and tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from race.adapters.git_output import utc
from race.adapters.git_scratch import ScratchRepository
from race.adapters.github_client import GithubClient
from race.adapters.github_repository import GithubRepository
from race.adapters.github_search import WORDS, search
from race.core.mining.facts import Changed
from race.core.mining.links import linked_issues, numbered
from race.core.records import PullRequest
from race.errors import UsageError

_NOTHING = "0" * 40
_FILES_LIMIT = 3000
"""GitHub names no more files of a commit than this."""


class GithubHistory(GithubRepository):
    """Merged pull requests of a project's default branch: all of them, or what searches find."""

    when_empty = "nothing that was asked for was merged into its default branch in that time"

    def __init__(
        self,
        repo: str,
        client: GithubClient,
        scratch: ScratchRepository,
        searches: Sequence[str] = (),
    ) -> None:
        super().__init__(repo, client, scratch)
        self._client = client
        self._searches = tuple(
            query for asked in searches for query in (WORDS if asked == "words" else (asked,))
        )
        self._at = f"/repos/{repo}"

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

    def changes(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, list[Changed]]]:
        """Which files each pull request changes. Modes and old ids are not known at this point."""
        for request in requests:
            yield request, self._changes(request)

    def wide_diffs(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, bytes]]:
        """The diff of each request's code files with whole functions as context, in order."""
        for request in requests:
            old, new = self._differing(request.base_commit, request.merge_commit)
            trees = self._scratch.tree(old), self._scratch.tree(new)
            yield request, self._scratch.function_diff(*trees)

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
        old, new = self._differing(request.base_commit, request.merge_commit, blobs=False)
        return [
            Changed(
                path,
                *(side.get(path, ("000000", _NOTHING))[0] for side in (old, new)),
                *(side.get(path, ("000000", _NOTHING))[1] for side in (old, new)),
            )
            for path in sorted({*old, *new})
        ]


def _merge_date(merged: str, committed: str) -> str:
    """The commit's date when it agrees with the API's to two minutes; else what the API says.

    A commit's date is what a clone knows; a rebase or a forged clock can make it another time.
    """
    apart = datetime.fromisoformat(merged) - datetime.fromisoformat(committed)
    return committed if abs(apart.total_seconds()) <= 120 else merged
