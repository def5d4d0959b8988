"""The score of one pull request: its signals, the words of its issues, a model's opinion."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from race.core.mining.decision import against, contributions, doubt, score
from race.core.mining.opinion import UNSURE, question, read_reply
from race.core.mining.signals import MARKS_ONLY, REMARKS_ALONE, SKIPS_ALONE, issue_signals
from race.core.mining.weights import WEIGHTS
from race.core.records import Finding, ModelCall, PullRequest
from race.ports import History, Model
from race.work.asking import model_call

_DECIDES_ALONE = (
    (REMARKS_ALONE, "no-product-code", "changes product code by comments alone"),
    (MARKS_ONLY, "no-tests", "changes tests by marks, imports and comments alone"),
    (SKIPS_ALONE, "no-tests", "changes tests by skips alone: nothing new is checked"),
)
"""Signals that no score outweighs."""
_MOST_FROM_ISSUES = {"issue:names-defect": 1.0, "issue:matter": 1.0, "issue:defect": 1.0}
_MOST_LIFT = math.exp(
    sum(w for table in WEIGHTS.values() for name, w in table.items() if name in _MOST_FROM_ISSUES)
)
"""No sum of weights multiplies a logistic answer by more than its own exponential."""
_TOKENS = 400


@dataclass(frozen=True)
class Weighed:
    """What each signal adds, the score, and what a model was asked for it."""

    added: dict[str, float]
    score: float
    calls: tuple[ModelCall, ...] = ()


def weigh(
    history: History,
    request: PullRequest,
    found: Mapping[str, float],
    threshold: float,
    model: Model | None = None,
) -> Weighed:
    """Weigh signals; issues and the model are asked only where they can matter."""
    added = _with_issues(history, request, found, threshold)
    total = score(added)
    if model is None or not UNSURE[0] <= total <= UNSURE[1]:
        return Weighed(added, total)
    messages = question(request, history.diff(request.base_commit, request.merge_commit))
    reply = model.ask(messages, max_tokens=_TOKENS)
    value = read_reply(reply.text)
    problem = "" if value is not None else "no answer to the question"
    call = model_call("miner", model.name, messages, reply, max_tokens=_TOKENS, problem=problem)
    if value is not None:
        added = added | {f"model:{model.name}": value}
    return Weighed(added, score(added), (call,))


def _with_issues(
    history: History, request: PullRequest, found: Mapping[str, float], threshold: float
) -> dict[str, float]:
    """The contributions, with the words of linked issues where they can matter.

    Issues only ever speak for a request, so they are read only when a request stays below the
    threshold without them, and would not if they said all that they can.
    """
    added = contributions(found)
    total = score(added)
    if total >= threshold or total * _MOST_LIFT < threshold:
        return added
    if score(contributions({**found, **_MOST_FROM_ISSUES})) < threshold:
        return added
    text = history.issue_text(request)
    return contributions({**found, **issue_signals(text)}) if text else added


def doubts(found: Mapping[str, float], weighed: Weighed, threshold: float) -> Iterator[Finding]:
    """Why signals turn a pull request down."""
    for name, rule, message in _DECIDES_ALONE:
        if found.get(name):
            yield Finding(rule=rule, message=message)
    if weighed.score < threshold:
        because = against(weighed.added)
        message = f"score {weighed.score:.2f} is below {threshold:.2f}: {doubt(weighed.added)}"
        place = because and f"against: {because}"
        yield Finding(rule="not-concurrency", message=message, place=place)
