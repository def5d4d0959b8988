"""Whether a run that only measures can still end within its limit."""

from __future__ import annotations

import time
from collections.abc import Mapping


class Pace:
    """Tells early that a run cannot end within its limit: a quarter of it went into less than a tenth
    of the tests. Collecting them does not count."""

    def __init__(self, limit: float) -> None:
        self._limit, self._count, self._done = limit, 0, 0
        self._begun = self._selected = 0.0

    @property
    def seconds(self) -> float:
        """How long the run has been watched."""
        return time.monotonic() - self._begun if self._begun else 0.0

    def hopeless(self, event: Mapping[str, object]) -> bool:
        """Take an event of the run; whether it may as well be ended now."""
        now = time.monotonic()
        self._begun = self._begun or now
        if event.get("event") == "selected" and not self._selected:
            self._count, self._selected = int(str(event["count"])), now
        elif event.get("event") == "outcome":
            self._done += 1
        late = bool(self._selected) and now - self._selected > self._limit / 4
        return late and self._done * 10 < self._count
