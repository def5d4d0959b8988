"""A local clone as a project's history: its merged pull requests, as far as commits tell of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from race.adapters.git_output import utc
from race.adapters.git_repository import GitRepository
from race.core.mining.facts import Changed, PullRequestFacts
from race.core.mining.links import linked_issues, numbered
from race.core.records import PullRequest
from race.errors import Malformed

_FIELDS = "%H%x1f%T%x1f%P%x1f%cI%x1f%aI%x1f%s%x1f%b"


@dataclass(frozen=True)
class _Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    committed: str
    authored: str
    subject: str
    body: str


class GitHistory(GitRepository):
    """Merged pull requests of one clone, along the first parents of its HEAD.

    A merge commit is a pull request when its subject says so, a single commit when its subject ends
    with the number. `facts` adds what the clone does not say: rebase merges by their last commit
    and their base, titles, bodies, linked issues.
    """

    when_empty = (
        "no commit of that time names a pull request, as a merge commit or as (#N) in its subject; "
        "--pull-requests FILE or --github OWNER/NAME tells race which commits are one"
    )

    def __init__(
        self, path: Path, repo: str, *, facts: Mapping[int, PullRequestFacts] | None = None
    ) -> None:
        super().__init__(path)
        self.repo = repo
        self._facts = dict(facts or {})

    def pull_requests(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[PullRequest]:
        """Merged pull requests, newest first. A number that occurs twice is its oldest commit."""
        found: dict[int, PullRequest] = {}
        commits = self._commits("--first-parent", "HEAD")
        self.know_trees({commit.sha: commit.tree for commit in commits})
        for commit in commits:
            request = self._request(commit)
            if request is not None and request.number not in self._facts:
                found.pop(request.number, None)
                found[request.number] = request
        self._name(found)
        for number, facts in self._facts.items():
            found[number] = self._request_from_facts(number, facts)
        ordered = sorted(found.values(), key=lambda request: request.number, reverse=True)
        ordered.sort(key=lambda request: request.merged_at, reverse=True)
        for request in ordered:
            merged = datetime.fromisoformat(request.merged_at)
            if (since is None or merged >= since) and (until is None or merged < until):
                yield request

    def changes(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, list[Changed]]]:
        """Which files each pull request changes, in one pass over the history."""
        yield from zip(requests, self.changed_files(_pairs(requests)), strict=True)

    def wide_diffs(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, bytes]]:
        """The diff of each pull request's code files, with the whole changed functions as context."""
        yield from zip(requests, self.function_diffs(_pairs(requests)), strict=True)

    def linked(self, request: PullRequest) -> tuple[str, ...]:
        """Issues that its message closes; a clone knows no others."""
        return request.linked_issues

    def issue_text(self, request: PullRequest) -> str:
        """A clone has no issues; what is known of them was given with the facts."""
        facts = self._facts.get(request.number)
        return facts.issue_text if facts is not None else ""

    def _commits(self, *which: str) -> list[_Commit]:
        output = self._git.output(["log", "-z", f"--format={_FIELDS}", *which, "--"])
        commits = []
        for record in output.decode(errors="replace").split("\0"):
            fields = record.split("\x1f")
            if len(fields) < 7:
                continue
            sha, tree, parents, committed, authored, subject = fields[:6]
            body = "\x1f".join(fields[6:]).strip()
            commits.append(
                _Commit(sha, tree, tuple(parents.split()), committed, authored, subject, body)
            )
        return commits

    def _name(self, found: dict[int, PullRequest]) -> None:
        """Give merges without a title of their own that of the last commit that they bring in."""
        nameless = [
            r for r in found.values() if r.merge_style == "merge" and r.title.startswith("Merge ")
        ]
        if not nameless:
            return
        tips = [f"{request.merge_commit}^2" for request in nameless]
        command = ["log", "-z", "--no-walk=unsorted", "--stdin", "--format=%s"]
        with tempfile.TemporaryFile() as asked:
            asked.write("".join(f"{tip}\n" for tip in tips).encode())
            asked.seek(0)
            told = self._git.output(command, asked)
        titles = told.decode(errors="replace").rstrip("\0").split("\0")
        if len(titles) != len(nameless):
            return
        for request, title in zip(nameless, titles, strict=True):
            if title.strip():
                found[request.number] = request.model_copy(update={"title": title.strip()})

    def _request(self, commit: _Commit) -> PullRequest | None:
        named = numbered(commit.subject, commit.body, merge=len(commit.parents) > 1)
        if named is None or not commit.parents:
            return None
        merge = len(commit.parents) > 1 and named.merge
        return PullRequest(
            repo=self.repo,
            number=named.number,
            title=named.title,
            body=named.body,
            merged_at=utc(commit.committed),
            authored_at=utc(commit.authored),
            base_commit=commit.parents[0],
            merge_commit=commit.sha,
            merge_style="merge" if merge else "squash",
            linked_issues=linked_issues(f"{named.title}\n{named.body}", self.repo),
        )

    def _request_from_facts(self, number: int, facts: PullRequestFacts) -> PullRequest:
        try:
            commit = self._commits("-1", facts.merge_commit)[0]
        except Malformed as error:
            raise Malformed(self.path, f"#{number}", f"no commit {facts.merge_commit}") from error
        self.know_trees({commit.sha: commit.tree})
        if not commit.parents:
            raise Malformed(self.path, f"#{number}", f"{commit.sha} has no parent")
        first, merge = commit.parents[0], len(commit.parents) > 1
        base = facts.base_commit or first
        style: Literal["merge", "squash", "rebase"]
        style = "merge" if merge else "squash" if base == first else "rebase"
        named = numbered(commit.subject, commit.body, merge=merge)
        title = facts.title or (named.title if named else commit.subject)
        body = facts.body or (named.body if named else commit.body)
        found = linked_issues(f"{title}\n{body}", self.repo)
        return PullRequest(
            repo=self.repo,
            number=number,
            title=title,
            body=body,
            merged_at=utc(facts.merged_at or commit.committed),
            authored_at=utc(commit.authored),
            base_commit=base,
            merge_commit=commit.sha,
            merge_style=style,
            linked_issues=tuple(dict.fromkeys((*facts.linked_issues, *found))),
        )


def _pairs(requests: Sequence[PullRequest]) -> list[tuple[str, str]]:
    return [(request.base_commit, request.merge_commit) for request in requests]
