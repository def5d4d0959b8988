"""Small facts about pull requests that pass between a source and mining."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Changed:
    """One file that a pull request changes: git's modes and object ids, zeros where there is none."""

    path: str
    old_mode: str
    new_mode: str
    old_blob: str
    new_blob: str


@dataclass(frozen=True)
class PullRequestFacts:
    """What a clone does not say about a pull request; empty fields are taken from the commit."""

    merge_commit: str
    base_commit: str = ""
    title: str = ""
    body: str = ""
    merged_at: str = ""
    linked_issues: tuple[str, ...] = ()
    issue_text: str = ""
    """Titles and texts of the issues that it closes."""
