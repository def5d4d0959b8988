"""Counts events that several threads report."""

import threading


class EventCounter:
    """Totals by name."""

    def __init__(self):
        self._totals = {}
        self._mutex = threading.Lock()

    def report(self, name, amount=1):
        """Add to a total and return the new one."""
        before = self._totals.get(name, 0)
        self._totals[name] = before + amount
        return self._totals[name]

    def total(self, name):
        """The total so far."""
        return self._totals.get(name, 0)

    def snapshot(self):
        """All totals as they are now."""
        with self._mutex:
            return dict(self._totals)
