"""Runs tests in forked processes and says what became of each, whatever they do.

A test that hangs costs its own limit: its process is ended and the tests that are left go on in a
fresh one. The same holds for a test that takes its process down, and for a file that does so while
it is imported. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from typing import Any, Callable

import cage

DUMP_SIGNAL = signal.SIGRTMAX - 3
DISK_ROOM = 300 * 2**20
START_SECONDS = 20.0
CLOSING_SECONDS = 0.2
LINE_LIMIT = 4 * 2**20
PLAN = {
    "root": "/repo",
    "python": "/opt/venv/bin/python",
    "files": [],
    "ids": None,
    "ordered": False,
    "deselected": [],
    "arguments": [],
    "tools": [],
    "environment": {},
    "test_seconds": 60.0,
    "run_seconds": 600.0,
    "output_bytes": 16 * 2**20,
    "memory_bytes": 0,
    "file_bytes": 2**30,
    "processes": 0,
    "open_files": 4096,
    "restarts": 200,
    "until": [],
    "stop_at_hang": False,
    "hung_seconds": {},
    "hung_run_seconds": 0.0,
    "tell_imports": False,
    "traceback": "short",
}
"""What can be asked of a run, with defaults. `ids` None means all that the files hold; `output_bytes`
is how much output is kept and `memory_bytes` 0 leaves memory to the container. `until` names ids after
which the run is ended early, all the same to the tests; `stop_at_hang` ends it at the first test that
hangs, and the tests after it have no outcome. Once a test has hung, `hung_seconds` (id -> seconds) are
the limits of the tests that it names, and the run has `hung_run_seconds` left, unless that is 0."""
_DROPPED = ("PYTHON", "PYTEST", "GIT_", "LD_", "COVERAGE", "RACE_")
Emit = Callable[[dict], None]


def clean_environment(extra: dict[str, str]) -> dict[str, str]:
    """The environment of a test process: the image's own, without what steers tools, plus `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    kept.update(HOME=cage.HOME, USER="tester", LOGNAME="tester", SHELL="/bin/sh", TZ="UTC")
    kept.update(PYTHONDONTWRITEBYTECODE="1", PYTHONSAFEPATH="", LANG="C.UTF-8")
    kept.setdefault("PATH", "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin")
    kept.pop("PYTHONSAFEPATH")
    for name in ("OLDPWD", "PWD", "HOSTNAME", "SHLVL", "_"):
        kept.pop(name, None)
    kept.update(extra)
    return kept


def worker_key(python: str, environment: dict[str, str]) -> tuple:
    """What an interpreter is started with: runs that differ in it need another worker."""
    kept = {name: str(value) for name, value in environment.items() if not name.startswith("RACE_")}
    return python, tuple(sorted(kept.items()))


class Worker:
    """The pristine interpreter that forks runs; one per environment of the interpreter itself."""

    def __init__(self, python: str, environment: dict[str, str], preload: str = "") -> None:
        """`preload` is a JSON file whose `preload` lists modules to import before any run."""
        self.key = worker_key(python, environment)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
        starting = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TZ": "UTC",
        }
        starting.update(self.key[1])
        self.ready, self.error = False, ""
        self._process: subprocess.Popen | None = None
        self._waiting: tuple[int, int, int, int] | None = None
        try:
            self._process = subprocess.Popen(
                [python, "-s", "-S", script, str(theirs.fileno()), *([preload] if preload else [])],
                pass_fds=[theirs.fileno()],
                env=starting,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.error = str(error)
            return
        theirs.close()
        self.prepare()

    def wait(self) -> None:
        """Wait until it is ready, or has failed."""
        if self.ready or self.error:
            return
        self.ready = self._channel.recv(6) == b"ready\n"
        if not self.ready and self._process.stderr is not None:
            self.error = self._process.stderr.read(20000).decode(errors="replace") or "ended at once"

    def prepare(self) -> None:
        """Have a process forked that waits for its order, unless one does."""
        if self._waiting is not None or self.error:
            return
        order_end, orders = os.pipe()
        events, event_end = os.pipe()
        output, output_end = os.pipe()
        stacks = os.memfd_create("stacks")
        handles = array.array("i", [order_end, event_end, output_end, stacks])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handles)]
        with contextlib.suppress(BrokenPipeError):  # the worker is dead: whoever waits for it is told
            self._channel.sendmsg([b"run....\n"], rights)
        for handle in (order_end, event_end, output_end):
            os.close(handle)
        self._waiting = orders, events, output, stacks

    def fork(self, order: dict[str, Any]) -> tuple[int, int, int]:
        """Start a run: the ends where its events, its output and its stacks can be read."""
        self.prepare()
        orders, events, output, stacks = self._waiting
        self._waiting = None
        with contextlib.suppress(BrokenPipeError), os.fdopen(orders, "wb") as stream:
            stream.write(json.dumps(order).encode())
        return events, output, stacks

    def close(self) -> None:
        """End the worker, and the process that waits for an order."""
        for handle in self._waiting or ():
            os.close(handle)
        self._waiting = None
        self._channel.close()
        if self._process is None:
            return
        self._process.kill()
        with contextlib.suppress(ChildProcessError):
            self._process.wait()


def task_worker(place: str) -> Worker:
    """The worker of the task whose files lie in `place`, with what its trial allows to import before."""
    with open(os.path.join(place, "task.json"), encoding="utf-8", errors="surrogateescape") as stream:
        task = json.load(stream)
    tried = os.path.join(place, "trial.json")
    return Worker(task["python"], task["environment"], tried if os.path.isfile(tried) else "")


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


class Run:
    """A list of tests, run to its end through as many processes as it takes."""

    def __init__(self, plan: dict[str, Any], emit: Emit, uids: Callable[[], int]) -> None:
        unknown = set(plan) - set(PLAN)
        if unknown:
            raise ValueError("unknown in a run: " + ", ".join(sorted(unknown)))
        self.plan = {**PLAN, **plan}
        self.emit, self._uids = emit, uids
        self.attempts: list[Attempt] = []
        self._kept: list[bytes] = []
        self._room = int(self.plan["output_bytes"])
        self.output_bytes = 0
        self._skipped: list[str] = []
        self._hung = False
        self.how = "crashed"

    def _keep(self, data: bytes) -> None:
        self.output_bytes += len(data)
        if self._room > 0:
            self._kept.append(data[: self._room])
            self._room -= len(data)

    def go(self, worker: Worker) -> str:
        """Run everything; how it ended, in the words of an Observation's `ended`."""
        plan, started = self.plan, time.monotonic()
        deadline = started + plan["run_seconds"]
        remaining: list[str] | None = plan["ids"]
        how = self.how
        for _ in range(int(plan["restarts"]) + 1):
            attempt = self._attempt(worker, remaining, deadline)
            self.attempts.append(attempt)
            if remaining is None:
                remaining = None if attempt.selected is None else _selected(attempt, plan)
            done = set(attempt.done)
            progress = bool(done)
            if attempt.reason == "enough":
                how = "finished"
                break
            if attempt.ended and attempt.reason == "gone" and attempt.place[0] == "between":
                how = "finished"
                break
            kind, name = attempt.place
            if kind == "test":
                self._tell_lost(attempt, name)
                done.add(name)
                progress = True
            elif kind == "collect":
                self._tell_uncollectable(attempt, name)
                self._skipped.append(name)
                progress = True
            if remaining is not None:
                remaining = [entry for entry in remaining if entry not in done]
            if attempt.reason in ("run-limit", "memory-limit", "disk-limit"):
                how = attempt.reason
                break
            if attempt.reason == "hang" and kind == "test":
                if plan["stop_at_hang"]:
                    how = "finished"
                    break
                deadline = self._after_hang(deadline)
            asked = bool(plan["files"]) or remaining is not None
            if remaining == [] or (asked and not self._files(remaining)):
                how = "finished"
                break
            if not progress:
                how = "collection-failed" if kind == "start" else "crashed"
                break
        self.emit(
            {
                "event": "ended",
                "how": how,
                "exit": self.attempts[-1].status,
                "processes": len(self.attempts),
                "garbled": sum(attempt.garbled for attempt in self.attempts),
                "output_bytes": self.output_bytes,
                "output": b"".join(self._kept)[-plan["output_bytes"] :].decode(errors="replace"),
                "stacks": self.attempts[-1].stack_text() if how == "run-limit" else "",
                "seconds": round(time.monotonic() - started, 3),
            }
        )
        for attempt in self.attempts:
            os.close(attempt.stacks)
        self.how = how
        return how

    def _after_hang(self, deadline: float) -> float:
        """The run's deadline once a test has hung; nothing changes at the second one."""
        most = float(self.plan["hung_run_seconds"])
        first, self._hung = not self._hung, True
        return min(deadline, time.monotonic() + most) if most and first else deadline

    def _files(self, ids: list[str] | None) -> list[str]:
        if ids is None:
            named = list(self.plan["files"])
        else:
            named = list(dict.fromkeys(entry.split("::")[0] for entry in ids))
        return [name for name in named if name not in self._skipped]

    def _attempt(self, worker: Worker, ids: list[str] | None, deadline: float) -> Attempt:
        plan, uid = self.plan, self._uids()
        cage.prepare_user(uid)
        order = {
            "uid": uid,
            "nonce": os.urandom(12).hex(),
            "root": plan["root"],
            "files": self._files(ids),
            "ids": ids,
            "ordered": plan["ordered"],
            "skipped": self._skipped,
            "deselected": plan["deselected"],
            "arguments": plan["arguments"],
            "tools": plan["tools"],
            "tell_imports": plan["tell_imports"],
            "traceback": plan["traceback"],
            "environment": clean_environment(plan["environment"]),
            "limits": {name: plan[name] for name in ("file_bytes", "processes", "open_files")},
        }
        attempt = Attempt(worker, order, self.emit, deadline)
        attempt.until = set(plan["until"])
        attempt.limits = plan["hung_seconds"] if self._hung else {}
        try:
            attempt.watch(plan, self._keep)
        finally:
            cage.sweep(uid, plan["root"])
        return attempt

    def _tell_lost(self, attempt: Attempt, name: str) -> None:
        """The outcome of the test that was running when its process ended."""
        hung = attempt.reason in ("hang", "run-limit")
        what = "hang" if hung else "crashed"
        limit = "its limit of %g s" % round(attempt.patience(self.plan["test_seconds"]), 1)
        if attempt.reason == "run-limit":
            limit = "the limit of the whole run, %g s" % self.plan["run_seconds"]
            if self._hung and self.plan["hung_run_seconds"]:
                limit = "the end of the run, %g s after a test had hung" % self.plan["hung_run_seconds"]
        message = "was still running at " + limit if hung else how_it_died(attempt)
        self.emit(
            {
                "event": "outcome",
                "id": name,
                "outcome": what,
                "phase": attempt.phase,
                "seconds": round(time.monotonic() - attempt.since, 3),
                "error": what,
                "message": message,
                "excerpt": "",
                "stacks": attempt.stack_text() if hung else "",
            }
        )

    def _tell_uncollectable(self, attempt: Attempt, path: str) -> None:
        hung = attempt.reason in ("hang", "run-limit")
        message = "importing it did not end" if hung else "importing it " + how_it_died(attempt)
        self.emit(
            {
                "event": "collect-error",
                "path": path,
                "message": message,
                "excerpt": "",
                "stacks": attempt.stack_text() if hung else "",
            }
        )


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


def _selected(attempt: Attempt, plan: dict[str, Any]) -> list[str]:
    return [name for name in attempt.collected if name not in set(plan["deselected"])]


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
