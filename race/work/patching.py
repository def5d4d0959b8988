"""The two patches of a candidate, and the proof that they are its merge commit's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from race.core.mining.diffs import sections
from race.core.mining.split import Split, split
from race.core.mining.word_signals import changelog_lines, plain_body
from race.core.paths import Layout
from race.core.records import Finding, Mined, PullRequest
from race.errors import Malformed
from race.ports import History
from race.settings import MineSection


@dataclass(frozen=True)
class Judged:
    """One pull request: its record (without files) and, when accepted, its two patches."""

    record: Mined
    fix: bytes = b""
    test: bytes = b""


def with_patches(
    history: History, request: PullRequest, layout: Layout, record: Mined, rules: MineSection
) -> Judged:
    """An accepted record with its patches, or the record turned down for what is wrong with them."""
    diff = history.diff(request.base_commit, request.merge_commit)
    parts = split(diff, layout)
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
            "told": tuple(_told(request, diff, layout)),
        }
    )
    return Judged(record, parts.fix, parts.test)


def _told(request: PullRequest, diff: bytes, layout: Layout) -> Iterator[str]:
    """The prose that a statement must not copy: the request's text, and what it adds to changelogs."""
    for text in (plain_body(request.body, 6000), changelog_lines(list(sections(diff)), layout)):
        if text.strip():
            yield text.strip()


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
