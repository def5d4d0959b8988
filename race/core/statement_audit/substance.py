"""Rules about what the statement must say: every hidden test's behaviour, the interface, a symptom."""

from __future__ import annotations

import re
from collections.abc import Iterator

from race.core.failure_text import ObservedFailure
from race.core.interface.items import InterfaceItem, read_interface
from race.core.records import Finding
from race.core.statement.behaviour import CONCEPTS, Behaviour, stem
from race.core.statement.symptoms import awaited_exception, symptom_of
from race.core.statement_audit.case import Case
from race.core.statement_audit.texts import IDENTIFIER

_MINIMUM_WORDS, _MAXIMUM_WORDS = 20, 3000
_SYMPTOMS = {
    "hang": r"hang|hung|dead-?lock|forever|never|block|stuck|finish|freez|frozen|indefinite|stall|"
            r"time[ds]?[ -]?out|respon[ds]|endless|infinite|spin|promptly|complete|return|wake|"
            r"starv|busy",
    "crash": r"crash|abort|abrupt|segfault|kill|exit|interpreter|terminat|dies",
    "absent": r"interface|does not exist|not exist|missing|new|provide|accept|support|available|"
              r"add|must|should",
    "silent": r"silen|no error|not rais|without|should|must|expected|swallow|unnoticed|ignored|"
              r"lost|never",
    "wrong-value": r"should|must|expected|wrong|instead|lost|incorrect|right|still|never|not|"
                   r"missing|duplicate|"
                   r"twice|stale|leak|leav|remain|only|too",
    "error": r"error|exception|fail|rais|crash|traceback|warning|break|broke|reject|refus|throw",
}  # fmt: skip
_SAYING = {
    "cancelled": frozenset({"abort", "interrupt", "canceled", "cancellation", "gon", "away"}),
    "closing": frozenset({"shut", "end", "exit", "terminat", "finish", "shuts"}),
}
_SITUATION = {"cancelled": "cancelled", "closing": "closed or stopped"}
_EXPECTED = re.compile(
    r"\b(should|must|expected|expect|wanted|wish|ought|instead|needs? to|has to|supposed|want|"
    r"required|correct(?:ly)?|"
    r"promptly|shall)\b",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX|lorem ipsum|placeholder)\b|<(?:insert|your|description|"
    r"fill)[^>]*>|\bas an ai\b|"
    r"\b(?:i'm sorry|i am sorry|i cannot|i can't|i can’t|unable to (?:help|assist|comply))\b|"
    r"\b(?:here is|here's|sure[,!]|certainly[,!]) (?:the|a|your|is|here)\b|\{\{.*\}\}|"
    r"\bundefined undefined\b|\[insert",
    re.IGNORECASE,
)


def substance(case: Case) -> Iterator[Finding]:
    """What is missing from the statement, and what is no statement at all."""
    words = re.findall(r"[A-Za-z']{2,}", case.statement)
    if len(words) < _MINIMUM_WORDS:
        yield case.found("empty", None, f"only {len(words)} words: no report can be that short")
        return
    if len(words) > _MAXIMUM_WORDS:
        yield case.found(
            "empty", None, f"{len(words)} words: no report needs more than {_MAXIMUM_WORDS}"
        )
    for line in case.lines:
        match = _FILLER.search(line.text)
        if match:
            yield case.found("filler", line, "filler instead of a report", line.text)
    if case.statement.count("```") % 2:
        yield case.found(
            "filler", case.lines[-1], "a code block that is not closed: the text is cut off"
        )
    elif case.lines and re.search(r"[\w,(]$", _last_text(case)) and not _last_is_item(case):
        yield case.found(
            "filler", case.lines[-1], "ends in the middle of a sentence", _last_text(case)[-60:]
        )
    if not _EXPECTED.search(case.statement):
        yield case.found("expected", None, "does not say what should happen instead")
    yield from _interface(case)
    yield from _coverage(case)


def _last_text(case: Case) -> str:
    return next((line.text.rstrip() for line in reversed(case.lines) if line.text.strip()), "")


def _last_is_item(case: Case) -> bool:
    """A list item, a heading or a table need no full stop."""
    return (
        bool(re.match(r"\s*(?:[-*#|>]|\d+\.)", _last_text(case))) and len(_last_text(case).split()) < 60
    )


def _interface(case: Case) -> Iterator[Finding]:
    for item in case.interface:
        if not stated(item, case.statement):
            whom = f" ({len(item.tests)} of the hidden tests rely on it)" if item.tests else ""
            yield case.found("interface", None, f"does not state {item.sentence()}{whom}")


def stated(item: InterfaceItem, statement: str) -> bool:
    """The statement names this item so that a reader can write it."""
    if item.kind in ("message", "text"):
        wanted = re.sub(r"\\(.)", r"\1", item.name).strip("^$").replace("`", "'")
        pieces = [piece for piece in re.split(r"\.[*+]\??|\n|\(\?\w\)", wanted) if piece.strip()]
        flat = " ".join(statement.split()).replace("`", "'").lower()
        whole = " ".join(item.name.split()).replace("`", "'").lower()
        return whole in flat or all(" ".join(piece.split()).lower() in flat for piece in pieces)
    words = set(IDENTIFIER.findall(statement))
    if item.last not in words and not (item.kind == "module" and item.name in statement):
        return False
    if item.kind in ("class", "function", "method"):
        return all(name in words for name in IDENTIFIER.findall(item.detail) if name != "None")
    if item.kind in ("parameter",):
        return item.detail.rpartition(".")[2] in words or item.detail.split(".")[-2:][0] in words
    if item.kind == "coroutine":
        return bool(re.search(r"await|async|corout", statement, re.IGNORECASE))
    if item.kind == "result":
        return bool(
            re.search(r"\b(?:return|give|yield|result|hand|tuple|pair|values)", statement, re.IGNORECASE)
        )
    return True


def _coverage(case: Case) -> Iterator[Finding]:
    told = "\n".join(line.text for line in case.lines if not read_interface(line.text))
    words = {word.lower() for word in IDENTIFIER.findall(told)}
    seen: dict[str, list[str]] = {}
    for test in sorted(case.failures):
        behaviour = case.behaviours.get(test, Behaviour())
        for problem in _uncovered(told, behaviour, case.failures[test], words):
            seen.setdefault(problem, []).append(test)
    for problem, tests in seen.items():
        yield case.found("coverage", None, f"{problem}; {len(tests)} fail-to-pass test(s): {tests[0]}")


def _uncovered(
    told: str, behaviour: Behaviour, failure: ObservedFailure, words: set[str]
) -> Iterator[str]:
    telling = [name for name in behaviour.subjects if name not in behaviour.around]
    subjects = behaviour.spoken or telling or behaviour.subjects
    whole = [
        name.split(".")[-1:] if behaviour.spoken else name.split(".")[1:] or [name] for name in subjects
    ]
    parts = [part for names in whole for part in names]
    named = {part.lower() for part in parts}
    named |= {f"{part.lower()}s" for part in parts if part[:1].isupper()}
    spaced = {re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.split(".")[-1]).lower() for name in subjects}
    flat = " ".join(re.findall(r"\w+", told.lower()))
    by_words = any(" " in name and name in flat for name in spaced) or any(
        "_" in name and name.replace("_", " ").strip() in flat for name in named
    )
    stems = {stem(word) for word in re.findall(r"[A-Za-z]+", told)}
    by_stem = any(stem(name.rpartition(".")[2]) in stems for name in behaviour.spoken)
    if named and not named & words and not by_words and not by_stem:
        yield f"says nothing about {' or '.join(subjects[:3])}"
    said = [concept for concept in behaviour.concepts if stems & (CONCEPTS[concept] | _SAYING[concept])]
    if behaviour.concepts and not said:
        what = " or ".join(_SITUATION[concept] for concept in behaviour.concepts)
        yield f"does not speak of what happens when something is {what}"
    symptom = symptom_of(failure)
    wanted = awaited_exception(failure)
    if wanted and wanted.lower() not in words:
        yield f"does not say that {wanted} is expected"
    elif not re.search(rf"\b\w*(?:{_SYMPTOMS[symptom]})", told, re.IGNORECASE):
        yield f"does not describe the symptom ({symptom})"
