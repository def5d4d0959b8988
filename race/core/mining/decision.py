"""From signals to a score, a verdict's reasons, and the kind of bug.

A pull request is a candidate when three questions are all answered yes: is it a fix, is it about
concurrency, do its tests exercise the change. Each answer is a logistic sum of signals (0 to 1) times
their weights from the fitted table, plus a base; the score is the product. A record keeps every
product of signal and weight, so that the score can be added up by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from race.core.mining.weights import BASES, WEIGHTS

KINDS = (
    "race", "deadlock", "cancellation", "leak", "shutdown", "lifecycle", "thread-safety", "hang",
    "context", "other",
)  # fmt: skip
_EVIDENCE: dict[str, dict[str, float]] = {
    "deadlock": {"title:deadlock": 5.0, "text:deadlock": 2.0, "test:named-deadlock": 2.5,
                 "test:remarks-deadlock": 1.0, "fix:remarks-deadlock": 1.0},
    "cancellation": {"title:cancel": 2.6, "text:cancel": 0.7, "test:named-cancel": 1.0,
                     "fix:catches-cancel": 0.6, "fix:cancels": 0.3, "test:cancels": 0.2,
                     "test:remarks-cancel": 0.3, "fix:remarks-cancel": 0.3},
    "race": {"title:race": 3.6, "text:race": 1.2, "test:named-race": 1.4, "test:remarks-race": 0.8,
             "fix:remarks-race": 0.8, "fix:says-race": 0.5, "title:lock": 0.7, "fix:locks": 0.4,
             "fix:says-file": 0.6, "test:at-once": 0.4},
    "hang": {"title:hang": 3.4, "text:hang": 1.0, "test:named-hang": 1.2, "title:timeout": 0.5,
             "test:remarks-hang": 0.4, "fix:remarks-hang": 0.5},
    "leak": {"title:leak": 3.6, "text:leak": 0.8, "test:named-leak": 1.2},
    "shutdown": {"title:shutdown": 1.9, "text:shutdown": 0.4, "test:named-shutdown": 0.7,
                 "fix:closes": 0.4, "fix:remarks-shutdown": 0.3},
    "context": {"title:context": 3.2, "text:context": 1.0, "fix:says-context": 0.4,
                "fix:remarks-context": 0.8, "test:named-context": 1.2},
    "thread-safety": {"title:thread": 1.9, "text:thread": 0.4, "test:named-thread": 0.8,
                      "fix:says-thread": 0.3, "fix:remarks-thread": 0.4},
    "lifecycle": {"title:loop": 2.3, "text:loop": 0.6, "fix:says-loop": 0.5, "test:named-loop": 0.9},
    "other": {"always": 0.8},
}  # fmt: skip
"""By hand, from what the words mean."""


RULES = {"version": 2, "bases": BASES, "weights": WEIGHTS}
"""What the score depends on; its digest says whether a verdict is current. Raise the version when
signals mean something else."""

DOUBTS = {
    "fix": "its purpose is not clearly a fix",
    "matter": "it is not clearly about concurrency or async lifecycle",
    "tests": "its tests do not clearly exercise the change",
}


def contributions(signals: Mapping[str, float]) -> dict[str, float]:
    """What each signal adds, rounded to what a record shows, and the three bases (`base:<question>`)."""
    added = {f"base:{question}": base for question, base in BASES.items()}
    for weights in WEIGHTS.values():
        for name, weight in weights.items():
            value = round(signals.get(name, 0.0) * weight, 3)
            if value:
                added[name] = value
    return dict(sorted(added.items()))


def answers(added: Mapping[str, float]) -> dict[str, float]:
    """How sure each of the three questions is, 0 to 1: the logistic of its contributions' sum.

    A model's opinion (`model:<name>`) counts for the question about concurrency.
    """
    sums = {
        question: added[f"base:{question}"] + math.fsum(added.get(name, 0.0) for name in weights)
        for question, weights in WEIGHTS.items()
    }
    sums["matter"] += math.fsum(value for name, value in added.items() if name.startswith("model:"))
    return {question: _logistic(total) for question, total in sums.items()}


def score(added: Mapping[str, float]) -> float:
    """The product of the three answers: all of them have to be yes."""
    return round(math.prod(answers(added).values()), 4)


def doubt(added: Mapping[str, float]) -> str:
    """What holds the score down most, for a reason's text."""
    sure = answers(added)
    question = min(sure, key=lambda name: (sure[name], name))
    return f"{DOUBTS[question]} ({sure[question]:.2f})"


def against(added: Mapping[str, float], most: int = 3) -> str:
    """The signals that spoke against it most."""
    worst = sorted((value, name) for name, value in added.items() if value < 0 and name[:5] != "base:")
    return ", ".join(f"{name} {value:+.2f}" for value, name in worst[:most])


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))


def kind(signals: Mapping[str, float]) -> str:
    """The kind of bug that the signals speak for most; ties go to the earlier in KINDS."""
    known = {"always": 1.0, **signals}
    weighed = {
        name: sum(known.get(signal, 0.0) * weight for signal, weight in _EVIDENCE[name].items())
        for name in KINDS
    }
    return max(KINDS, key=lambda name: weighed[name])
