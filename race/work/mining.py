"""Looks at merged pull requests of one history and says of each what it is.

In order of cost: which files it touches (one pass for all), its words and the functions it changes,
the licence at its base, and for what is left the two patches, checked by applying them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from race.core.licence import (
    Licence,
    licence_files,
    licence_findings,
    metadata_files,
    read_licence,
)
from race.core.mining.facts import Changed
from race.core.mining.kinds import kind
from race.core.mining.signals import Words
from race.core.paths import Layout, is_ambiguous, is_code
from race.core.records import Finding, Mined, ModelCall, PullRequest
from race.ports import History, Model
from race.settings import MineSection
from race.work.diff_reading import Reading, read_signals
from race.work.patching import Judged, with_patches
from race.work.weighing import doubts, weigh

__all__ = ["Judged", "instance_id", "judge", "layout_of", "shape_finding"]

Say = Callable[[str, int, int], None]


@dataclass
class _Open:
    """A pull request that is still in."""

    request: PullRequest
    changes: list[Changed]
    layout: Layout


def instance_id(request: PullRequest) -> str:
    """`<owner>__<repo>-<number>`."""
    return f"{request.repo.replace('/', '__')}-{request.number}"


def judge(
    history: History,
    requests: Sequence[PullRequest],
    rules: MineSection,
    say: Say,
    model: Model | None = None,
) -> Iterator[Judged]:
    """Judge pull requests; each comes out once, the quickly rejected first.

    A model is asked only about those that the rules are unsure of, and adds one signal.
    """
    licences = _Licences(history)
    left: list[_Open] = []
    for request, changes in history.changes(requests):
        layout = layout_of(history, request, changes)
        finding = shape_finding(changes, layout)
        if finding is not None:
            yield Judged(_record(request, [finding]))
        else:
            left.append(_Open(request, changes, layout))
    say(f"{history.repo}: {len(left)} of {len(requests)} change product code and tests", 0, len(left))
    by_number = {entry.request.number: entry for entry in left}
    diffs = history.wide_diffs([entry.request for entry in left])
    readings = (_reading(by_number[request.number], diff) for request, diff in diffs)
    for looked, (entry, found) in enumerate(read_signals(readings, len(left)), 1):
        request = entry.request
        say(f"{history.repo}#{request.number}", looked, len(left))
        weighed = weigh(history, request, found, rules.threshold, model)
        licence = licences.at(request.base_commit)
        findings = [*licence_findings(licence, rules.licences), *doubts(found, weighed, rules.threshold)]
        record = _record(
            request,
            findings,
            licence=licence.expression,
            kind=kind(found, request.title, request.body),
            score=weighed.score,
            signals=weighed.added,
            calls=weighed.calls,
        )
        if record.accepted:
            yield with_patches(history, request, entry.layout, record, rules)
        else:
            yield Judged(record)


def _reading(entry: _Open, diff: bytes) -> tuple[_Open, Reading]:
    paths = [change.path for change in entry.changes]
    return entry, (Words(entry.request.title, entry.request.body), diff, entry.layout, paths)


def layout_of(history: History, request: PullRequest, changes: Sequence[Changed]) -> Layout:
    """The tree settles ambiguous names; it is read only when there is one."""
    if any(is_ambiguous(change.path) for change in changes):
        return Layout(set(history.files(request.base_commit)) | {change.path for change in changes})
    return _PLAIN


_PLAIN = Layout()


def shape_finding(changes: Sequence[Changed], layout: Layout) -> Finding | None:
    """Does it change product code and add to tests at all?"""
    kinds = [(layout.kind(change.path), change) for change in changes]
    if not any(kind == "product" and is_code(change.path) for kind, change in kinds):
        return Finding(rule="no-product-code", message="changes no product code")
    if not any(
        kind in ("test", "test-helper") and is_code(change.path) and change.new_mode != "000000"
        for kind, change in kinds
    ):
        return Finding(rule="no-tests", message="changes no tests")
    return None


def _record(
    request: PullRequest,
    findings: Sequence[Finding],
    *,
    licence: str | None = None,
    kind: str | None = None,
    score: float = 0.0,
    signals: dict[str, float] | None = None,
    calls: tuple[ModelCall, ...] = (),
) -> Mined:
    return Mined(
        instance_id=instance_id(request),
        accepted=all(finding.severity != "error" for finding in findings),
        findings=tuple(findings),
        repo=request.repo,
        pr=request.number,
        title=request.title,
        merged_at=request.merged_at,
        authored_at=request.authored_at,
        base_commit=request.base_commit,
        merge_commit=request.merge_commit,
        merge_style=request.merge_style,
        linked_issues=request.linked_issues,
        licence=licence,
        kind=kind,
        score=score,
        signals=signals or {},
        calls=calls,
    )


class _Licences:
    """Licences of one history, read once for each set of licence and metadata files."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._known: dict[tuple[tuple[str, str], ...], Licence] = {}
        self._blob = lru_cache(maxsize=256)(self._read)

    def at(self, commit: str) -> Licence:
        """The licence at a commit."""
        top = self._history.top(commit)
        texts, metadata = licence_files(top), metadata_files(top)
        key = tuple((name, top[name]) for name in (*texts, *metadata))
        if key not in self._known:
            self._known[key] = read_licence(
                {name: self._blob(commit, name) for name in texts},
                {name: self._blob(commit, name) for name in metadata},
            )
        return self._known[key]

    def _read(self, commit: str, name: str) -> bytes:
        return self._history.read(commit, name) or b""
