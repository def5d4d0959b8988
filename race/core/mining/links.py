"""Numbers in commit messages: which pull request a commit is, and which issues it closes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MERGE = re.compile(r"^Merge pull request #(\d+)\b")
_GITLAB = re.compile(r"^See merge request \S*!(\d+)\s*$", re.MULTILINE)
_SQUASH = re.compile(r"^(?P<title>.*?)\s*\((?:#|gh-|GH-|PR #|pull request #)(?P<number>\d+)\)\.?\s*$")
_CLOSING = (
    r"\b(?:close[sd]?|closing|fix(?:e[sd]|ing)?|resolve[sd]?|resolving)\b[:\s]+"
    r"(?:issues?\s+|bugs?\s+)?"
)
_TARGET = (
    r"(?:(?P<repo{0}>[\w.-]+/[\w.-]+)?(?:#|\bgh-)(?P<number{0}>\d+)"
    r"|https?://[\w.-]+/(?P<url_repo{0}>[\w.-]+/[\w.-]+)/issues/(?P<url_number{0}>\d+))"
)
_CLOSES = re.compile(_CLOSING + _TARGET.format(""), re.IGNORECASE)
_MORE = re.compile(r"\s*(?:,|&|\band\b)\s*" + _TARGET.format(""), re.IGNORECASE)


@dataclass(frozen=True)
class Numbered:
    """A commit that is a pull request: its number, title and text; merge commit or single commit."""

    number: int
    title: str
    body: str
    merge: bool


def numbered(subject: str, body: str, *, merge: bool) -> Numbered | None:
    """Which pull request a commit is, from its message, or None.

    A merge commit's title is the first line of its body. `merge` says that it has several parents.
    """
    match = _MERGE.match(subject)
    if match:
        title, _, rest = body.strip().partition("\n")
        return Numbered(int(match[1]), title.strip() or subject, rest.strip(), True)
    if merge and (asked := _GITLAB.search(body)):
        title, _, rest = body.strip().partition("\n")
        return Numbered(int(asked[1]), title.strip(), rest.strip(), True)
    match = _SQUASH.match(subject)
    if match:
        return Numbered(int(match["number"]), match["title"], body.strip(), False)
    return None


def linked_issues(text: str, repo: str) -> tuple[str, ...]:
    """Issues that a text closes by keyword, as `owner/name#number`, in the order they appear."""
    found: list[str] = []
    for match in _CLOSES.finditer(text):
        hit: re.Match[str] | None = match
        while hit:
            owner = hit["repo"] or hit["url_repo"] or repo
            found.append(f"{owner}#{hit['number'] or hit['url_number']}")
            hit = _MORE.match(text, hit.end())
    return tuple(dict.fromkeys(found))
