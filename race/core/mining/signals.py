"""Named signals of one pull request, each between 0 and 1, from its words and its diff.

Nothing here knows a project. A signal's name is what a maintainer reads in a record: `title:` and
`text:` are words, `issue:` are words of linked issues, `fix:` is changed product code, `test:` is
changed tests, `both:` are signals that count only side by side, `not:` is what speaks against.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from race.core.mining import code
from race.core.mining.code_signals import (
    MARKS_ONLY,
    SKIPS_ALONE,
    check_signals,
    linking_signals,
    product_signals,
)
from race.core.mining.diffs import Line, Section, sections
from race.core.mining.word_signals import Words, changelog_lines, issue_signals, share, word_signals
from race.core.paths import TEST_SIDE, Layout

__all__ = ["MARKS_ONLY", "REMARKS_ALONE", "SKIPS_ALONE", "Words", "issue_signals", "signals"]

REMARKS_ALONE = "not:fix-remarks-alone"
"""Decides alone: no product code differs but for comments."""
_LONGEST_LINE = 1000
_REMARK = re.compile(r"""^((?:[^#"']|"[^"]*"|'[^']*')*?)\s*#.*$""")


def signals(words: Words, diff: bytes, layout: Layout, paths: Sequence[str] = ()) -> dict[str, float]:
    """All signals that are not zero, by name.

    `diff` has whole functions as context and may leave files out; `paths` are all that are changed.
    """
    parts = list(sections(diff))
    fixes = [part for part in parts if layout.kind(part.path) == "product"]
    checks = [part for part in parts if layout.kind(part.path) in TEST_SIDE]
    product = code.read(part for part in fixes if not part.binary)
    tests = code.read((part for part in checks if not part.binary), tests=True)
    if not words.changelog:
        words = Words(words.title, words.body, changelog_lines(parts, layout))
    found = word_signals(words)
    found |= product_signals(product, fixes)
    found |= check_signals(tests, product)
    found |= linking_signals(tests, product, [p.path for p in checks], [p.path for p in fixes])
    found |= _around([layout.kind(path) for path in paths])
    found["not:docs"] *= 0.5 if found["title:fix"] else 1.0
    found[REMARKS_ALONE] = float(bool(fixes) and all(map(_remarks_alone, fixes)))
    found |= _together(found)
    return {name: round(value, 4) for name, value in sorted(found.items()) if value}


def _remarks_alone(part: Section) -> bool:
    """Is a file's code the same before and after, comments and blank lines aside?"""
    if part.binary or not part.hunks or "old mode" in part.modes:
        return False
    return all(_bare(hunk.old) == _bare(hunk.new) for hunk in part.hunks)


def _bare(side: Sequence[Line]) -> list[str]:
    return [bare for line in side if (bare := _without_remark(line.text).rstrip())]


def _without_remark(text: str) -> str:
    """A line without its comment; very long lines are left as they are."""
    if "#" not in text or len(text) > _LONGEST_LINE:
        return text
    match = _REMARK.match(text)
    return match[1] if match else text


def _around(kinds: Sequence[str]) -> dict[str, float]:
    """What else a pull request touches: a feature brings documentation, a fix seldom does."""
    return {
        "not:docs": share(kinds.count("docs") + kinds.count("other"), 1),
        "not:build": share(kinds.count("build"), 1),
        "text:changelog": share(kinds.count("changelog"), 1),
    }


def _together(found: dict[str, float]) -> dict[str, float]:
    """Signals that count only side by side."""

    def strongest(*names: str) -> float:
        return max(found.get(name, 0.0) for name in names)

    prose = found["title:matter"]
    acts = strongest(*(f"test:{n}" for n in ("starts", "limits", "syncs", "cancels")))
    does = strongest(*(f"fix:{n}" for n in ("locks", "cancels", "starts", "closes", "guards", "awaits")))
    shown = any(
        found.get(f"{side}:says-{family}")
        for side in ("fix", "test")
        for family in ("lock", "wake", "cancel", "task", "loop", "thread", "context")
    ) or any(found[name] for name in ("fix:in-async", "fix:near-matter", "test:awaits"))

    sources = (
        strongest("title:names-defect", "title:matter"),
        strongest("text:names-defect", "text:race", "text:deadlock", "text:hang", "text:cancel"),
        strongest("fix:gains-lock", "fix:gains-cancel-care", "fix:gains-threadsafe",
                  "fix:gains-context"),
        strongest("fix:remarks-matter", "test:remarks-matter"),
        strongest(*(f"test:named-{n}" for n in ("race", "deadlock", "hang", "cancel", "thread"))),
        strongest("test:at-once", "test:cancels", "test:syncs", "test:acts-2"),
    )  # fmt: skip
    return {
        "not:title-alone": float(prose > 0 and not shown),
        "both:four-sources": float(sum(value > 0 for value in sources) >= 4),
        "both:titled-and-acts": min(prose, max(acts, does)),
        "both:fix-and-defect": min(found["title:fix"], found["title:names-defect"]),
        "both:fix-and-matter": min(found["title:fix"], max(prose, min(acts, does))),
    }
