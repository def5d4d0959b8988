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
from race.core.mining.vocabulary import (
    FEATURE,
    FEATURE_ANYWHERE,
    FIX,
    PROSE,
    STRONG_FIX,
    TEST_WORK,
    WORD_FAMILIES,
)
from race.core.paths import TEST_SIDE, Layout

FAMILIES = tuple(sorted(set(WORD_FAMILIES.values()) | {"event", "file"}))
_TAG = re.compile(r"<!--.*?-->|^\s*[-*] \[[ xX]\].*$|https?://\S+", re.DOTALL | re.MULTILINE)
_TRAILER = re.compile(r"^(co-authored-by|signed-off-by|reviewed-by|\(cherry picked).*$", re.I | re.M)
_CONCURRENT_CALLS = frozenset(
    "gather create_task ensure_future start_soon create_task_group TaskGroup open_nursery Thread "
    "ThreadPoolExecutor submit run_in_executor run_sync to_thread Barrier Process Popen spawn "
    "run_coroutine_threadsafe call_soon_threadsafe call_soon call_later as_completed start".split()
)
_LIMIT_CALLS = frozenset("wait_for fail_after move_on_after timeout join wait".split())
_SYNC_CALLS = frozenset(
    "Event Lock RLock Condition Semaphore Barrier Future Queue set acquire release notify "
    "notify_all set_result set_exception CapacityLimiter put_nowait get_nowait".split()
)
_CANCEL_CALLS = frozenset(
    "cancel uncancel cancelling cancelled shield CancelScope cancel_scope athrow".split()
)
_CLOSE_CALLS = frozenset(
    "close aclose stop shutdown disconnect terminate kill wait_closed __aexit__ __exit__ __del__ collect".split()
)
_SLEEP_CALLS = frozenset("sleep sleep_forever checkpoint wait_all_tasks_blocked yield_".split())


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


def signals(words: Words, diff: bytes, layout: Layout) -> dict[str, float]:
    """All signals that are not zero, by name. `diff` has whole functions as context."""
    parts = list(sections(diff))
    product = code.read(s for s in parts if layout.kind(s.path) == "product" and not s.binary)
    tests = code.read(s for s in parts if layout.kind(s.path) in TEST_SIDE and not s.binary)
    if not words.changelog:
        words = Words(words.title, words.body, words.issues, changelog_lines(parts, layout))
    found = _words(words)
    found |= _product(product, [s for s in parts if layout.kind(s.path) == "product"])
    found |= _tests(tests, product)
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
    log = words.changelog.lower()
    if log:
        found["text:changelog-fix"] = float(
            bool(re.search(r"bugfix|\bfix|prevent|avoid|race|deadlock", log))
        )
        found["not:changelog-feature"] = float(
            bool(re.search(r"\.feature|\badded\b|\bnew\b|\.misc|\.removal|deprecat|\bsupport\b", log))
        )
    return found


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
    found["fix:loops"] = _share(both["while"], 1)
    found["fix:takes-away"] = _share(facts.lines_old, max(1.0, facts.lines_new * 1.0))
    found["not:new-api"] = _share(facts.new_public, 2)
    found["not:new-parameters"] = _share(facts.new_parameters, 1)
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
    found["test:new"] = _share(len(new_tests), 1)
    found["test:starts"] = _share(_calls(facts.new, _CONCURRENT_CALLS) + facts.new["with:tasks"], 2)
    found["test:limits"] = _share(_calls(facts.new, _LIMIT_CALLS) + facts.new["with:cancel"], 2)
    found["test:syncs"] = _share(_calls(facts.new, _SYNC_CALLS) + facts.new["with:lock"], 2)
    found["test:cancels"] = _share(_calls(facts.new, _CANCEL_CALLS) + facts.new["except:cancel"], 2)
    found["test:closes"] = _share(_calls(facts.new, _CLOSE_CALLS), 2)
    found["test:sleeps"] = _share(_calls(facts.new, _SLEEP_CALLS), 2)
    found["test:expects"] = _share(facts.new["with:raises-async"], 1)
    found["test:awaits"] = _share(facts.new["await"] + facts.new["async with"], 4)
    found["not:test-marks-only"] = float(facts.marks_only)
    found["not:test-few-lines"] = float(facts.code_new < 4)
    found["not:test-no-new"] = float(not new_tests)
    found["not:test-rewrites"] = _share(facts.lines_old, 40)
    found["not:test-larger"] = _share(facts.lines_new / (1 + product.lines_new + product.lines_old), 40)
    return found


def _together(found: dict[str, float]) -> dict[str, float]:
    """Signals that count only side by side."""
    prose = max(
        (
            found.get(f"title:{n}", 0.0)
            for n in ("race", "deadlock", "hang", "cancel", "leak", "thread", "loop", "lock", "context")
        ),
        default=0.0,
    )
    acts = max(found[f"test:{n}"] for n in ("starts", "limits", "syncs", "cancels"))
    does = max(found[f"fix:{n}"] for n in ("locks", "cancels", "starts", "closes", "guards", "awaits"))
    return {
        "both:acts": min(acts, does),
        "both:titled-and-acts": min(prose, max(acts, does)),
        "both:fix-and-matter": min(found["title:fix"], max(prose, min(acts, does))),
        "both:feature-and-new-api": min(
            found["not:title-feature"], max(found["not:new-api"], found["not:new-parameters"])
        ),
    }
