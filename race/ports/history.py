"""A project's past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from race.core.mining.facts import Changed
from race.core.records import PullRequest


class History(Protocol):
    """A project's past: its merged pull requests, and any file at any commit."""

    repo: str
    when_empty: str
    """What it means that this source names no pull request, and what to do, in one line."""

    def pull_requests(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[PullRequest]:
        """Merged pull requests, newest first, by merge date."""

    def diff(self, base: str, commit: str) -> bytes:
        """The full binary-safe git diff between two commits, with full index lines."""

    def read(self, commit: str, path: str) -> bytes | None:
        """A file at a commit, or None."""

    def files(self, commit: str) -> list[str]:
        """Every path at a commit."""

    def archive(self, commit: str) -> bytes:
        """The tree at a commit as a deterministic tar: sorted names, zero times, owner 0."""

    def changes(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, list[Changed]]]:
        """Which files each pull request changes; every request once, in order."""

    def wide_diffs(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, bytes]]:
        """The diff of each request's code files with whole functions as context, in order."""

    def linked(self, request: PullRequest) -> tuple[str, ...]:
        """All issues that a request closes, also those that only the source's own pages tell."""

    def issue_text(self, request: PullRequest) -> str:
        """Titles and texts of the issues that it closes; empty when the source does not know them."""

    def top(self, commit: str) -> dict[str, str]:
        """Names at the root of a tree, each with its object id."""

    def tree_entries(self, commit: str) -> dict[str, tuple[str, str]]:
        """Mode and object id of every path at a commit."""

    def applied(self, base: str, patches: Sequence[bytes]) -> dict[str, tuple[str, str]]:
        """What patches make of a base, as `tree_entries`; Malformed when one does not apply exactly."""
