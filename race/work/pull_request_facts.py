"""A file of facts about pull requests: what a clone alone does not say, one JSON object a line.

A run over GitHub can write it (`race mine --save-pull-requests`), and a run over a clone can read it
(`--pull-requests`), so that both give the same candidates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import AliasChoices, Field, ValidationError

from race.core.mining.facts import PullRequestFacts
from race.core.records import Closed, PullRequest
from race.errors import Malformed
from race.settings import first_problem
from race.store import write_atomic

_SHA = r"^[0-9a-f]{7,64}$"


class _Row(Closed):
    """One line of the file."""

    repo: str = Field(default="", pattern=r"^([\w.-]+/[\w.-]+)?$")
    number: int = Field(gt=0, validation_alias=AliasChoices("number", "pr"))
    merge_commit: str = Field(pattern=_SHA)
    base_commit: str = Field(default="", pattern=rf"{_SHA}|^$")
    title: str = ""
    body: str = ""
    merged_at: str = ""
    linked_issues: tuple[str, ...] = ()
    issue_text: str = ""


def write_facts(path: Path, rows: Iterable[tuple[PullRequest, str]]) -> None:
    """Write what a source told of pull requests, each with the text of its issues, by number.

    Raises DiskFull, or Accident when the file cannot be written.
    """
    lines = []
    for request, issue_text in sorted(rows, key=lambda row: (row[0].repo, row[0].number)):
        fields = request.model_dump(mode="json", exclude={"authored_at", "merge_style"})
        fields["issue_text"] = issue_text
        lines.append(json.dumps({name: value for name, value in fields.items() if value}) + "\n")
    write_atomic(path, "".join(lines).encode())


def read_facts(path: Path, repos: Sequence[str]) -> dict[str, dict[int, PullRequestFacts]]:
    """Facts by project and number; a row without `repo` is about the only one that is mined.

    Malformed names the line and the field.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise Malformed(path, "", f"cannot be read: {error.strerror}") from error
    facts: dict[str, dict[int, PullRequestFacts]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _Row.model_validate_json(line)
        except ValidationError as error:
            place, what = first_problem(error)
            raise Malformed(path, f"line {number}" + (f": {place}" if place else ""), what) from error
        if row.merged_at and not re.match(r"^\d{4}-\d\d-\d\dT", row.merged_at):
            raise Malformed(path, f"line {number}: merged_at", "not an ISO 8601 moment")
        if not row.repo and len(repos) != 1:
            raise Malformed(path, f"line {number}: repo", "needed when several projects are mined")
        known = facts.setdefault(row.repo or repos[0], {})
        known[row.number] = PullRequestFacts(**row.model_dump(exclude={"repo", "number"}))
    return facts
