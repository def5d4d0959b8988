"""What the diff says: functions, facts, signals, score, kind."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from race.core.mining import code
from race.core.mining.decision import answers, contributions, score
from race.core.mining.diffs import sections
from race.core.mining.functions import cut
from race.core.mining.kinds import KINDS, kind
from race.core.mining.prose import PROSE
from race.core.mining.signals import (
    MARKS_ONLY,
    REMARKS_ALONE,
    SKIPS_ALONE,
    Words,
    issue_signals,
    signals,
)
from race.core.mining.vocabulary import families
from race.core.mining.weights import WEIGHTS
from race.core.paths import Layout


def diff(path: str, old: str, new: str) -> bytes:
    """A diff of one file that replaces everything between equal first and last lines."""
    before, after = textwrap.dedent(old).splitlines(), textwrap.dedent(new).splitlines()
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    lines = [f" {line}" for line in before[:head]]
    lines += [f"-{line}" for line in before[head : len(before) - tail]]
    lines += [f"+{line}" for line in after[head : len(after) - tail]]
    lines += [f" {line}" for line in before[len(before) - tail :]]
    text = (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n"
        + "\n".join(lines)
        + "\n"
    )
    return text.encode()


FIX = diff(
    "pkg/pool.py",
    """
    async def take(self):
        if self._free:
            return self._free.pop()
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        return await waiter
    """,
    """
    async def take(self):
        if self._free:
            return self._free.pop()
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give(waiter.result())
            raise
    """,
)
TEST = diff(
    "tests/test_pool.py",
    "import asyncio\n",
    """import asyncio


async def test_cancelled_taker_does_not_leak():
    task = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.free == 1
""",
)
FEATURE = diff(
    "pkg/pool.py",
    "class Pool:\n    pass\n",
    "class Pool:\n    pass\n\n    def size(self):\n        return len(self._free)\n\n"
    "    def resize(self, size):\n        self._size = size\n",
)
FEATURE_TEST = diff(
    "tests/test_pool.py",
    "import pool\n",
    "import pool\n\n\ndef test_size():\n    assert Pool().size() == 0\n",
)


def scored(title: str, *parts: bytes, paths: tuple[str, ...] = ()) -> float:
    return score(contributions(signals(Words(title), b"".join(parts), Layout(), paths)))


def test_a_fix_with_tests_that_exercise_it_scores_high() -> None:
    """Also when its title says little."""
    assert scored("Fix leak when a taker is cancelled", FIX, TEST) > 0.9
    assert scored("Give cancelled waiters' connections back", FIX, TEST) > 0.5


def test_titles_that_lie_do_not_decide() -> None:
    """A feature, upkeep, and words with nothing behind them stay below the threshold."""
    assert scored("Add Pool.size and Pool.resize", FEATURE, FEATURE_TEST) < 0.1
    plain = diff("pkg/table.py", "def table():\n    return 1\n", "def table():\n    return 2\n")
    test = diff("tests/test_table.py", "\n", "\ndef test_table():\n    assert table() == 2\n")
    assert scored("Fix race and deadlock columns", plain, test) < 0.5
    assert scored("Refactor pool for speed", FIX, TEST) < scored("Fix pool", FIX, TEST)


def test_tests_that_only_skip_do_not_count() -> None:
    """A regression test must check something."""
    skip = diff(
        "tests/test_pool.py",
        "def test_pool():\n    assert pool\n",
        "@pytest.mark.skipif(WINDOWS, reason='races')\ndef test_pool():\n    assert pool\n",
    )
    found = signals(Words("Fix race when a taker is cancelled"), FIX + skip, Layout())
    assert found["not:test-checks-nothing"] == 1
    assert found[MARKS_ONLY] == 1
    assert MARKS_ONLY not in signals(Words("Fix race"), FIX + TEST, Layout())
    more = skip.replace(
        b"@pytest.mark.skipif(WINDOWS, reason='races')", b"@pytest.mark.parametrize('x', [1])"
    )
    assert MARKS_ONLY not in signals(Words("Fix race"), FIX + more, Layout())


def test_changes_that_cannot_be_a_fix_or_a_test_decide_alone() -> None:
    """Comments in product code, skips in tests; code that differs by a space of indentation is code."""
    pragma = diff(
        "pkg/pool.py",
        "def f():\n    try:\n        go()\n    except Closed:\n        pass\n",
        "def f():\n    try:\n        go()\n    except Closed:  # pragma: no cover\n        pass\n",
    )
    assert signals(Words("Fix race"), pragma + TEST, Layout())[REMARKS_ALONE] == 1
    moved = diff("pkg/pool.py", "if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n")
    text = diff("pkg/pool.py", "x = 'a#b'\n", "x = 'a#c'\n")
    for other in (FIX, moved, text):
        assert REMARKS_ALONE not in signals(Words("Fix race"), other + TEST, Layout())
    skip = diff(
        "tests/test_pool.py",
        "def test_pool():\n    pool.take()\n",
        "def test_pool():\n    if WINDOWS:\n        pytest.skip('races')\n    pool.take()\n",
    )
    assert signals(Words("Fix race"), FIX + skip, Layout())[SKIPS_ALONE] == 1
    both = skip.replace(b"+        pytest.skip", b"+        assert pool\n+        pytest.skip")
    assert SKIPS_ALONE not in signals(Words("Fix race"), FIX + both, Layout())


def test_tests_inside_quoted_text_are_tests() -> None:
    """Plugins of test runners write their tests as text."""
    quoted = diff(
        "tests/test_plugin.py",
        "def test_run(pytester):\n    pass\n",
        "def test_run(pytester):\n    pytester.makepyfile(\n"
        '        """\n        def test_closed_loop():\n            assert loop.is_closed()\n'
        '        """\n    )\n    pass\n',
    )
    assert signals(Words("Fix loop"), FIX + quoted, Layout())["test:new"] == 1


def test_changelog_entries_speak() -> None:
    """A news fragment's name and words give signals; an entry about a feature gives none of a fix."""
    entry = diff("newsfragments/12.bugfix.rst", "\n", "\nA cancelled waiter deadlocked the pool.\n")
    with_entry = signals(Words("Give back"), FIX + TEST + entry, Layout())
    without = signals(Words("Give back"), FIX + TEST, Layout())
    assert with_entry["text:changelog-fix"] == with_entry["text:changelog-matter"] == 1
    assert with_entry["text:names-defect"] == 1
    assert not {"text:changelog-fix", "text:names-defect"} & set(without)
    assert score(contributions(with_entry)) > score(contributions(without))
    feature = diff("CHANGES.rst", "\n", "\n- Added a size to the table.\n")
    found = signals(Words("Give back"), FIX + TEST + feature, Layout())
    assert not found.get("text:changelog-fix")
    assert not found.get("text:changelog-matter")


def test_issues_only_ever_speak_for() -> None:
    """Whatever an issue says, it lowers no score."""
    found = signals(Words("Give connections back"), FIX + TEST, Layout())
    told = issue_signals("Pool hangs\n\nTwo tasks race for a connection; one hangs forever.")
    assert set(told) == {"issue:names-defect", "issue:matter", "issue:defect"}
    assert issue_signals("A nicer table\n\nWith borders.") == {}
    assert score(contributions(found | told)) > score(contributions(found))


def test_facts_come_from_changed_lines_only() -> None:
    """What stands around a change is counted apart."""
    facts = code.read(sections(FIX))
    assert facts.new["except:cancel"] == 1
    assert facts.new["if:ended"] == 1
    assert facts.new["call:create_future"] == 0
    assert facts.near["says:wake"] >= 2
    assert facts.async_functions == 1
    assert facts.new_functions == []


def test_a_piece_that_does_not_parse_is_read_by_its_words() -> None:
    """Another Python's syntax spoils nothing."""
    odd = diff(
        "pkg/a.py",
        "def f():\n    pass\n",
        "def f():\n    print 'lock', self._lock.acquire()\n    pass\n",
    )
    assert code.read(sections(odd)).new["says:lock"] >= 2


def test_functions_are_cut_at_their_ends() -> None:
    """Decorators belong to it, brackets and comments at its margin do not end it, nesting is inside."""
    side = next(sections(diff("a.py", "\n", """
        X = 1


        @decorate(
            1)
        def f(
            a,
        ):
        # remark
            def inner():
                pass
            return inner


        Y = 2
    """))).hunks[0].new  # fmt: skip
    functions, loose = cut(side)
    assert [f.name for f in functions] == ["f"]
    assert functions[0].tree is not None
    assert {line.strip() for line in loose} >= {"X = 1", "Y = 2"}


@pytest.mark.parametrize(
    ("identifier", "found"),
    [
        ("_wakeup_next_waiter", {"wake"}),
        ("RLock", {"lock"}),
        ("call_soon_threadsafe", {"loop"}),
        ("CancelledError", {"cancel"}),
        ("clock", set()),
        ("blocked_on", {"hang"}),
    ],
)
def test_identifiers_speak_by_their_words(identifier: str, found: set[str]) -> None:
    """A word inside another word says nothing."""
    assert families(identifier) >= found
    assert bool(families(identifier)) == bool(found)


SPOKEN = """race, races, racing, racy, race-condition, TOCTOU, stale, concurrently, simultaneous,
atomicity, at the same time, interleaved, out-of-order, in-flight, outdated, superseded, overtakes,
late answer, late replies, deadlock, dead-lock, live-lock, livelocked, self-deadlock, lock inversion,
re-entrancy, reentrant, hangs, hung, stuck, never returns, forever, indefinitely, freezes, froze,
blocks the event loop, unblock, spinning, 100% CPU, starved, cancellation, shielded, uncancel,
shutting down, closure, stopped, teardown, disconnects, graceful, finalizer, exited, leaky, orphaned,
dangling, unclosed, not being released, never closed, thread-safety, multi-threaded, free-threaded,
executors, event loop, loops, eventloop, call_soon, locked, mutex, semaphore, condition,
critical section, acquire, released, wake-up, waiters, notify, contextvars, context variable,
thread-local, sniffio, context propagation, propagate the context, asyncio contexts, across tasks,
tasks, coroutine, awaited, futures, asyncio, nursery, trio, anyio, background, time-out, timed out,
deadline"""
PHRASES = re.split(r",\s+", SPOKEN)


@given(
    st.lists(st.sampled_from(PHRASES), max_size=12), st.sampled_from([str.lower, str.upper, str.title])
)
def test_hints_lose_no_match(words: list[str], style: Callable[[str], str]) -> None:
    """The quick look before a pattern gives the same counts as the pattern alone."""
    text = style(" ".join(words))
    for topic in PROSE.values():
        assert topic.count(text) == len(topic.pattern.findall(text))


def test_every_weight_has_the_sign_of_its_name() -> None:
    """`not:` speaks against, everything else for; so that a record can be read without the table."""
    for weights in WEIGHTS.values():
        for name, weight in weights.items():
            against = name.startswith("not:")
            assert weight <= 0 if against else weight >= 0, name


def test_the_score_is_the_product_of_three_answers() -> None:
    """Each an honest probability."""
    added = contributions(signals(Words("Fix a leak"), FIX + TEST, Layout()))
    sure = answers(added)
    assert set(sure) == {"fix", "matter", "tests"}
    assert score(added) == pytest.approx(sure["fix"] * sure["matter"] * sure["tests"], abs=1e-4)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Fix deadlock in Pool.take", "deadlock"),
        ("Fix race condition between take and give", "race"),
        ("Handle cancellation of take", "cancellation"),
        ("Fix connection leak", "leak"),
        ("Fix hang of take", "hang"),
        ("Preserve contextvars in workers", "context"),
        ("Cancel background tasks on close", "shutdown"),
        ("Do not block the event loop while waiting for the pool", "deadlock"),
        ("Release the semaphore if a connection is dropped", "leak"),
        ("Fix infinite loop when an actor times out", "hang"),
        ("Handle KeyboardInterrupt in run()", "cancellation"),
    ],
)
def test_the_kind_follows_the_title(title: str, expected: str) -> None:
    """When the title names one."""
    assert kind(signals(Words(title), b"", Layout()), title) == expected
    assert expected in KINDS


@given(st.binary(max_size=600), st.text(max_size=80))
def test_any_bytes_can_be_read(noise: bytes, title: str) -> None:
    """Whatever a diff or a title holds, there is a score between 0 and 1."""
    data = FIX[:200] + noise + b"\ndiff --git a/x.py b/x.py\n@@ -1 +1 @@\n+" + noise
    value = score(contributions(signals(Words(title), data, Layout())))
    assert 0 <= value <= 1
    assert b"".join(part.data for part in sections(data)) == data


def test_a_line_made_to_be_slow_is_read_at_once() -> None:
    """Titles, bodies and lines of a hostile project cost no more than others."""
    blank = " " * 200_000
    hostile = diff("pkg/a.py", "x = 1\n", f"x = 1\ny = '{blank}#'\n{blank}\"#\"\n")
    title = "on " * 50_000 + "a: " * 50_000
    began = time.process_time()
    found = signals(Words(title, "in " * 50_000 + blank), hostile + TEST, Layout())
    kind(found, title, blank)
    assert time.process_time() - began < 2
