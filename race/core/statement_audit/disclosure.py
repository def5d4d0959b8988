"""Rules about what the statement tells: hidden tests, the fix's lines, names, places and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from race.core.records import Finding
from race.core.statement_audit.case import FIX_RUN, TEST_RUN, Case, Line
from race.core.statement_audit.texts import IDENTIFIER, squeezed, tokens

_TESTISH = re.compile(
    r"\btest_\w+|\b\w+_test\b|\bTest[A-Z]\w+|\b(?:tests?|testing)/[\w/.-]+|\bconftest\b|\w+::\w+"
)


def disclosure(case: Case) -> Iterator[Finding]:
    """Everything that gives tests or fix away."""
    yield from _test_names(case)
    yield from _lines_of(case)
    yield from _shingles(case)
    yield from _identifiers(case)
    yield from _places(case)
    yield from _title(case)


def _test_names(case: Case) -> Iterator[Finding]:
    plain = {name.removeprefix("test_") for name in case.hidden_names}
    plain = {name for name in plain if name.count("_") >= 2 and len(name) >= 12}
    plain -= case.base_identifiers | case.allowed
    phrases = {" ".join(name.split("_")): name for name in plain if len(name.split("_")) >= 4}
    known = case.base_identifiers | case.allowed
    for line in case.lines:
        words = set(IDENTIFIER.findall(line.text))
        spans = set(IDENTIFIER.findall(" ".join(re.findall(r"`([^`]+)`", line.text))))
        for word in sorted(words & (case.hidden_names | plain)):
            if not _compound(word) and word not in spans and f"{word}(" not in line.text:
                continue
            yield case.found("test-name", line, "the name of a hidden test or its helper", word)
        for match in _TESTISH.finditer(line.text):
            if match[0] not in known and not (words & case.hidden_names and match[0] in words):
                yield case.found("test-name", line, "the name of a test", match[0])
        for name in sorted(case.hidden_files):
            if name and re.search(rf"(?<![\w/]){re.escape(name)}(?!\w)", line.text):
                yield case.found("test-name", line, "the name of a hidden test file", name)
        flat = " ".join(re.findall(r"\w+", line.text.lower().replace("-", " ")))
        for phrase, name in phrases.items():
            if f" {phrase.lower()} " in f" {flat} ":
                yield case.found("test-name", line, "the words of a hidden test's name", name)


def _lines_of(case: Case) -> Iterator[Finding]:
    """Whole lines of the fix (added or removed) or of the tests, whatever their spacing."""
    haystacks = [(line, squeezed(line.text)) for line in case.lines]
    for rule, what, lines in (
        ("fix-line", "a line that the fix adds", case.fix_lines),
        ("fix-line", "a line that the fix removes", case.removed_lines),
        ("test-code", "a line of the hidden tests", case.test_lines),
    ):
        for wanted, text in lines.items():
            for line, squeezed_line in haystacks:
                if text in squeezed_line and _is_code(wanted, line):
                    yield case.found(rule, line, what, wanted)
                    break


def _is_code(wanted: str, line: Line) -> bool:
    """Squeezed prose may run into squeezed code by chance; real code keeps its signs."""
    return all(sign in line.text for sign in set(re.findall(r"[=(){}\[\]]", wanted)))


def _shingles(case: Case) -> Iterator[Finding]:
    """Parts of a line: runs of tokens that the base does not have."""
    for rule, what, runs, size in (
        ("fix-line", "part of a line that the fix adds", case.fix_runs, FIX_RUN),
        ("test-code", "part of a line of the hidden tests", case.test_runs, TEST_RUN),
    ):
        for line in case.lines:
            words = [word.lower() for word in tokens(line.text) if word not in "`*"]
            for at in range(len(words) - size + 1):
                run = tuple(words[at : at + size])
                if run not in runs or _known_run(case, run) or _allowed_run(case, run):
                    continue
                if rule == "fix-line" or case.own_words(run):
                    yield case.found(rule, line, what, " ".join(run))
                    break


def _known_run(case: Case, run: tuple[str, ...]) -> bool:
    """The base's product code says the same."""
    text = "".join(run)
    return any(text in line.lower() for line in case.base_lines)


def _allowed_run(case: Case, run: tuple[str, ...]) -> bool:
    """Part of the interface, or of a message that was observed without the fix."""
    text = "".join(run)
    if case.only_interface(run):
        return True
    if any(text in squeezed(failure.message).lower() for failure in case.failures.values()):
        return True
    return any(text in squeezed(item.sentence()).replace("`", "").lower() for item in case.interface)


def _compound(word: str) -> bool:
    """Not an English word: has an underscore, a digit or a capital inside."""
    return "_" in word.strip("_") or word.startswith("_") or bool(re.search(r"[a-z][A-Z]|\d", word))


def _identifiers(case: Case) -> Iterator[Finding]:
    for line in case.lines:
        spans = " ".join(re.findall(r"`([^`]+)`", line.text))
        quoted = set(IDENTIFIER.findall(spans))
        for word in dict.fromkeys(IDENTIFIER.findall(line.text)):
            if word not in case.fix_identifiers:
                continue
            called = f"{word}(" in line.text
            if _compound(word) or word in quoted or called:
                yield case.found("fix-identifier", line, "a name that only the fix has", word)
        for word in _spaced(line.text, case):
            yield case.found("fix-identifier", line, "the words of a name that only the fix has", word)


def _spaced(text: str, case: Case) -> Iterator[str]:
    """`closed waiter count` for `_closed_waiter_count`: three words or more."""
    flat = f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "
    for name in sorted(case.fix_identifiers):
        parts = [part for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name) if part]
        if len(parts) >= 3 and f" {' '.join(parts).lower()} " in flat and name not in text:
            yield name


def _places(case: Case) -> Iterator[Finding]:
    paths = {change.path for change in case.fix}
    names = {path.rpartition("/")[2] for path in paths}
    names = {name for name in names if name not in ("__init__.py", "")}
    for line in case.lines:
        for path in sorted(paths | names):
            if re.search(rf"(?<![\w.]){re.escape(path)}(?!\w)", line.text):
                yield case.found("fix-place", line, "a file that the fix changes", path)
                break
        for match in re.finditer(r"\b(?:lines?|L)\s*:?#?\s*\d+(?:\s*[-–]\s*\d+)?\b|\.py:\d+", line.text):
            if not re.match(r"L\d?$", match[0]):
                yield case.found("fix-place", line, "a line number in the sources", match[0])
        for word in dict.fromkeys(IDENTIFIER.findall(line.text)):
            if word in case.private_touched:
                yield case.found("fix-place", line, "a private name that the fix works on", word)


def _title(case: Case) -> Iterator[Finding]:
    """The pull request's title, which as a rule names the remedy."""
    words = re.findall(r"\w+", case.title.lower())
    if len(words) < 4:
        return
    wanted = " ".join(words)
    for line in case.lines:
        flat = " ".join(re.findall(r"\w+", line.text.lower()))
        if wanted in flat:
            yield case.found("title", line, "the title of the pull request", line.text)
