"""What a person sees of long work: a live bar on a terminal, plain lines when piped.

Everything goes to standard error; standard output belongs to the answer.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


class Progress:
    """Counts tasks of one command and prints lines; safe to call from several threads."""

    def __init__(self, title: str, total: int, *, verbose: int = 0, quiet: bool = False) -> None:
        self.title, self.total, self.verbose, self.quiet = title, total, verbose, quiet
        self._done, self._idle = 0, 0
        self._started, self._lock = time.monotonic(), threading.Lock()
        self._live = sys.stderr.isatty() and not quiet
        self._doing: dict[str, str] = {}

    def _remaining(self) -> str:
        """What is left, by the pace of the tasks that were worked on."""
        worked = self._done - self._idle
        if not worked or self._done >= self.total:
            return ""
        seconds = (time.monotonic() - self._started) / worked * (self.total - self._done)
        return f", about {_span(seconds)} left"

    def doing(self, subject: str, what: str) -> None:
        """Say what is happening to a task now. Shown live, or as a line with -v."""
        with self._lock:
            self._doing[subject] = what
            if self._live:
                self._paint()
            elif self.verbose:
                self._line(f"{self.title}: {subject}: {what}")

    def finished(self, subject: str, outcome: str) -> None:
        """One task is through; a line with the count and an estimate of what is left."""
        with self._lock:
            self._count(subject, outcome, self._remaining)

    def passed(self, subject: str, why: str) -> None:
        """One task on which there was nothing to do: counted, with no say in the estimate."""
        with self._lock:
            self._idle += 1
            self._count(subject, why, lambda: "")

    def _count(self, subject: str, outcome: str, left: Callable[[], str]) -> None:
        self._done += 1
        self._doing.pop(subject, None)
        self._line(f"{self.title}: [{self._done}/{self.total}] {subject}: {outcome}{left()}")

    def say(self, line: str) -> None:
        """A line of its own."""
        with self._lock:
            self._line(line)

    def _line(self, line: str) -> None:
        if self.quiet:
            return
        clear = "\r\x1b[2K" if self._live else ""
        click.echo(clear + line, err=True)

    def _paint(self) -> None:
        text = "; ".join(f"{subject}: {what}" for subject, what in self._doing.items())
        width = _columns()
        line = f"{self.title} {self._done}/{self.total}{self._remaining()} {text}"
        click.echo("\r\x1b[2K" + line[: width - 1], err=True, nl=False)

    @contextmanager
    def running(self) -> Iterator[Progress]:
        """Leaves the terminal clean, whatever happens."""
        try:
            yield self
        finally:
            if self._live:
                click.echo("\r\x1b[2K", err=True, nl=False)


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
