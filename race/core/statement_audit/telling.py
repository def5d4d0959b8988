"""Rules against the fix's own description: its pull request's text and its changelog entries."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from race.core.interface.items import read_interface
from race.core.records import Finding
from race.core.statement.behaviour import stem
from race.core.statement_audit.case import Case
from race.core.statement_audit.remedy import sentences
from race.core.statement_audit.texts import IDENTIFIER, added_lines, removed_lines, squeezed
from race.core.statement_audit.vocabulary import COMMON

RUN = 7
"""So many words in a row, equal to those of the description, are a copy; fewer are how one speaks."""
_TELLING_WORDS, _TELLING_STEMS = 3, 4
_WORD = re.compile(r"[A-Za-z0-9_']+")
_REMEDIAL = re.compile(
    r"\b(?:now|by|instead|rather than|no longer|any longer|any more|so that|uses?|using|used|moved?|"
    r"added?|adds|wrap(?:s|ped)?|replaced?|replaces|checks?|checked|keeps?|holds?|held|under|inside|"
    r"guards?|guarded|before|after|first|skips?|skipped|walks?)\b",
    re.IGNORECASE,
)
"""A sentence of the description with one of these may say what the fix does, not what was wrong."""


def telling(case: Case) -> Iterator[Finding]:
    """Sentences and names that come from the description of the fix."""
    yield from _copies(case)
    yield from _retellings(case)
    yield from _names(case)


def _parts(text: str) -> list[str]:
    """Sentences; a list's items and a fragment's lines are sentences too."""
    flat = re.sub(r"\n\s*(?![-*\n#])", " ", text)
    return [part for part in re.split(r"(?<=[.!?;:])\s+|\n+", flat) if part.strip()]


def _words(text: str) -> list[str]:
    return [word.strip("'").lower() for word in _WORD.findall(text) if word.strip("'")]


def _content(words: list[str]) -> set[str]:
    """Words that say something by themselves."""
    return {word for word in words if len(word) >= 4 and word not in COMMON}


def _copies(case: Case) -> Iterator[Finding]:
    """Seven words in a row of one sentence, whatever stands between them."""
    runs: set[tuple[str, ...]] = set()
    for text in case.told:
        for part in _parts(text):
            words = _words(part)
            runs |= {tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}
    allowed = {word.lower() for word in case.allowed}
    runs = {run for run in runs if len(_content(list(run)) - allowed) >= _TELLING_WORDS}
    for line in case.lines:
        if read_interface(line.text):
            continue
        words = _words(line.text)
        for at in range(len(words) - RUN + 1):
            run = tuple(words[at : at + RUN])
            if run in runs and not _is_known(case, run):
                what = "words of the fix's own description, one after the other"
                yield case.found("fix-prose", line, what, " ".join(run))
                break


def _is_known(case: Case, run: tuple[str, ...]) -> bool:
    """The base, the interface or a failure's message says the same."""
    flat = "".join(run)
    said = [failure.message for failure in case.failures.values()]
    said += [item.sentence() for item in case.interface]
    if any(flat in "".join(_words(text)) for text in said):
        return True
    return any(flat in re.sub(r"\W", "", line).lower() for line in case.base_lines)


def _retellings(case: Case) -> Iterator[Finding]:
    """A sentence that says everything which one about the remedy says, in whatever order."""
    wanted: list[tuple[str, set[str]]] = []
    allowed = {stem(word.lower()) for word in case.allowed}
    for text in case.told:
        for part in _parts(text):
            stems = {stem(word) for word in _content(_words(part))} - allowed
            if _REMEDIAL.search(part) and len(stems) >= _TELLING_STEMS:
                wanted.append((part, stems))
    for line, sentence in sentences(case):
        stems = {stem(word) for word in _words(sentence)}
        for part, needed in wanted:
            if needed <= stems:
                what = "says all that a sentence of the fix's own description says"
                yield case.found("fix-prose", line, what, part)


def _names(case: Case) -> Iterator[Finding]:
    """Names that the description tells and the fix brings into play, known to the base or not."""
    added = {word for line in added_lines(case.fix) for word in IDENTIFIER.findall(line)}
    removed = {word for line in removed_lines(case.fix) for word in IDENTIFIER.findall(line)}
    told: set[str] = set()
    for text in case.told:
        quoted = set(IDENTIFIER.findall(" ".join(re.findall(r"`+([^`]+)`+", text))))
        told |= {word for word in IDENTIFIER.findall(text) if word in quoted or "_" in word.strip("_")}
    said = squeezed(" ".join(failure.message for failure in case.failures.values()))
    names = {
        word
        for word in told & (added - removed)
        if len(word) >= 4 and word.lower() not in COMMON and word not in said
    }
    names -= case.allowed | case.fix_identifiers | case.private_touched | sys.stdlib_module_names
    for line in case.lines:
        quoted = set(IDENTIFIER.findall(" ".join(re.findall(r"`([^`]+)`", line.text))))
        for word in dict.fromkeys(IDENTIFIER.findall(line.text)):
            if word in names and (word in quoted or "_" in word or f"{word}(" in line.text):
                what = "a name that the fix's own description tells and the fix uses"
                yield case.found("fix-prose", line, what, word)
