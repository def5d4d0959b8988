"""The pytest plugin that tells the launcher what happens, one JSON line per event, at once.

Works with pytest 7, 8 and 9. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import re
import signal
import sys
import time

import integrity
import pytest
from _pytest import runner

DUMP_SIGNAL = signal.SIGRTMAX - 3
ORPHANED_SETTINGS = ("cache_dir", "reruns", "reruns_delay")
ORPHANED_MARKERS = ("flaky", "repeat", "random_order")
TEXT_LIMIT, MESSAGE_LIMIT, STACK_LIMIT = 6000, 2000, 60000


class Channel:
    """Lines to the launcher. Each begins with the run's nonce; a line is one write where it fits."""

    def __init__(self, handle: int, nonce: str) -> None:
        self._handle, self._head, self._owner = handle, nonce.encode() + b" ", os.getpid()

    def end(self, status: int) -> None:
        """Send the last event and end the process, unless this is a forked copy of the run."""
        self.send(event="end", exit=int(status))
        os._exit(int(status) & 0xFF)

    def send(self, **event: object) -> None:
        """Send one event, unless this is a forked copy of the run."""
        if os.getpid() != self._owner:
            return
        data = self._head + json.dumps(event, default=repr).encode() + b"\n"
        while data:
            data = data[os.write(self._handle, data) :]


class Reporter:
    """Reports collection, each test's phases and outcome, and stacks when the launcher asks."""

    def __init__(self, order: dict, channel: Channel, stacks: object, snapshot: object) -> None:
        self._stacks, self._snapshot, self._looks = stacks, snapshot, 0
        self._altered: list = []
        self._root, self._tell_imports = order["root"], order["tell_imports"]
        self._wanted = None if order["ids"] is None else set(order["ids"])
        self._sequence = order["ids"] if order["ordered"] else None
        self._skipped = tuple(os.path.join(order["root"], name) for name in order["skipped"])
        self._deselected = set(order["deselected"])
        self._send, self._end = channel.send, channel.end
        self._reports: dict = {}
        self._errors: dict = {}
        self._raised: set = set()
        self._begun = 0.0
        self._listen()

    def _listen(self) -> None:
        """On the dump signal: threads' stacks first (also from native code), then async tasks."""
        signal.signal(DUMP_SIGNAL, lambda *_: self._tell_tasks())
        faulthandler.register(DUMP_SIGNAL, file=self._stacks, all_threads=True, chain=True)

    def _tell_tasks(self) -> None:
        with contextlib.suppress(Exception):
            self._stacks.write(task_stacks())
            self._stacks.flush()
        self._send(event="dumped")

    def pytest_configure(self, config: object) -> None:
        """Announce the versions, and keep the running test's name out of the environment."""
        runner._update_current_test_var = lambda *_: None
        self._manager = config.pluginmanager
        for name in ORPHANED_MARKERS:
            config.addinivalue_line("markers", name + ": of a plugin that is left out")
        self._send(
            event="session",
            pytest=pytest.__version__,
            python="%d.%d.%d" % sys.version_info[:3],
        )

    def pytest_addoption(self, parser: object) -> None:
        """Settings of plugins that are left out are no unknown ones, which some projects make errors."""
        for name in ORPHANED_SETTINGS:
            parser.addini(name, "of a plugin that is left out")

    def pytest_internalerror(self, excrepr: object, excinfo: object) -> None:
        """pytest itself breaks off: by a plugin, or by a warning that the project makes an error."""
        text = str(excrepr)
        self._send(event="internal-error", message=text.strip().splitlines()[-1][:MESSAGE_LIMIT])

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: object, config: object):
        """Files that took the process down before are not touched again."""
        return True if str(collection_path) in self._skipped else None

    def pytest_collectstart(self, collector: object) -> None:
        """Say which file is being imported, before it is."""
        if isinstance(collector, pytest.File):
            self._send(event="collecting", path=collector.nodeid)

    def pytest_collectreport(self, report: object) -> None:
        """A file that cannot be collected, and why."""
        if report.failed:
            text = str(report.longrepr)
            self._send(
                event="collect-error",
                path=report.nodeid,
                message=_last_error_line(text)[:MESSAGE_LIMIT],
                excerpt=text[-TEXT_LIMIT:],
            )
        elif report.skipped:
            self._send(event="collect-skip", path=report.nodeid, message=_skip_reason(report))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: object, items: list) -> None:
        """Report every id that exists, then keep those that are asked for."""
        ids = [item.nodeid for item in items]
        for start in range(0, len(ids), 200):
            self._send(event="collected", ids=ids[start : start + 200])
        kept = [item for item in items if self._is_wanted(item.nodeid)]
        if self._sequence is not None:
            place = {name: index for index, name in enumerate(self._sequence)}
            kept.sort(key=lambda item: place.get(item.nodeid, len(place)))
        items[:] = kept
        self._send(event="selected", count=len(kept))

    def _is_wanted(self, nodeid: str) -> bool:
        if nodeid in self._deselected:
            return False
        return self._wanted is None or nodeid in self._wanted

    def _look(self, always: bool = False) -> None:
        """Tell what of the runner and the interpreter is not as it was."""
        self._looks += 1
        altered = self._snapshot.differences()
        if always or altered != self._altered:
            self._altered = altered
            hooks = integrity.steering_hooks(self._manager) if always else []
            self._send(event="integrity", what=altered[:100], hooks=hooks, size=self._snapshot.size)

    def pytest_collection_finish(self, session: object) -> None:
        """All of the project that tests import is imported now."""
        self._snapshot.watch_tests(self._root)
        self._look(always=True)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: object):
        """The tests are through: look, let fixtures of the session end, and end the process.

        Nothing that comes later has a say in an outcome: no summary, no collecting of garbage.
        """
        self._look(always=True)
        if self._tell_imports:
            own = imported_files(self._root)
            self._send(event="imports", names=imported_packages(self._root), own=own)
        session.config.hook.pytest_terminal_summary = lambda **_: []
        yield
        if session.exitstatus in (0, 1, 5):
            self._end(session.exitstatus)

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        """A test begins."""
        self._reports[nodeid] = []
        self._begun = time.perf_counter()
        self._send(event="start", id=nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: object) -> None:
        """The test's own body begins."""
        self._send(event="phase", id=item.nodeid, phase="call")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: object) -> None:
        """Fixtures are being put away."""
        self._send(event="phase", id=item.nodeid, phase="teardown")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: object, call: object):
        """Keep the error itself: its type and message are gone from the report."""
        raised = call.excinfo
        if raised is not None:
            self._raised.add((item.nodeid, call.when))
        yield
        if raised is not None:
            self._errors[item.nodeid, call.when] = _describe(raised.value)

    def pytest_runtest_logreport(self, report: object) -> None:
        """Remember each phase's report until the test is through."""
        self._reports.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        """The test is through: one outcome."""
        reports = self._reports.pop(nodeid, [])
        outcome, decisive = judge(reports)
        raised = [when for name, when in self._raised if name == nodeid]
        if raised and outcome == "passed":
            outcome = "error"
        self._raised.clear()
        event = {"event": "outcome", "id": nodeid, "outcome": outcome}
        event["seconds"] = round(time.perf_counter() - self._begun, 4)
        event["phase"] = getattr(decisive, "when", None) or "call"
        if decisive is not None and outcome in ("failed", "error"):
            error, message = self._errors.get((nodeid, event["phase"]), ("", ""))
            text = str(decisive.longrepr or "")
            event["error"] = error
            event["message"] = _shortened(message or _last_error_line(text))
            event["excerpt"] = text[-TEXT_LIMIT:]
        elif decisive is not None and outcome == "skipped":
            event["message"] = _skip_reason(decisive)[:MESSAGE_LIMIT]
        if self._looks <= 3:
            self._look()
        for when in ("setup", "call", "teardown"):
            self._errors.pop((nodeid, when), None)
        self._send(**event)


def imported_packages(root: str) -> list[str]:
    """Modules of the environment's own packages that are imported now, in order.

    Without packages that import a module of the project, or might: they look for it when imported.
    """
    found, own, mentions = [], set(), set()
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if path.startswith(root + os.sep):
            own.add(re.escape(name.partition(".")[0].encode()))
        elif "site-packages" in path:
            found.append((name, path))
    names = b"|".join(sorted(own - {b"tests", b"test", b"conftest"}) or [b"-"])
    mention = re.compile(
        rb"^\s*(?:from|import)\s+(?:%s)\b|import_module\(.(?:%s)\b" % (names, names), re.M
    )
    for name, path in found:
        try:
            with open(path, "rb") as stream:
                if path.endswith(".py") and mention.search(stream.read()):
                    mentions.add(name.partition(".")[0])
        except OSError:
            mentions.add(name.partition(".")[0])
    return [name for name, _ in found if name.partition(".")[0] not in mentions]


def imported_files(root: str) -> dict[str, bool]:
    """Files of the project that are imported now, below `root`, with whether pytest rewrites them."""
    found = {}
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        path = getattr(spec, "origin", None)
        if isinstance(path, str) and path.startswith(root + os.sep) and path.endswith(".py"):
            kind = type(spec.loader).__name__
            if kind in ("AssertionRewritingHook", "SourceFileLoader"):
                found[os.path.relpath(path, root)] = kind == "AssertionRewritingHook"
    return found


def judge(reports: list) -> tuple[str, object]:
    """A test's outcome from its phases, and the report that decides. Only a clean pass is `passed`.

    passed | failed (the body) | error (a fixture) | skipped | xfailed | xpassed
    """
    for report in reports:
        if report.outcome == "failed":
            return ("failed" if report.when == "call" else "error"), report
    calls = [report for report in reports if report.when == "call"]
    for report in reports:
        if report.outcome == "skipped":
            return ("xfailed" if hasattr(report, "wasxfail") else "skipped"), report
    if not calls or not all(report.outcome == "passed" for report in reports):
        return "error", reports[-1] if reports else None
    if any(hasattr(report, "wasxfail") for report in calls):
        return "xpassed", calls[-1]
    if {report.when for report in reports} != {"setup", "call", "teardown"}:
        return "error", reports[-1]
    return "passed", calls[-1]


def _describe(error: BaseException) -> tuple[str, str]:
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__qualname__
    )
    try:
        message = str(error)
    except Exception as second:  # noqa: BLE001 - foreign code
        message = "<no message: %s>" % type(second).__name__
    inner = getattr(error, "exceptions", None)
    if isinstance(inner, (list, tuple)) and inner:
        leaves = ["%s: %s" % _describe(leaf) for leaf in inner[:5] if isinstance(leaf, BaseException)]
        message += " [" + "; ".join(leaves) + "]"
    return name, message


def _shortened(message: str) -> str:
    """A message within its limit: of a long one the beginning and the end, where an error stands."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = MESSAGE_LIMIT // 2
    return message[:half] + "\n...\n" + message[-half:]


def _skip_reason(report: object) -> str:
    text = report.longrepr
    if isinstance(text, tuple) and len(text) == 3:
        return str(text[2])
    return str(getattr(report, "wasxfail", "") or text)


def _last_error_line(text: str) -> str:
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return lines[-1] if lines else (text.strip().splitlines() or [""])[-1]


def task_stacks() -> str:
    """The stacks of all asyncio and trio tasks that exist, as text."""
    lines: list[str] = []
    for thing in gc.get_objects():
        kind = type(thing)
        if not (
            kind.__name__ == "Task" and kind.__module__.split(".")[0] in ("_asyncio", "asyncio", "trio")
        ):
            continue
        coroutine = getattr(thing, "coro", None)
        if coroutine is None:
            if thing.done():
                continue
            coroutine = thing.get_coro()
        lines.append(
            "Task %s (%s):" % (getattr(thing, "name", None) or thing.get_name(), kind.__module__)
        )
        lines.extend(coroutine_frames(coroutine))
    return "\n" + "\n".join(lines)[:STACK_LIMIT] + "\n"


def coroutine_frames(coroutine: object) -> list[str]:
    """Where a suspended coroutine waits: outermost first."""
    lines = []
    for _ in range(50):
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is None:
            frame = getattr(coroutine, "gi_frame", None)
        if frame is None:
            if coroutine is not None:
                lines.append("  waiting for %s" % type(coroutine).__name__)
            break
        code = frame.f_code
        lines.append('  File "%s", line %s in %s' % (code.co_filename, frame.f_lineno, code.co_name))
        for name in ("cr_await", "ag_await", "gi_yieldfrom"):
            following = getattr(coroutine, name, None)
            if following is not None:
                break
        coroutine = following
        if coroutine is None:
            break
    return lines
