"""Processes that work for this one: they leave interrupts to it and do not outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time


def begin_worker(owner: int) -> None:
    """To be called first in a worker: its owner alone handles interrupts, and when the owner is
    gone, however it went, the worker ends too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def most_workers(most: int) -> int:
    """How many worker processes are worth while: one per processor that we may use, at most `most`;
    none where a process may not have children of its own."""
    if multiprocessing.current_process().daemon:
        return 0
    processors = len(os.sched_getaffinity(0))
    return min(most, processors) if processors > 1 else 0
