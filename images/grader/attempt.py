"""One forked test process, read and watched from its start to its certain end. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from typing import Any, Callable

import cage
from workers import Worker

DUMP_SIGNAL = signal.SIGRTMAX - 3
DISK_ROOM = 300 * 2**20
START_SECONDS = 20.0
CLOSING_SECONDS = 0.2
LINE_LIMIT = 4 * 2**20
Emit = Callable[[dict], None]


class Attempt:
    """One forked process from its start to its certain end."""

    def __init__(self, worker: Worker, order: dict[str, Any], emit: Emit, deadline: float) -> None:
        self.nonce = order["nonce"].encode() + b" "
        self.order, self.emit, self.deadline = order, emit, deadline
        self.events, self.output, self.stacks = worker.fork(order)
        self._worker = worker
        self.pid = 0
        self.status: int | None = None
        self.left: int | None = None
        self.memory_kills: int | None = None
        self.place = ("start", "")
        self.phase, self.since = "setup", time.monotonic()
        self.done: list[str] = []
        self.until: set[str] = set()
        self.limits: dict[str, float] = {}
        self.collected: list[str] = []
        self.selected: int | None = None
        self.ended = False
        self.reported: int | None = None
        self.collect_errors = 0
        self.seconds = 0.0
        self.garbled = 0
        self.reason = ""
        self.watched: list[int] = []
        self.looks: list[list[int]] = []
        self.hurried: list[str] = []
        self._buffer = b""
        self._wakes: list[float] = []

    def watch(self, limits: dict[str, Any], keep: Callable[[bytes], None]) -> None:
        """Read until the process is gone or has to go; afterwards nothing of its user is left."""
        selector = selectors.DefaultSelector()
        for handle in (self.events, self.output):
            os.set_blocking(handle, False)
            selector.register(handle, selectors.EVENT_READ)
        uid, started, kills = self.order["uid"], time.monotonic(), cage.memory_kills()
        ask_memory = started + 0.5
        try:
            while True:
                for key, _ in selector.select(0.02 if self.pid else 0.005):
                    if not self._drain(key.fd, keep):
                        selector.unregister(key.fd)
                now = time.monotonic()
                self.status = cage.status_of(self.pid) if self.pid else None
                over = self.ended and now - self.since > 2
                if self.status is not None or not selector.get_map() or over:
                    self.reason = "gone"
                elif self.until and self.until <= set(self.done):
                    self.reason = "enough"
                elif now > self.deadline:
                    self.reason = "run-limit"
                elif not self.ended and now - self.since > self.patience(limits["test_seconds"]):
                    self.reason = "hang"
                elif limits["memory_bytes"] and now > ask_memory:
                    ask_memory = now + 0.5
                    if cage.memory_of(uid) > limits["memory_bytes"]:
                        self.reason = "memory-limit"
                    elif cage.disk_room() < DISK_ROOM:
                        self.reason = "disk-limit"
                if self.reason:
                    break
            if self.reason in ("hang", "run-limit") and self.pid:
                self._ask_stacks(selector, keep)
        finally:
            selector.close()
            self.left = self._own_status()
            self.seconds = time.monotonic() - started
            cage.end_all(uid)
            self._worker.prepare()
            self._finish(keep)
            kills_now = cage.memory_kills()
            if kills is not None and kills_now is not None:
                self.memory_kills = kills_now - kills

    def _own_status(self) -> int | None:
        """How the process ended by itself, if it did: its channels close a moment before it is gone."""
        end = time.monotonic() + CLOSING_SECONDS
        while self.reason == "gone" and self.pid and self.status is None and time.monotonic() < end:
            time.sleep(0.001)
            self.status = cage.status_of(self.pid)
        return self.status

    def patience(self, test_seconds: float) -> float:
        """How long nothing may happen: a test's limit, and more until the first file is looked at."""
        kind, name = self.place
        if kind == "test":
            return min(test_seconds, self.limits.get(name, test_seconds))
        return max(test_seconds, START_SECONDS) if kind == "start" else test_seconds

    def _finish(self, keep: Callable[[bytes], None]) -> None:
        for handle in (self.events, self.output):
            end = time.monotonic() + 1
            while self._drain(handle, keep) and time.monotonic() < end:
                time.sleep(0.002)
            os.close(handle)
        if self.pid and self.status is None:
            end = time.monotonic() + 1
            self.status = cage.status_of(self.pid)
            while self.status is None and time.monotonic() < end:
                time.sleep(0.001)
                self.status = cage.status_of(self.pid)

    def _ask_stacks(self, selector: selectors.BaseSelector, keep: Callable[[bytes], None]) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.pid, DUMP_SIGNAL)
        end = time.monotonic() + 0.5
        while time.monotonic() < end and not self._dumped:
            for key, _ in selector.select(0.05):
                if not self._drain(key.fd, keep):
                    selector.unregister(key.fd)

    _dumped = False

    def stack_text(self) -> str:
        """What the process wrote about where it was."""
        os.lseek(self.stacks, 0, os.SEEK_SET)
        return os.read(self.stacks, 100000).decode(errors="replace")

    def _drain(self, handle: int, keep: Callable[[bytes], None]) -> bool:
        """Read what there is; False at the end of the stream."""
        for _ in range(64):
            try:
                data = os.read(handle, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            if handle == self.output:
                keep(data)
            else:
                self._feed(data)
        return True

    def _feed(self, data: bytes) -> None:
        lines = (self._buffer + data).split(b"\n")
        self._buffer = lines.pop()
        if len(self._buffer) > LINE_LIMIT:
            self._buffer, self.garbled = b"", self.garbled + 1
        for line in lines:
            if not line.startswith(self.nonce):
                self.garbled += 1
                continue
            try:
                event = json.loads(line[len(self.nonce) :])
                if not well_formed(event):
                    raise ValueError("not an event")
                self._note(event)
            except Exception:  # noqa: BLE001 - whatever a line does to its reader, it is no event
                self.garbled += 1

    def _note(self, event: dict[str, Any]) -> None:
        kind, now = event["event"], time.monotonic()
        if kind == "born":
            if not self.pid:
                self.pid, self.watched = int(event["pid"]), event["size"]
            return
        if kind == "dumped":
            self._dumped = True
            return
        if kind == "phase":
            self.phase = str(event["phase"])
            return
        self.since = now
        if kind == "collecting":
            self.place = ("collect", str(event["path"]))
        elif kind == "collected":
            self.collected.extend(str(name) for name in event["ids"])
        elif kind == "selected":
            self.selected, self.place = int(event["count"]), ("between", "")
        elif kind == "start":
            self.place, self.phase = ("test", str(event["id"])), "setup"
        elif kind == "outcome":
            if event["outcome"] == "passed" and self.phase != "teardown":
                self.hurried.append(str(event["id"]))
            self.place = ("between", "")
            self.done.append(str(event["id"]))
        elif kind == "integrity":
            if event["hooks"]:
                self.looks.append(event["size"])
        elif kind == "collect-error":
            self.collect_errors += 1
        elif kind == "end":
            self.ended, self.reported = True, int(event["exit"])
        self.emit(event)


_TEXTS = (
    "event", "id", "path", "outcome", "phase", "error", "message", "excerpt", "stacks", "pytest",
    "python",
)  # fmt: skip
_NUMBERS = ("pid", "count", "exit", "seconds")
_LISTS = {"ids": str, "what": str, "hooks": str, "names": str, "size": int}


def well_formed(event: Any) -> bool:
    """Is this an event whose fields are what the reporter makes of them?

    What reads events later relies on it. The process that sends them is not to be trusted.
    """
    if not isinstance(event, dict) or "event" not in event:
        return False
    lists = ((event.get(name, []), kind) for name, kind in _LISTS.items())
    return (
        all(isinstance(event.get(name, ""), str) for name in _TEXTS)
        and all(_is_number(event.get(name, 0)) for name in _NUMBERS)
        and all(type(entry) is list and {*map(type, entry)} <= {kind} for entry, kind in lists)
        and isinstance(event.get("own", {}), dict)
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 2**53


def how_it_died(attempt: Attempt) -> str:
    """Words for how a process ended before its tests were through."""
    if attempt.reason == "memory-limit":
        return "used more memory than its limit"
    if attempt.reason == "disk-limit":
        return "left no room on the disk"
    if attempt.ended:
        return "ended the test run early"
    status = attempt.left
    if status is None:
        return "closed its channel"
    if not os.WIFSIGNALED(status):
        return "left its process with exit status %d" % os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    told = " (the container's memory limit was reached)" if number == 9 and attempt.memory_kills else ""
    return "was ended by signal %s%s" % (name, told)
