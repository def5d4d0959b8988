"""What the grader compares a run with: the runner, the tests' own names, and files that it knows."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import os
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import PytestPluginManager

FOLDER = Path(__file__).parent.parent.parent / "images" / "grader"


@pytest.fixture(scope="module")
def grader() -> Any:
    """The grader's modules, imported as the grader does it."""
    sys.path.insert(0, str(FOLDER))
    try:
        names = ("integrity", "tree", "seen", "cage", "attempt", "report")
        return types.SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))


def test_nothing_differs_from_itself(grader: Any) -> None:
    """A process that changed nothing has no differences, and far more than a thousand names watched."""
    snapshot = grader.integrity.Snapshot()
    assert snapshot.differences() == grader.integrity.interpreter_state()
    assert snapshot.size[0] > 1000


def test_replaced_names_and_code_are_told(grader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another object under a name, other code in the same function, another module: each by its name."""
    snapshot = grader.integrity.Snapshot()
    before = set(snapshot.differences())
    monkeypatch.setattr(json, "dumps", lambda *_: "")
    monkeypatch.setattr(json.JSONDecoder.decode, "__code__", json.JSONDecoder.raw_decode.__code__)
    monkeypatch.setitem(sys.modules, "queue", types.ModuleType("queue"))
    found = set(snapshot.differences()) - before
    assert {"json.dumps", "json.decoder.JSONDecoder.decode", "sys.modules[queue]"} <= found


def test_what_a_name_leads_to_is_watched_too(grader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that another one works with, a property, and what a closure holds: each by its name."""
    made = types.ModuleType("signal.made")

    def outer(inner: Any) -> Any:
        return lambda: inner()

    made.wrapped = outer(json.dumps)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "signal.made", made)
    snapshot = grader.integrity.Snapshot()
    before = set(snapshot.differences())
    monkeypatch.setattr(asyncio.base_events, "tasks", types.ModuleType("asyncio.tasks"))
    monkeypatch.setattr(threading.Thread, "name", property(lambda _: ""))
    made.wrapped.__closure__[0].cell_contents = json.loads
    found = set(snapshot.differences()) - before
    assert {"asyncio.base_events.tasks", "threading.Thread.name", "signal.made.wrapped"} <= found


def test_plugins_of_the_runner_are_watched(grader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that a plugin is in are watched like the runner; other packages are not."""
    for name in ("pytest_made", "pytest_made.inside", "made_plugin", "made"):
        module = types.ModuleType(name)
        module.call = lambda: None  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    snapshot = grader.integrity.Snapshot(["pytest_made.inside", "made_plugin"])
    before = set(snapshot.differences())
    for name in ("pytest_made", "pytest_made.inside", "made_plugin", "made"):
        sys.modules[name].call = lambda: 1  # type: ignore[attr-defined]
    found = set(snapshot.differences()) - before
    assert found == {"pytest_made.call", "pytest_made.inside.call", "made_plugin.call"}


def test_a_hook_that_is_no_longer_its_plugins_own_is_told(grader: Any) -> None:
    """Another function in the place of a plugin's hook shows among those that steer the run."""
    manager = PytestPluginManager()

    class Plugin:
        @pytest.hookimpl
        def pytest_runtest_call(self, item: Any) -> None: ...

    manager.register(Plugin(), "made")
    assert "pytest_runtest_call of made" in grader.integrity.steering_hooks(manager)
    manager.hook.pytest_runtest_call.get_hookimpls()[0].function = lambda item: None
    assert "pytest_runtest_call of made, replaced" in grader.integrity.steering_hooks(manager)


def test_names_of_tests_are_watched(grader: Any, tmp_path: Path) -> None:
    """What a test module's names stand for is watched from the moment that it is imported."""
    module = types.ModuleType("test_watched")
    module.__file__ = str(tmp_path / "tests" / "test_watched.py")
    module.json = json  # type: ignore[attr-defined]
    sys.modules["test_watched"] = module
    try:
        snapshot = grader.integrity.Snapshot()
        assert snapshot.size[1] == 0
        snapshot.watch_tests(str(tmp_path))
        assert snapshot.size[1] == 1
        before = set(snapshot.differences())
        module.json = types.ModuleType("json")  # type: ignore[attr-defined]
        assert set(snapshot.differences()) - before == {"test_watched.json"}
    finally:
        del sys.modules["test_watched"]


def test_a_known_file_is_read_again_when_it_was_touched(grader: Any, tmp_path: Path) -> None:
    """A fingerprint is kept while the inode is untouched, never across a write of the same length."""
    path = tmp_path / "file"
    path.write_bytes(b"one")
    time.sleep(0.08)
    first = grader.tree.fingerprint(str(path))
    assert str(path) in grader.tree._KNOWN
    assert grader.tree.fingerprint(str(path)) == first
    kept = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert grader.tree.fingerprint(str(path)) != first


@pytest.mark.parametrize(
    ("watched", "looks", "enough"),
    [
        ([9, 0], [[9, 4], [9, 4]], True),
        ([9, 0], [[9, 4]], False),
        ([9, 0], [], False),
        ([9, 0], [[8, 4], [8, 4]], False),
        ([9, 0], [[9, 4], [9, 0]], False),
    ],
)
def test_looks_that_were_left_out_are_missed(
    grader: Any, watched: list[int], looks: list[list[int]], enough: bool
) -> None:
    """A run has to look twice, at as much as it started with; less is a doubt."""
    attempt = types.SimpleNamespace(watched=watched, looks=looks)
    assert grader.seen._looked(attempt) is enough


def test_times_carry_no_message(grader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that came and went, or were read, leave no trace in the times of folders and files."""
    for name in ("READ_PLACES", "OPEN_PLACES"):
        monkeypatch.setattr(grader.cage, name, ())
    (tmp_path / "a" / "b").mkdir(parents=True)
    kept = tmp_path / "a" / "kept"
    kept.write_text("kept")
    written = kept.stat().st_mtime_ns

    def times() -> list[tuple[int, int]]:
        places = (tmp_path, tmp_path / "a", tmp_path / "a" / "b", kept)
        return [(found.st_atime_ns, found.st_mtime_ns) for found in map(Path.stat, places)]

    grader.cage.open_folders(str(tmp_path))
    before = times()
    (tmp_path / "a" / "b" / "mark").write_text("")
    (tmp_path / "a" / "b" / "mark").unlink()
    os.utime(kept, ns=(written + 10**9, written))
    assert times() != before
    grader.cage.open_folders(str(tmp_path))
    assert times() == before
    assert kept.stat().st_mtime_ns == written


def test_an_event_loop_policy_is_known_by_what_it_is(grader: Any) -> None:
    """A class that only bears a trusted name, or a trusted policy with a method of its own, is told."""
    trusted = asyncio.DefaultEventLoopPolicy()
    fake = type("_UnixDefaultEventLoopPolicy", (asyncio.DefaultEventLoopPolicy,), {})
    fake.__module__ = type(trusted).__module__
    changed = asyncio.DefaultEventLoopPolicy()
    changed.new_event_loop = lambda: None  # type: ignore[method-assign]
    kept = asyncio.events._event_loop_policy  # type: ignore[attr-defined]
    try:
        for policy, told in ((trusted, False), (fake(), True), (changed, True)):
            asyncio.set_event_loop_policy(policy)
            found = grader.integrity.interpreter_state()
            assert any("event loop policy" in name for name in found) is told
    finally:
        asyncio.set_event_loop_policy(kept)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", False),
        ("run_until_complete", True),
        ("create_task", True),
        ("default_exception_handler", False),
    ],
)
def test_a_policy_of_the_projects_own_is_judged_by_its_loops(grader: Any, name: str, told: bool) -> None:
    """Loops that run tests as asyncio's do are fine; those that do it otherwise are told."""
    body = {name: lambda *_: None} if name else {}
    loop_class = type("Loop", (asyncio.SelectorEventLoop,), body)

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return loop_class()  # type: ignore[no-any-return]

    kept = asyncio.events._event_loop_policy  # type: ignore[attr-defined]
    try:
        asyncio.set_event_loop_policy(Policy())
        found = grader.integrity.interpreter_state()
        assert any("event loop policy" in name for name in found) is told
    finally:
        asyncio.set_event_loop_policy(kept)


def test_a_patch_without_context_is_applied_where_it_says(
    grader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `diff -U0` writes is put at its line numbers, or not at all where its old lines are not."""
    old = b"".join(b"%d\n" % number for number in range(30))
    digest = hashlib.sha256(old).hexdigest()
    base = types.SimpleNamespace(files={"a": ("f", digest)}, bytes_of=lambda *_: {"a": old})
    head = b"diff --git a/a b/a\n--- a/a\n+++ b/a\n"
    monkeypatch.setattr(grader.tree, "_become", lambda uid: None)

    def made(hunks: bytes) -> Any:
        return grader.tree.apply_exactly(base, str(tmp_path), head + hunks, ["a"], os.getuid())

    assert made(b"@@ -3,0 +4 @@\n+new\n@@ -8 +9 @@\n-7\n+seven\n") == {
        "a": old.replace(b"2\n3\n", b"2\nnew\n3\n", 1).replace(b"\n7\n", b"\nseven\n", 1)
    }
    with pytest.raises(grader.tree.Mismatch, match="does not apply"):
        made(b"@@ -3 +3 @@\n-nothing of it\n+new\n")
    assert grader.tree._without_context(head + b"@@ -1,2 +1,3 @@\n 0\n+x\n 1\n") == []


@pytest.mark.parametrize(
    "line",
    [
        b"5",
        b'{"id": "t"}',
        b'{"event": "selected", "count": Infinity}',
        b'{"event": "selected", "count": 1e400}',
        b'{"event": "integrity", "what": [], "hooks": ["a"], "size": 5}',
        b'{"event": "integrity", "what": [1], "hooks": ["a"], "size": [5]}',
        b'{"event": "outcome", "id": "t", "outcome": "failed", "message": {}, "seconds": 0}',
        b'{"event": "outcome", "id": "t", "outcome": "passed", "seconds": true}',
        b'{"event": "selected", "count": ' + b"9" * 5000 + b"}",
        b'{"event": ' + b"[" * 100000,
    ],
)
def test_a_line_that_is_no_event_is_garbled(grader: Any, line: bytes) -> None:
    """Whatever the run writes, its reader counts it and goes on."""
    attempt = grader.attempt.Attempt.__new__(grader.attempt.Attempt)
    attempt.nonce, attempt.garbled, attempt._buffer = b"n ", 0, b""
    attempt.emit = lambda event: pytest.fail("it was taken for an event")
    attempt._feed(b"n " + line + b"\n")
    assert attempt.garbled == 1


def test_only_the_right_verdict_reports_what_passed(grader: Any) -> None:
    """What was seen before the grader failed, or before a check had no memory, earns no point from who
    reads the tests alone; what passed beside a test that failed is told."""
    task = {"fail_to_pass": ["a"], "pass_to_pass": ["b"], "root": "/repo"}
    both, one = {"a": "passed", "b": "passed"}, {"a": "failed", "b": "passed"}
    for verdict, accident, outcomes, passed in (
        ("resolved", "", both, 2),
        ("resolved", "ValueError()", both, 0),
        ("unresolved", "", both, 0),
        ("unresolved", "", one, 1),
        ("unresolved", "ValueError()", one, 0),
        ("tampered", "", both, 0),
        ("refused", "", {}, 0),
    ):
        graded = {"verdict": verdict, "outcomes": outcomes, "messages": {}, "reasons": ["because"],
                  "seconds": 1.0, "accident": accident}  # fmt: skip
        assert grader.report.report(task, graded)["summary"]["passed"] == passed
