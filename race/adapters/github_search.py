"""GitHub's search for merged pull requests: past its cap of a thousand results, by halving dates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from race.adapters.github_client import GithubClient

MOST_RESULTS = 1000
"""The search gives no more than this of one query, whatever it says it found."""
KEPT_SECONDS = 3600.0
"""A run that goes on within this time does not search again."""
_FIRST_DAY = date(2008, 1, 1)
WORDS = (
    '"race condition" OR "thread safe" OR "thread safety" OR concurrent OR concurrency',
    "deadlock OR hang OR hangs OR stuck OR livelock",
    "cancel OR cancelled OR cancellation OR CancelledError",
    '"connection leak" OR "task leak" OR "never awaited" OR "event loop" OR contextvars',
    "shutdown OR teardown OR aclose OR reentrant OR TOCTOU",
)
"""Queries for the words of the matter, each within what one query may hold (five operators)."""


def search(
    client: GithubClient, repo: str, query: str, since: datetime | None, until: datetime | None
) -> Iterator[int]:
    """Numbers of merged pull requests that a query finds, each once.

    A window of dates with too many results, or one that the server did not search to its end, is cut
    in two; a single day that still is either is taken as it is, and said so.
    """
    first = since.date() if since else _FIRST_DAY
    last = until.date() if until else datetime.now(UTC).date() + timedelta(days=1)
    windows, seen = [(first, last)], set[int]()
    asked = f"({query})" if " OR " in query and not query.startswith("(") else query
    while windows:
        start, end = windows.pop()
        pages = client.pages(
            "/search/issues",
            keep_seconds=KEPT_SECONDS,
            q=f"repo:{repo} is:pr is:merged merged:{start}..{end} {asked}",
            sort="created",
            order="asc",
        )
        body = next(pages)
        too_many, cut_off = body["total_count"] > MOST_RESULTS, body["incomplete_results"]
        if (too_many or cut_off) and start < end:
            middle = start + (end - start) // 2
            windows += [(start, middle), (middle + timedelta(days=1), end)]
            continue
        if too_many or cut_off:
            why = f"more than {MOST_RESULTS} results" if too_many else "cut off by the server"
            client.say(f"{repo}: search on {start}: {why}; what it gave is taken")
        while True:
            mine = [item["number"] for item in body["items"] if _is_of(item, repo)]
            fresh = [number for number in mine if number not in seen]
            seen.update(fresh)
            yield from fresh
            try:
                body = next(pages)
            except StopIteration:
                break


def _is_of(item: dict[str, Any], repo: str) -> bool:
    """A query's own words could reach beyond the project."""
    return str(item["repository_url"]).lower().endswith(f"/repos/{repo.lower()}")
