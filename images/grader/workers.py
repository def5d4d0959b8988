"""The pristine interpreter that forks test processes, and how it is asked to. Standard library only."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import subprocess
from typing import Any


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
