"""Counts events that several threads report."""

import threading


class EventCounter:
    """Totals by name."""

    def __init__(self):
        self._totals = {}
        self._mutex = threading.Lock()

    def report(self, name, amount=1):
        """Add to a total and return the new one."""
        with self._mutex:
            updated_total = self._totals.get(name, 0) + amount
            self._totals[name] = updated_total
        return updated_total

    def total(self, name):
        """The total so far."""
        return self._totals.get(name, 0)

    def snapshot(self):
        """All totals as they are now."""
        with self._mutex:
            return dict(self._totals)
