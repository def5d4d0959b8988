"""A counter that loses updates when two tasks add at once."""

from counter.core import Counter, CounterClosed
from counter.text import describe

__all__ = ["Counter", "CounterClosed", "describe"]
