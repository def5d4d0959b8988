"""Which sentence of a statement speaks of which fail-to-pass test, by the words they share."""

from __future__ import annotations

import re

from race.core.interface.items import InterfaceItem
from race.core.statement.behaviour import Behaviour
from race.core.statement.symptoms import awaited_exception, said
from race.core.statement.writer import Coverage
from race.core.statement_audit.case import Case
from race.core.statement_audit.remedy import sentences
from race.core.statement_audit.texts import IDENTIFIER

_COMMON = frozenset(
    {"the", "and", "with", "for", "not", "that", "this", "when", "must", "should", "are"}
)


def covering(case: Case) -> tuple[Coverage, ...]:
    """For each fail-to-pass test the sentence that shares most with what it uses and shows."""
    pool = [sentence for _, sentence in sentences(case) if not sentence.startswith("#")]
    worded = [(sentence, _words(sentence)) for sentence in pool]
    result = []
    for test in sorted(case.failures):
        wanted = _wanted(case, test)
        best = max(worded, key=lambda item: len(item[1] & wanted), default=None)
        if best is not None and best[1] & wanted:
            result.append(Coverage(test=test, sentence=best[0]))
    return tuple(result)


def _wanted(case: Case, test: str) -> set[str]:
    behaviour = case.behaviours.get(test, Behaviour())
    failure = case.failures[test]
    texts = [*behaviour.subjects, *behaviour.raises, *behaviour.claims, said(failure)]
    texts += [item.name for item in items_of(case, test)] + [awaited_exception(failure)]
    return set().union(*(_words(text) for text in texts)) if texts else set()


def items_of(case: Case, test: str) -> list[InterfaceItem]:
    """The interface that one test relies on."""
    return [item for item in case.interface if test in item.tests]


def _words(text: str) -> set[str]:
    words = {word.lower() for word in IDENTIFIER.findall(text)}
    words |= {part for word in words for part in re.split(r"_+", word)}
    return {word for word in words if len(word) > 2} - _COMMON
