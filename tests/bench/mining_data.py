"""Labelled pull requests and what mining sees of them, for the mining benchmarks.

A label file has one JSON object a line: repo, pr, label (1: a concurrency fix with tests), optionally
kind, has_tests, title. Clones lie in one folder, as <owner>+<name>/repo, <owner>/<name> or <name>.

Two label files of our own lie here, read quickly by one engineer: `mining_labels.jsonl` (24 projects,
fixes and what looks like one) and `mining_labels_near.jsonl` (20 of them, pull requests whose score
was near the threshold when they were chosen: a hard set, which says nothing about typical rates).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from race.adapters.git_history import GitHistory
from race.core.mining.signals import MARKS_ONLY, REMARKS_ALONE, SKIPS_ALONE, Words, signals
from race.core.records import PullRequest
from race.work.mining import layout_of, shape_finding

DECIDED = (MARKS_ONLY, SKIPS_ALONE, REMARKS_ALONE)
"""Signals that turn a pull request down by themselves."""


@dataclass(frozen=True)
class Labelled:
    """One labelled pull request. `signals` is None when a rule without weights turns it down.

    `file` is the label file that it comes from, by number.
    """

    repo: str
    pr: int
    positive: bool
    kind: str | None
    request: PullRequest
    signals: dict[str, float] | None
    weight: float
    file: int = 0


def clone_of(folder: Path, repo: str) -> Path | None:
    """Where a project's clone lies."""
    owner, name = repo.split("/")
    for path in (folder / f"{owner}+{name}" / "repo", folder / owner / name, folder / name):
        if path.exists():
            return path
    return None


def read_labels(files: Iterable[Path]) -> dict[str, dict[int, dict[str, Any]]]:
    """Rows by project and number; a later file does not override an earlier one."""
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for file in files:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            rows.setdefault(row["repo"], {}).setdefault(row["pr"], row | {"file": str(file)})
    return rows


def labelled(files: list[Path], clones: Path, own_weight: float = 0.7) -> Iterator[Labelled]:
    """Every labelled pull request that a clone has; rows of files after the first weigh less."""
    for repo, rows in sorted(read_labels(files).items()):
        path = clone_of(clones, repo)
        if path is None:
            print(f"no clone of {repo}: {len(rows)} rows left out")
            continue
        history = GitHistory(path, repo)
        wanted = [request for request in history.pull_requests() if request.number in rows]
        layouts = {}
        for request, changes in history.changes(wanted):
            layouts[request.number] = (layout_of(history, request, changes), changes)
        for request, diff in history.wide_diffs(wanted):
            row = rows[request.number]
            layout, changes = layouts[request.number]
            seen = None
            if shape_finding(changes, layout) is None:
                words = Words(request.title, request.body)
                seen = signals(words, diff, layout, [change.path for change in changes])
                seen = None if any(seen.get(name) for name in DECIDED) else seen
            yield Labelled(
                repo=repo,
                pr=request.number,
                positive=bool(row["label"]) and row.get("has_tests", True),
                kind=row.get("kind"),
                request=request,
                signals=seen,
                weight=1.0 if row["file"] == str(files[0]) else own_weight,
                file=[str(file) for file in files].index(row["file"]),
            )
