"""Looks at merged pull requests of one history and says of each what it is.

In order of cost: which files it touches (one pass for all), its words and the functions it changes,
the licence at its base, and for what is left the two patches, checked by applying them.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_all_start_methods, get_context

from race.core.licence import (
    Licence,
    licence_files,
    licence_findings,
    metadata_files,
    read_licence,
)
from race.core.mining.decision import against, contributions, doubt, kind, score
from race.core.mining.facts import Changed
from race.core.mining.opinion import UNSURE, question, read_reply
from race.core.mining.signals import MARKS_ONLY, Words, signals
from race.core.mining.split import Split, split
from race.core.paths import Layout, is_ambiguous, is_code
from race.core.records import Finding, Mined, PullRequest
from race.errors import Accident, Malformed
from race.ports import History, Model
from race.settings import MineSection

Say = Callable[[str, int, int], None]
Reading = tuple[Words, bytes, Layout, list[str]]
MOST_WORKERS, FEW, BATCH = 8, 150, 12
"""Processes at most; so few pull requests that one process is quicker; how many go in one parcel."""


@dataclass(frozen=True)
class Judged:
    """One pull request: its record (without files) and, when accepted, its two patches."""

    record: Mined
    fix: bytes = b""
    test: bytes = b""


@dataclass
class _Open:
    """A pull request that is still in."""

    request: PullRequest
    changes: list[Changed]
    layout: Layout
    findings: list[Finding] = field(default_factory=list)


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
    for looked, (entry, found) in enumerate(_signals(readings, len(left)), 1):
        request = entry.request
        say(f"{history.repo}#{request.number}", looked, len(left))
        added = contributions(found)
        total = score(added)
        if model is not None and UNSURE[0] <= total <= UNSURE[1]:
            added |= _opinion(history, request, model)
            total = score(added)
        licence = licences.at(request.base_commit)
        entry.findings += licence_findings(licence, rules.licences)
        if found.get(MARKS_ONLY):
            entry.findings.append(
                Finding(rule="no-tests", message="changes tests by marks, imports and comments alone")
            )
        if total < rules.threshold:
            because = against(added)
            message = f"score {total:.2f} is below {rules.threshold:.2f}: {doubt(added)}"
            entry.findings.append(
                Finding(rule="not-concurrency", message=message, place=because and f"against: {because}")
            )
        record = _record(
            request, entry.findings, licence=licence.expression, kind=kind(found), score=total,
            signals=added,
        )  # fmt: skip
        yield _with_patches(history, entry, record, rules) if record.accepted else Judged(record)


def _opinion(history: History, request: PullRequest, model: Model) -> dict[str, float]:
    """The signal of a model that was asked; nothing when its reply is no answer."""
    diff = history.diff(request.base_commit, request.merge_commit)
    value = read_reply(model.ask(question(request, diff), max_tokens=400).text)
    return {} if value is None else {f"model:{model.name}": value}


def _reading(entry: _Open, diff: bytes) -> tuple[_Open, Reading]:
    paths = [change.path for change in entry.changes]
    return entry, (Words(entry.request.title, entry.request.body), diff, entry.layout, paths)


def _signals(
    readings: Iterable[tuple[_Open, Reading]], total: int
) -> Iterator[tuple[_Open, dict[str, float]]]:
    """Each pull request with its signals, in order; many are read by several processes.

    At most a few batches wait at a time, so that memory does not grow with the history.
    """
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)))
    if workers < 2 or total < FEW:
        for entry, reading in readings:
            yield entry, signals(*reading)
        return
    with ProcessPoolExecutor(
        workers, get_context(_start_method()), _begin_worker, (os.getpid(),)
    ) as pool:
        waiting: deque[tuple[list[_Open], Future[list[dict[str, float]]]]] = deque()
        for batch in batched(readings, BATCH):
            entries, asked = [entry for entry, _ in batch], [reading for _, reading in batch]
            waiting.append((entries, pool.submit(read_batch, asked)))
            if len(waiting) > 3 * workers:
                yield from _answered(*waiting.popleft())
        while waiting:
            yield from _answered(*waiting.popleft())


def _begin_worker(owner: int) -> None:
    """A worker leaves interrupts to its owner, and ends when its owner is gone, however it went.

    Syntax trees hold no cycles, so that collecting garbage would only cost time.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _start_method() -> str:
    """Forking is quick, and safe while there is one thread; spawning runs the main script again."""
    alone = threading.active_count() == 1
    return "fork" if alone and "fork" in get_all_start_methods() else "spawn"


def _answered(
    entries: list[_Open], future: Future[list[dict[str, float]]]
) -> Iterator[tuple[_Open, dict[str, float]]]:
    try:
        yield from zip(entries, future.result(), strict=True)
    except BrokenProcessPool as error:
        raise Accident("a process that reads diffs was killed; is there memory left?") from error


def read_batch(readings: Sequence[Reading]) -> list[dict[str, float]]:
    """The signals of several pull requests; what a process of the pool does."""
    return [signals(*reading) for reading in readings]


def batched(
    readings: Iterable[tuple[_Open, Reading]], size: int
) -> Iterator[list[tuple[_Open, Reading]]]:
    """Lists of at most `size`."""
    batch: list[tuple[_Open, Reading]] = []
    for reading in readings:
        batch.append(reading)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _with_patches(history: History, entry: _Open, record: Mined, rules: MineSection) -> Judged:
    request = entry.request
    parts = split(history.diff(request.base_commit, request.merge_commit), entry.layout)
    findings = [*record.findings, *_patch_findings(history, request, parts, rules)]
    accepted = all(finding.severity != "error" for finding in findings)
    if not accepted:
        return Judged(record.model_copy(update={"accepted": False, "findings": tuple(findings)}))
    record = record.model_copy(
        update={
            "findings": tuple(findings),
            "product_files": parts.product,
            "test_files": parts.tests,
            "other_files": parts.other,
            "fix_lines": parts.fix_lines,
            "linked_issues": history.linked(request),
        }
    )
    return Judged(record, parts.fix, parts.test)


def _patch_findings(
    history: History, request: PullRequest, parts: Split, rules: MineSection
) -> Iterator[Finding]:
    """What is wrong with a pair of patches: too large, or not the merge commit's files."""
    if parts.fix_lines > rules.max_fix_lines:
        yield Finding(
            rule="too-large",
            message=f"the fix is {parts.fix_lines} lines; the limit is {rules.max_fix_lines}",
        )
        return
    paths = (*parts.product, *parts.tests)
    if not all(path.isprintable() and _utf8(path) for path in paths):
        yield Finding(rule="odd-path", message="a changed path is not printable UTF-8")
        return
    try:
        made = history.applied(request.base_commit, [parts.fix, parts.test])
    except Malformed as error:
        yield Finding(rule="does-not-apply", message=f"the patches do not apply: {error.what}")
        return
    wanted = history.tree_entries(request.merge_commit)
    for path in paths:
        if made.get(path) != wanted.get(path):
            yield Finding(
                rule="not-the-merge", message="the patches do not give the merged file", place=path
            )


def _utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


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
