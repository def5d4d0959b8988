"""R/local/runs.jsonl: every attempt of an agent, one line each, whole after any kill."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from race.core.attempts import ACCIDENT, Attempt, read_attempts, with_attempt, write_attempts
from race.store import Store, write_atomic

_WRITING = threading.Lock()


class RunLog:
    """The attempts of a release. The caller holds the release's lock; threads may share one file."""

    def __init__(self, store: Store) -> None:
        self._path = store.folder / "local" / "runs.jsonl"

    def rows(self) -> list[Attempt]:
        """All rows, in the order in which they ended. Malformed names the line."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        return read_attempts(data, str(self._path))

    def add(self, row: Attempt) -> None:
        """Add a row; it replaces its agent's earlier row for the same attempt."""
        with _WRITING:
            write_atomic(self._path, write_attempts(with_attempt(self.rows(), row)))

    def made(self, task: str, instance_id: str, agent: str, model: str) -> dict[int, Attempt]:
        """The attempts that count: number -> row, for this state of the task, without accidents."""
        return {
            row.attempt: row
            for row in self.rows()
            if (row.instance_id, row.agent, row.model, row.task) == (instance_id, agent, model, task)
            and row.ended != ACCIDENT
        }


def due(made: dict[int, Attempt], planned: int) -> Sequence[int]:
    """The numbers, from 1, that have not been made yet."""
    return [number for number in range(1, planned + 1) if number not in made]
