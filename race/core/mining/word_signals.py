"""Signals from prose: title, text, changelog entry, linked issues, and remarks in changed code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from race.core.mining.diffs import Section
from race.core.mining.links import linked_issues
from race.core.mining.prose import (
    FEATURE,
    FEATURE_ANYWHERE,
    FIX,
    NAMED_DEFECT,
    OFFER,
    OPTION,
    PROSE,
    REGRESSION,
    SAYING,
    STRONG_FIX,
    TEST_MENTION,
    TEST_WORK,
    TYPE,
    UPKEEP,
    plain_title,
)
from race.core.paths import Layout

MATTER = ("race", "deadlock", "hang", "cancel", "leak", "thread", "loop", "lock", "context")
"""Names in PROSE that are about concurrency by themselves."""
LONGEST_TITLE = 500
"""A commit's first line can be anything; titles are no longer than this."""
_TAG = re.compile(r"<!--.*?-->|^\s*[-*] \[[ xX]\].*$|https?://\S+", re.DOTALL | re.MULTILINE)
_TRAILER = re.compile(r"^(co-authored-by|signed-off-by|reviewed-by|\(cherry picked).*$", re.I | re.M)
_FIX_ENTRY = re.compile(r"bugfix|\bfix|prevent|avoid|race|deadlock")
_FEATURE_ENTRY = re.compile(r"\.feature|\badded\b|\bnew\b|\.misc|\.removal|deprecat|\bsupport\b")
_UPKEEP_TYPES = ("feat", "test", "tests", "docs", "chore", "ci", "perf", "refactor", "style", "build")


@dataclass(frozen=True)
class Words:
    """The prose of a pull request. `changelog` is taken from the diff when it is empty."""

    title: str
    body: str = ""
    changelog: str = ""


def changelog_lines(parts: Sequence[Section], layout: Layout) -> str:
    """What a diff adds to changelogs, with the names of news fragments."""
    lines = []
    for section in parts:
        if layout.kind(section.path) == "changelog" and not section.binary:
            lines.append(section.path.rsplit("/", 1)[-1])
            lines.extend(section.changed_lines()[1])
    return "\n".join(lines)[:4000]


def plain_body(text: str, most: int = 3000) -> str:
    """A description without comments, ticked boxes, addresses and trailers."""
    return _TRAILER.sub("", _TAG.sub(" ", text))[:most]


def word_signals(words: Words) -> dict[str, float]:
    """What title, text and changelog entry say."""
    title, body = words.title[:LONGEST_TITLE], plain_body(words.body)
    about = f"{title}\n{body}\n{words.changelog}"
    found: dict[str, float] = {}
    for name, pattern in PROSE.items():
        if pattern.count(title):
            found[f"title:{name}"] = 1.0
        else:
            found[f"text:{name}"] = share(pattern.count(about), 2)
    found |= _title(title, found)
    found["text:defect"] = share(len(STRONG_FIX.findall(body)), 2)
    found["text:names-defect"] = float(bool(NAMED_DEFECT.search(body + words.changelog)))
    found["text:regression"] = float(bool(REGRESSION.search(body)))
    found["text:closes"] = float(bool(linked_issues(f"{title}\n{words.body}", "")))
    found["text:matter"] = share(_matter(body), 6)
    log = words.changelog.lower()
    if log:
        found["text:changelog-fix"] = float(bool(_FIX_ENTRY.search(log)))
        found["text:changelog-matter"] = share(_matter(log), 2)
        found["not:changelog-feature"] = float(bool(_FEATURE_ENTRY.search(log)))
    return found


def _title(title: str, said: dict[str, float]) -> dict[str, float]:
    """What kind of change a title promises; `said` has the parts of the matter that it names."""
    matter = [said.get(f"title:{name}", 0.0) for name in MATTER]
    defect = bool(NAMED_DEFECT.search(title))
    doubtful = 0.5 if defect else 1.0
    found = {
        "title:fix": bool(STRONG_FIX.search(title)),
        "title:defect": bool(FIX.search(title)),
        "title:matter": max(matter),
        "title:matter-twice": sum(matter) > 1,
        "title:names-defect": defect,
        "not:title-feature": bool(FEATURE.match(title)) or "✨" in title,
        "not:title-offers": bool(OFFER.match(plain_title(title))) * doubtful,
        "not:title-feature-words": bool(FEATURE_ANYWHERE.search(title)),
        "not:title-tests": bool(TEST_WORK.search(title)),
        "not:title-mentions-tests": bool(TEST_MENTION.search(title)),
        "not:title-option": bool(OPTION.search(title)),
        "not:title-upkeep": bool(UPKEEP.search(title)) * doubtful,
        "not:title-saying": bool(SAYING.search(title)),
    }
    kind = TYPE.match(title)
    if kind:
        named = kind["type"].lower()
        found["title:type-fix"] = named in ("fix", "bugfix", "bug", "hotfix")
        found["not:title-type"] = named in _UPKEEP_TYPES
    return {name: float(value) for name, value in found.items()}


def issue_signals(text: str) -> dict[str, float]:
    """What the issues that a pull request closes say. They only ever speak for it.

    A clone has no issues, so that these are asked for last, and only where they can change a verdict.
    """
    said = plain_body(text, 6000)
    named = bool(NAMED_DEFECT.search(said))
    found = {
        "issue:names-defect": float(named),
        "issue:matter": share(_matter(said), 4),
        "issue:defect": float(named or bool(FIX.search(said) or REGRESSION.search(said))),
    }
    return {name: round(value, 4) for name, value in found.items() if value}


def remark_signals(side: str, remarks: Sequence[str]) -> dict[str, float]:
    """What added comments, docstrings and messages of one side say."""
    said = "\n".join(remarks)[:8000]
    if not said.strip():
        return {}
    counts = {
        name: pattern.count(said) for name, pattern in PROSE.items() if name not in ("task", "timeout")
    }
    own = sum(counts[name] for name in MATTER if name not in ("lock", "loop"))
    return {f"{side}:remarks-{name}": share(count, 2) for name, count in counts.items()} | {
        f"{side}:remarks-defect": float(bool(STRONG_FIX.search(said))),
        f"{side}:remarks-regression": float(bool(REGRESSION.search(said))),
        f"{side}:remarks-matter": share(own, 4),
    }


def _matter(text: str) -> int:
    return sum(PROSE[name].count(text) for name in MATTER)


def share(count: float, enough: float) -> float:
    """A count as a part of what is enough, 1 at most."""
    return min(1.0, count / enough)
