"""Named signals of one pull request, each between 0 and 1, from its words and its diff.

Nothing here knows a project. A signal's name is what a maintainer reads in a record: `title:` and
`text:` are words, `fix:` is changed product code, `test:` is changed tests, `not:` is what speaks
against.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from race.core.mining import code
from race.core.mining.diffs import Section, sections
from race.core.mining.links import linked_issues
from race.core.mining.prose import (
    FEATURE,
    FEATURE_ANYWHERE,
    FIX,
    NAMED_DEFECT,
    OPTION,
    PROSE,
    REGRESSION,
    SAYING,
    STRONG_FIX,
    TEST_WORK,
    TYPE,
    UPKEEP,
)
from race.core.mining.vocabulary import WORD_FAMILIES
from race.core.paths import TEST_SIDE, Layout

FAMILIES = tuple(sorted(set(WORD_FAMILIES.values()) | {"event", "file"}))
MARKS_ONLY = "not:test-marks-only"
"""Decides alone: such tests cannot fail without the fix."""
_MATTER = ("race", "deadlock", "hang", "cancel", "leak", "thread", "loop", "lock", "context")
_TAG = re.compile(r"<!--.*?-->|^\s*[-*] \[[ xX]\].*$|https?://\S+", re.DOTALL | re.MULTILINE)
_TRAILER = re.compile(r"^(co-authored-by|signed-off-by|reviewed-by|\(cherry picked).*$", re.I | re.M)
_CONCURRENT_CALLS = frozenset(
    [
        "gather",
        "create_task",
        "ensure_future",
        "start_soon",
        "create_task_group",
        "TaskGroup",
        "open_nursery",
        "Thread",
        "ThreadPoolExecutor",
        "submit",
        "run_in_executor",
        "run_sync",
        "to_thread",
        "Barrier",
        "Process",
        "Popen",
        "spawn",
        "run_coroutine_threadsafe",
        "call_soon_threadsafe",
        "call_soon",
        "call_later",
        "as_completed",
        "start",
    ]
)
_AT_ONCE = frozenset(
    ["gather", "TaskGroup", "create_task_group", "open_nursery", "Barrier", "ThreadPoolExecutor",
     "Thread", "create_task", "ensure_future", "start_soon", "Process"]
)  # fmt: skip
_LIMIT_CALLS = frozenset(["wait_for", "fail_after", "move_on_after", "timeout", "join", "wait"])
_SYNC_CALLS = frozenset(
    [
        "Event",
        "Lock",
        "RLock",
        "Condition",
        "Semaphore",
        "Barrier",
        "Future",
        "Queue",
        "set",
        "acquire",
        "release",
        "notify",
        "notify_all",
        "set_result",
        "set_exception",
        "CapacityLimiter",
        "put_nowait",
        "get_nowait",
    ]
)
_CANCEL_CALLS = frozenset(
    ["cancel", "uncancel", "cancelling", "cancelled", "shield", "CancelScope", "cancel_scope", "athrow"]
)
_CLOSE_CALLS = frozenset(
    [
        "close",
        "aclose",
        "stop",
        "shutdown",
        "disconnect",
        "terminate",
        "kill",
        "wait_closed",
        "__aexit__",
        "__exit__",
        "__del__",
        "collect",
    ]
)
_SLEEP_CALLS = frozenset(["sleep", "sleep_forever", "checkpoint", "wait_all_tasks_blocked", "yield_"])


@dataclass(frozen=True)
class Words:
    """The prose of a pull request."""

    title: str
    body: str = ""
    issues: str = ""
    """Titles and texts of linked issues, when the source knows them."""
    changelog: str = ""
    """Lines added to changelogs."""


def changelog_lines(parts: Sequence[Section], layout: Layout) -> str:
    """What a diff adds to changelogs, with the names of news fragments."""
    lines = []
    for section in parts:
        if layout.kind(section.path) == "changelog" and not section.binary:
            lines.append(section.path.rsplit("/", 1)[-1])
            lines.extend(section.changed_lines()[1])
    return "\n".join(lines)[:4000]


def signals(words: Words, diff: bytes, layout: Layout, paths: Sequence[str] = ()) -> dict[str, float]:
    """All signals that are not zero, by name.

    `diff` has whole functions as context and may leave files out; `paths` are all that are changed.
    """
    parts = list(sections(diff))
    product = code.read(s for s in parts if layout.kind(s.path) == "product" and not s.binary)
    tests = code.read(
        (s for s in parts if layout.kind(s.path) in TEST_SIDE and not s.binary), tests=True
    )
    if not words.changelog:
        words = Words(words.title, words.body, words.issues, changelog_lines(parts, layout))
    found = _words(words)
    found |= _product(product, [s for s in parts if layout.kind(s.path) == "product"])
    found |= _tests(tests, product)
    found |= _around([layout.kind(path) for path in paths])
    found["not:docs"] *= 0.5 if found["title:fix"] else 1.0
    found |= _together(found)
    return {name: round(value, 4) for name, value in sorted(found.items()) if value}


def _words(words: Words) -> dict[str, float]:
    found: dict[str, float] = {}
    title = words.title
    body = _TRAILER.sub("", _TAG.sub(" ", words.body))[:3000]
    about = title + "\n" + body + "\n" + words.changelog + "\n" + words.issues[:3000]
    for name, pattern in PROSE.items():
        if pattern.search(title):
            found[f"title:{name}"] = 1.0
        elif pattern.search(about):
            found[f"text:{name}"] = min(1.0, len(pattern.findall(about)) / 2)
    found["title:fix"] = float(bool(STRONG_FIX.search(title)))
    found["title:defect"] = float(bool(FIX.search(title)))
    found["text:defect"] = min(1.0, len(STRONG_FIX.findall(body)) / 2)
    found["not:title-feature"] = float(bool(FEATURE.match(title)) or "✨" in title)
    found["not:title-feature-words"] = float(bool(FEATURE_ANYWHERE.search(title)))
    found["not:title-tests"] = float(bool(TEST_WORK.search(title)))
    matter = [found.get(f"title:{name}", 0.0) for name in _MATTER]
    found["title:matter"] = max(matter)
    found["title:names-defect"] = float(bool(NAMED_DEFECT.search(title)))
    found["text:names-defect"] = float(bool(NAMED_DEFECT.search(body + words.changelog)))
    found["title:matter-twice"] = float(sum(matter) > 1)
    kind = TYPE.match(title)
    if kind:
        said = kind["type"].lower()
        found["title:type-fix"] = float(said in ("fix", "bugfix", "bug", "hotfix"))
        found["not:title-type"] = float(
            said
            in ("feat", "test", "tests", "docs", "chore", "ci", "perf", "refactor", "style", "build")
        )
    found["not:title-option"] = float(bool(OPTION.search(title)))
    found["not:title-upkeep"] = float(bool(UPKEEP.search(title)))
    found["not:title-saying"] = float(bool(SAYING.search(title)))
    found["text:regression"] = float(bool(REGRESSION.search(body)))
    found["text:closes"] = float(bool(linked_issues(f"{title}\n{words.body}", "")))
    found["text:matter"] = _share(sum(len(PROSE[name].findall(body)) for name in _MATTER), 6)
    log = words.changelog.lower()
    if log:
        found["text:changelog-fix"] = float(
            bool(re.search(r"bugfix|\bfix|prevent|avoid|race|deadlock", log))
        )
        found["not:changelog-feature"] = float(
            bool(re.search(r"\.feature|\badded\b|\bnew\b|\.misc|\.removal|deprecat|\bsupport\b", log))
        )
    return found


def _around(kinds: Sequence[str]) -> dict[str, float]:
    """What else a pull request touches: a feature brings documentation, a fix seldom does."""
    return {
        "not:docs": _share(kinds.count("docs") + kinds.count("other"), 1),
        "not:build": _share(kinds.count("build"), 1),
        "text:changelog": _share(kinds.count("changelog"), 1),
    }


def _remarks(side: str, remarks: Sequence[str]) -> dict[str, float]:
    said = "\n".join(remarks)[:8000]
    return {
        f"{side}:remarks-{name}": _share(len(pattern.findall(said)), 2)
        for name, pattern in PROSE.items()
        if name not in ("task", "timeout")
    } | {
        f"{side}:remarks-defect": _share(len(STRONG_FIX.findall(said)), 1),
        f"{side}:remarks-regression": _share(len(REGRESSION.findall(said)), 1),
        f"{side}:remarks-matter": _share(
            sum(len(PROSE[name].findall(said)) for name in _MATTER if name not in ("lock", "loop")), 4
        ),
    }


def _share(count: float, enough: float) -> float:
    return min(1.0, count / enough)


def _calls(counter: Counter[str], names: frozenset[str]) -> int:
    return sum(counter[f"call:{name}"] for name in names)


def _product(facts: code.Facts, parts: Sequence[Section]) -> dict[str, float]:
    found: dict[str, float] = {}
    both = facts.new + facts.old
    for family in FAMILIES:
        found[f"fix:says-{family}"] = _share(both[f"says:{family}"], 3)
    found["fix:near-matter"] = _share(
        sum(
            facts.near[f"says:{family}"]
            for family in ("lock", "wake", "cancel", "task", "loop", "thread")
        ),
        10,
    )
    found["fix:locks"] = _share(both["with:lock"] + _calls(both, _SYNC_CALLS), 2)
    found["fix:cancels"] = _share(
        both["except:cancel"] * 2 + both["with:cancel"] + _calls(both, _CANCEL_CALLS), 2
    )
    found["fix:starts"] = _share(_calls(both, _CONCURRENT_CALLS) + both["with:tasks"], 2)
    found["fix:closes"] = _share(_calls(both, _CLOSE_CALLS), 2)
    found["fix:awaits"] = _share(both["await"] + both["async with"], 2)
    found["fix:in-async"] = _share(facts.async_functions + facts.near["await"], 2)
    found["fix:guards"] = _share(facts.new["if:state"], 1)
    found["fix:guards-identity"] = _share(facts.new["if:identity"], 1)
    found["fix:cleans-up"] = _share(facts.new["finally"] + facts.new["try"], 1)
    found["fix:catches"] = _share(
        facts.new["except:RuntimeError"]
        + facts.new["except:InvalidStateError"]
        + facts.new["except:KeyError"],
        1,
    )
    found["fix:finally"] = _share(facts.new["finally"], 1)
    found["fix:catches-cancel"] = _share(both["except:cancel"], 1)
    found["fix:asks-ended"] = _share(facts.new["if:ended"], 1)
    found["fix:copies"] = _share(facts.new["for:copy"], 1)
    found["fix:in-place"] = (
        _share(facts.kept_lines, max(1, facts.lines_new)) if facts.kept_lines else 0.0
    )
    found["fix:loops"] = _share(both["while"], 1)
    found["fix:takes-away"] = _share(facts.lines_old, max(1.0, facts.lines_new * 1.0))
    found["not:new-api"] = _share(facts.new_public, 2)
    found["not:new-parameters"] = _share(facts.new_parameters, 1)
    found |= _remarks("fix", facts.remarks)
    found["not:large"] = _share(math.log2(1 + facts.lines_new + facts.lines_old) / 10, 1)
    found["not:many-files"] = _share(max(0, len(parts) - 2), 5)
    return found


def _tests(facts: code.Facts, product: code.Facts) -> dict[str, float]:
    found: dict[str, float] = {}
    new_tests = [name for name in facts.new_functions if name.lower().startswith(("test", "async_test"))]
    said = Counter(
        name
        for test in new_tests
        for name, pattern in PROSE.items()
        if pattern.search(test.replace("_", " "))
    )
    for name, count in said.items():
        found[f"test:named-{name}"] = _share(count, 1)
    for family in FAMILIES:
        found[f"test:says-{family}"] = _share(facts.new[f"says:{family}"], 4)
    acts = ("starts", "limits", "syncs", "cancels", "sleeps", "expects")
    found["test:nested"] = _share(
        max(0, facts.new["def"] + facts.new["async def"] - len(facts.new_functions)), 2
    )
    found["test:nonlocal"] = _share(facts.new["nonlocal"], 1)
    found["test:new"] = _share(len(new_tests), 1)
    found["test:starts"] = _share(_calls(facts.new, _CONCURRENT_CALLS) + facts.new["with:tasks"], 2)
    at_once = _calls(facts.new, _AT_ONCE) + facts.new["with:tasks"]
    found["test:at-once"] = _share(at_once, 1)
    found["test:limits"] = _share(_calls(facts.new, _LIMIT_CALLS) + facts.new["with:cancel"], 2)
    found["test:syncs"] = _share(_calls(facts.new, _SYNC_CALLS) + facts.new["with:lock"], 2)
    found["test:cancels"] = _share(_calls(facts.new, _CANCEL_CALLS) + facts.new["except:cancel"], 2)
    found["test:closes"] = _share(_calls(facts.new, _CLOSE_CALLS), 2)
    found["test:sleeps"] = _share(_calls(facts.new, _SLEEP_CALLS), 2)
    found["test:expects"] = _share(facts.new["with:raises-async"], 1)
    found["test:awaits"] = _share(facts.new["await"] + facts.new["async with"], 4)
    found |= _remarks("test", facts.remarks)
    found["not:test-nothing-fresh"] = float(facts.fresh < 3)
    found["test:fresh"] = _share(facts.fresh, 12)
    found["not:test-no-new"] = float(not new_tests)
    several = sum(found[f"test:{name}"] > 0 for name in acts)
    found["test:acts-2"], found["test:acts-3"] = float(several >= 2), float(several >= 3)
    found[MARKS_ONLY] = float(facts.inert)
    unchecked = not (new_tests or facts.new["check"] or several)
    found["not:test-checks-nothing"] = float(unchecked)
    found["not:test-skips"] = float(not new_tests and facts.new["skip"] > 0)
    found["not:test-checks-nothing-fresh"] = float(unchecked and facts.fresh < 5)
    found["not:test-rewrites"] = _share(facts.lines_old, 40)
    found["not:test-larger"] = _share(facts.lines_new / (1 + product.lines_new + product.lines_old), 40)
    return found


def _together(found: dict[str, float]) -> dict[str, float]:
    """Signals that count only side by side."""
    prose = found["title:matter"]
    acts = max(found[f"test:{n}"] for n in ("starts", "limits", "syncs", "cancels"))
    does = max(found[f"fix:{n}"] for n in ("locks", "cancels", "starts", "closes", "guards", "awaits"))
    shown = any(
        found.get(f"{side}:says-{family}")
        for side in ("fix", "test")
        for family in ("lock", "wake", "cancel", "task", "loop", "thread")
    ) or any(found[name] for name in ("fix:in-async", "fix:near-matter", "test:awaits"))
    return {
        "not:title-alone": float(prose > 0 and not shown),
        "both:acts": min(acts, does),
        "both:titled-and-acts": min(prose, max(acts, does)),
        "both:fix-and-defect": min(found["title:fix"], found["title:names-defect"]),
        "both:fix-and-matter": min(found["title:fix"], max(prose, min(acts, does))),
        "both:feature-and-new-api": min(
            found["not:title-feature"], max(found["not:new-api"], found["not:new-parameters"])
        ),
    }
