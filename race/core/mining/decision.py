"""From signals to a score, a verdict's reasons, and the kind of bug.

The score is a logistic sum: every signal (0 to 1) times its weight from the fitted table, plus the
table's base. A record keeps each product, so that the score can be added up by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from race.core.mining.weights import BASE, WEIGHTS

KINDS = (
    "race", "deadlock", "cancellation", "leak", "shutdown", "lifecycle", "thread-safety", "hang",
    "context", "other",
)  # fmt: skip
_EVIDENCE: dict[str, tuple[tuple[str, float], ...]] = {
    "deadlock": (("title:deadlock", 4.0), ("text:deadlock", 1.5), ("test:named-deadlock", 2.0)),
    "cancellation": (
        ("title:cancel", 3.0), ("text:cancel", 0.7), ("test:named-cancel", 1.0), ("fix:cancels", 0.6),
        ("fix:says-cancel", 0.5), ("test:cancels", 0.4),
    ),
    "race": (
        ("title:race", 3.6), ("text:race", 1.0), ("test:named-race", 1.2), ("fix:says-race", 0.6),
        ("fix:guards", 0.2), ("title:lock", 0.6), ("fix:says-file", 0.5),
    ),
    "hang": (("title:hang", 3.3), ("text:hang", 1.0), ("test:named-hang", 1.0), ("title:timeout", 0.6)),
    "leak": (("title:leak", 3.4), ("text:leak", 0.8), ("test:named-leak", 1.2)),
    "shutdown": (
        ("title:shutdown", 1.7), ("text:shutdown", 0.4), ("test:named-shutdown", 0.6), ("fix:closes", 0.5),
    ),
    "context": (("title:context", 3.2), ("text:context", 1.0), ("fix:says-context", 0.5)),
    "thread-safety": (("title:thread", 1.6), ("text:thread", 0.4), ("test:named-thread", 0.6),
                      ("fix:says-thread", 0.3)),
    "lifecycle": (("title:loop", 1.9), ("text:loop", 0.6), ("fix:says-loop", 0.5)),
    "other": (("base", 0.8),),
}  # fmt: skip


RULES = {"version": 1, "base": BASE, "weights": WEIGHTS}
"""What the score depends on; its digest says whether a verdict is current. Raise the version when
signals mean something else."""


def contributions(signals: Mapping[str, float]) -> dict[str, float]:
    """What each signal adds to the sum, rounded to what a record shows."""
    added = {name: round(value * WEIGHTS.get(name, 0.0), 3) for name, value in signals.items()}
    return {"base": BASE} | {name: value for name, value in sorted(added.items()) if value}


def score(added: Mapping[str, float]) -> float:
    """The logistic of the contributions' sum, from 0 to 1."""
    return round(1 / (1 + math.exp(-math.fsum(added.values()))), 4)


def against(added: Mapping[str, float], most: int = 3) -> str:
    """What spoke against a pull request most, for a reason's text."""
    worst = sorted((value, name) for name, value in added.items() if value < 0 and name != "base")
    return ", ".join(f"{name} {value:+.2f}" for value, name in worst[:most])


def kind(signals: Mapping[str, float]) -> str:
    """The kind of bug that the signals speak for most; ties go to the earlier in KINDS."""
    known = {"base": 1.0, **signals}
    weighed = {
        name: sum(known.get(signal, 0.0) * weight for signal, weight in _EVIDENCE.get(name, ()))
        for name in KINDS
    }
    return max(KINDS, key=lambda name: weighed[name])
