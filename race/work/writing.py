"""Writes one statement and has it audited, round after round, by rules or by models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from race.core.records import Finding, ModelCall
from race.core.specified import HAND_WRITER, RULES_WRITER
from race.core.statement.prompt import read_statement, revision_messages, writing_messages
from race.core.statement.writer import LEVELS, Coverage, Facts, write
from race.core.statement_audit.audit import audit
from race.core.statement_audit.case import Case
from race.core.statement_audit.coverage import covering
from race.core.statement_audit.second import auditing_messages, read_opinion
from race.errors import Accident
from race.ports import Model, ModelReply
from race.work.asking import model_call

Answer = TypeVar("Answer")
TRIES = 3
"""How often a model may answer nonsense to one question."""

_TOKENS: dict[str, int] = {"writer": 4096, "auditor": 4096}


@dataclass
class Statement:
    """A statement, who wrote it, and what the audit of its last round found."""

    text: str = ""
    writer: str = RULES_WRITER
    auditor: str = RULES_WRITER
    rounds: int = 0
    findings: list[Finding] = field(default_factory=list)
    coverage: tuple[Coverage, ...] = ()
    calls: list[ModelCall] = field(default_factory=list)
    transcript: list[dict[str, object]] = field(default_factory=list)


@dataclass(frozen=True)
class Assignment:
    """What there is to write about. `case` is an audit case whose text does not matter yet.

    `sources` are the hidden tests' functions by fail-to-pass id, for models only.
    """

    facts: Facts
    case: Case
    sources: Mapping[str, str]
    rounds: int
    writer: Model | None = None
    auditor: Model | None = None
    say: Callable[[str], None] = lambda what: None


def audited(job: Assignment, text: str) -> Statement:
    """A maintainer's own text: audited like any other, never changed."""
    result = Statement(text=text, writer=HAND_WRITER, rounds=1)
    result.findings = audit(job.case.reading(text))
    result.coverage = covering(job.case.reading(text))
    _second_opinion(job, result)
    return result


def write_statement(job: Assignment) -> Statement:
    """A statement by the model, or by rules when there is none."""
    return _by_rules(job) if job.writer is None else _by_model(job, job.writer)


def _by_rules(job: Assignment) -> Statement:
    result = Statement()
    for level in range(LEVELS):
        job.say(f"writing, level {level}")
        written = write(job.facts, level)
        result.text, result.coverage, result.rounds = written.text, written.coverage, level + 1
        result.findings = audit(job.case.reading(written.text))
        if not result.findings:
            break
    _second_opinion(job, result)
    return result


def _by_model(job: Assignment, model: Model) -> Statement:
    result = Statement(writer=model.name)
    question = writing_messages(job.facts, job.sources)
    messages: Sequence[Mapping[str, str]] = question
    for number in range(1, job.rounds + 1):
        job.say(f"asking {model.name}, round {number}")
        result.rounds = number

        def statement_in(reply: ModelReply) -> tuple[str, str]:
            return read_statement(reply.text, cut_off=reply.cut_off)

        result.text = _ask(result, "writer", model, messages, statement_in)
        result.findings = audit(job.case.reading(result.text))
        result.coverage = covering(job.case.reading(result.text))
        _second_opinion(job, result)
        if not result.findings:
            break
        messages = revision_messages(question, result.text, result.findings)
    return result


def _second_opinion(job: Assignment, result: Statement) -> None:
    """Ask the second model about a text that the rules let through."""
    if job.auditor is None:
        return
    model = job.auditor
    result.auditor = f"{RULES_WRITER}+{model.name}"
    if result.findings:
        return
    job.say(f"asking {model.name} for a second opinion")
    messages = auditing_messages(result.text, job.facts.interface, job.sources)

    def opinion_in(reply: ModelReply) -> tuple[tuple[tuple[Coverage, ...], list[Finding]], str]:
        coverage, findings, problem = read_opinion(
            reply.text, result.text, list(job.facts.failures), cut_off=reply.cut_off
        )
        return (coverage, findings), problem

    coverage, findings = _ask(result, "auditor", model, messages, opinion_in)
    result.findings = findings
    result.coverage = coverage or result.coverage


def _ask(
    result: Statement,
    role: Literal["writer", "auditor"],
    model: Model,
    messages: Sequence[Mapping[str, str]],
    read: Callable[[ModelReply], tuple[Answer, str]],
) -> Answer:
    """One question until the answer makes sense; every try is recorded.

    Nonsense to the end is an accident: it says nothing about the task.
    """
    limit = _TOKENS[role]
    problem = ""
    for _ in range(TRIES):
        reply = model.ask(messages, max_tokens=limit)
        answer, problem = read(reply)
        call = model_call(role, model.name, messages, reply, max_tokens=limit, problem=problem)
        result.calls.append(call)
        result.transcript.append(
            {
                "role": role,
                "model": model.name,
                "messages": [dict(message) for message in messages],
                "reply": reply.text,
                "problem": problem,
            }
        )
        if not problem:
            return answer
    raise Accident(f"model {model.name} answered nonsense {TRIES} times as {role}: {problem}")
