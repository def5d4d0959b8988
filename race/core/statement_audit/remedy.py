"""Rules against telling the remedy or the cause in words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from race.core.records import Finding
from race.core.statement_audit.case import Case, Line
from race.core.statement_audit.texts import IDENTIFIER, added_lines, removed_lines
from race.core.statement_audit.vocabulary import (
    ADVICE,
    CAUSE,
    CODE_WORDS,
    COMMON,
    PLAIN_CAUSE,
    REMEDY,
)


def remedy(case: Case) -> Iterator[Finding]:
    """Advice and causes, sentence by sentence."""
    words = _remedy_words(case)
    for line, sentence in sentences(case):
        telling = _advised(sentence, words)
        if telling:
            yield case.found("remedy", line, f"advises what the fix does ({telling})", sentence)
        elif REMEDY.search(sentence):
            yield case.found("remedy", line, "speaks of the remedy", sentence)
        cause = CAUSE.search(sentence)
        if cause and (PLAIN_CAUSE.search(sentence) or _own(sentence) & words):
            yield case.found("cause", line, "explains the cause in the code", sentence)


def _own(sentence: str) -> set[str]:
    return {word.lower() for word in IDENTIFIER.findall(sentence)}


def _advised(sentence: str, words: frozenset[str]) -> str:
    """The word of the fix that a piece of advice in this sentence names, or nothing.

    An English word counts only close behind the advice; a word of code counts anywhere beside it.
    """
    for advice in ADVICE.finditer(sentence):
        spoken = set(advice[0].lower().split())
        near = {word.lower() for word in IDENTIFIER.findall(sentence[advice.end() :])[:5]}
        for word in sorted((_own(sentence) & words) - spoken):
            if word in near or "_" in word or word in CODE_WORDS or _as_means(word, sentence):
                return word
    return ""


def _as_means(word: str, sentence: str) -> bool:
    """`wrap the two steps in a lock`: the word is what something is to be done with."""
    means = r"\b(?:in|with|under|inside|behind|by|using|holding|taking|through|via)\s+(?:\w+\s+){0,2}"
    return bool(re.search(means + re.escape(word) + r"\b", sentence, re.IGNORECASE))


def sentences(case: Case) -> Iterator[tuple[Line, str]]:
    """The statement's sentences with the line that they start on; headings are sentences."""
    for line in case.lines:
        for part in re.split(r"(?<=[.!?;])\s+", line.text):
            if part.strip():
                yield line, part.strip()


def _remedy_words(case: Case) -> frozenset[str]:
    """Words of the fix's added lines that its removed lines do not have: what it brings into play."""
    added = {word.lower() for line in added_lines(case.fix) for word in IDENTIFIER.findall(line)}
    added &= case.code_words
    removed = {word.lower() for line in removed_lines(case.fix) for word in IDENTIFIER.findall(line)}
    parts = {part for word in added - removed for part in word.split("_") if len(part) >= 4}
    replaced = {word for word in removed if "_" in word.strip("_")}
    allowed = {
        part.lower()
        for word in case.allowed
        for part in (word, *re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", word))
    }
    brought = {word for word in added - removed | parts if len(word) >= 4}
    strong = brought & (CODE_WORDS | {"lock"})
    return frozenset((brought - COMMON - allowed) | (strong - allowed) | (replaced - allowed))
