"""A model's second opinion on a pull request that the rules are unsure about: one more signal."""

from __future__ import annotations

import json
import re

from race.core.records import PullRequest

UNSURE = (0.25, 0.75)
"""Scores between these are worth a question."""
WEIGHT = 2.0
"""What a sure yes adds to (and a sure no takes from) the sum of the question about concurrency."""
_MOST = 12_000
_OBJECT = re.compile(r"\{[^{}]*\}")


def question(request: PullRequest, diff: bytes) -> list[dict[str, str]]:
    """The messages that ask for it; the reply is one JSON object."""
    shown = diff[:_MOST].decode(errors="replace")
    asked = (
        "Is the main purpose of this merged pull request to repair a defect of concurrency or of async "
        "lifecycle in product code (race, deadlock, lost wake-up, cancellation, leak of a task or "
        "connection, order of shutdown, event loop, thread-safety, context leakage, hang), with a test "
        'that exercises it? Answer with one JSON object: {"yes": true or false, "sure": 0 to 1}.'
    )
    said = f"Title: {request.title}\n\n{request.body[:2000]}\n\n{shown}"
    return [{"role": "system", "content": asked}, {"role": "user", "content": said}]


def read_reply(reply: str) -> float | None:
    """What a reply adds, from -WEIGHT to WEIGHT; None when it is no answer."""
    for text in _OBJECT.findall(reply):
        try:
            value = json.loads(text)
        except ValueError:
            continue
        yes, sure = value.get("yes"), value.get("sure")
        if isinstance(yes, bool) and isinstance(sure, int | float) and 0 <= sure <= 1:
            return round((WEIGHT if yes else -WEIGHT) * float(sure), 3)
    return None
