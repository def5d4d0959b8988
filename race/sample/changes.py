"""Reads the sample's history: one file per change of the main branch, in the order of their names.

    Number: 12                     absent for a commit that came without a pull request
    Title: ...
    Style: merge | squash | direct
    Branch: cancelled-takers       merge only
    Behind: 1                      merge only: the branch began that many changes before the merge
    Date: 2025-05-15T14:20:00+00:00

    The body, as the pull request tells it.

    Commit: subject                one or more
    Date: ...

    diff --git ...

A squashed change has one commit, whose subject and date are the change's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HISTORY = Path(__file__).resolve().parent / "history"
_COMMIT = re.compile(rb"^Commit: (.*)\nDate: (.*)\n\n(?=diff --git )", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """One commit as its author made it; `date` is ISO 8601, `diff` what git prints."""

    subject: str
    date: str
    diff: bytes


@dataclass(frozen=True)
class Change:
    """One step of the main branch: a pull request, or a commit without one."""

    number: int | None
    title: str
    style: str
    branch: str
    behind: int
    date: str
    body: str
    commits: tuple[Commit, ...]

    @property
    def message(self) -> str:
        """What the commit on the main branch says."""
        if self.style == "merge":
            head = f"Merge pull request #{self.number} from sample/{self.branch}\n\n{self.title}"
        elif self.number is not None:
            head = f"{self.title} (#{self.number})"
        else:
            head = self.title
        return f"{head}\n\n{self.body}\n"


def changes() -> Iterator[Change]:
    """The whole history, oldest first."""
    for path in sorted(HISTORY.glob("*.patch")):
        yield _read(path.read_bytes())


def _read(text: bytes) -> Change:
    parts = _COMMIT.split(text)
    head, _, body = parts[0].decode().partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    commits = tuple(
        Commit(parts[at].decode(), parts[at + 1].decode(), parts[at + 2])
        for at in range(1, len(parts), 3)
    )
    return Change(
        number=int(fields["Number"]) if "Number" in fields else None,
        title=fields["Title"],
        style=fields["Style"],
        branch=fields.get("Branch", ""),
        behind=int(fields.get("Behind", "0")),
        date=fields["Date"],
        body=body.strip(),
        commits=commits,
    )
