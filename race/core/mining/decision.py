"""From signals to a score and a verdict's reasons.

A pull request is a candidate when three questions are all answered yes: is it a fix, is it about
concurrency, do its tests exercise the change. Each answer is a logistic sum of signals (0 to 1) times
their weights from the fitted table, plus a base; the score is the product. A record keeps every
product of signal and weight, so that the score can be added up by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from race.core.mining.weights import BASES, WEIGHTS

RULES = {"version": 3, "bases": BASES, "weights": WEIGHTS}
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
