"""What the auditor compares a statement with: everything it must not give away, and all it must say."""

from __future__ import annotations

import copy
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from race.core.failure_text import ObservedFailure
from race.core.interface.applying import FileChange, parse_diff
from race.core.interface.extract import Interface
from race.core.interface.items import InterfaceItem
from race.core.records import Finding
from race.core.statement.behaviour import Behaviour
from race.core.statement_audit.texts import (
    IDENTIFIER,
    added_lines,
    definitions,
    identifiers,
    removed_lines,
    squeezed,
    token_runs,
    tokens,
)

CODE_SIGN = re.compile(r"[=(){}\[\].:+*/<>@]|\b(?:await|async|return|raise|yield|with|not|is|None)\b")
FIX_RUN = 6
TEST_RUN = 7
"""How many tokens in a row, equal to those of the fix or of the tests, are a copy."""


@dataclass(frozen=True)
class Line:
    """A line of the statement with its number."""

    number: int
    text: str


@dataclass
class Case:
    """One statement and what it is audited against.

    `sources` are all files of the base tree as text, for telling common lines from telling ones.
    `told` is what the fix's pull request and changelog say of it. `behaviours` and `failures` are
    keyed by fail-to-pass id; `hidden_ids` are all listed ids.
    """

    statement: str
    fix_patch: bytes
    test_patch: bytes
    interface: Sequence[InterfaceItem]
    behaviours: Mapping[str, Behaviour]
    failures: Mapping[str, ObservedFailure]
    hidden_ids: Sequence[str]
    trees: Interface
    title: str = ""
    told: Sequence[str] = ()
    numbers: Sequence[int] = ()
    commits: Sequence[str] = ()
    repo: str = ""

    def reading(self, statement: str) -> Case:
        """The same case with another text in place of the statement; what it knows is kept."""
        other = copy.copy(self)
        other.statement = statement
        other.__dict__.pop("lines", None)
        return other

    @cached_property
    def lines(self) -> list[Line]:
        """The statement's lines."""
        return [Line(at, text) for at, text in enumerate(self.statement.splitlines(), 1)]

    def found(self, rule: str, line: Line | None, what: str, excerpt: str = "") -> Finding:
        """A finding with its place and excerpt."""
        shown = " ".join(excerpt.split())
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        message = f"{what}: “{shown}”" if shown else what
        return Finding(rule=rule, message=message, place=f"line {line.number}" if line else "")

    @cached_property
    def fix(self) -> list[FileChange]:
        """The fix, file by file."""
        return parse_diff(self.fix_patch)

    @cached_property
    def tests(self) -> list[FileChange]:
        """The test patch, file by file."""
        return parse_diff(self.test_patch)

    @cached_property
    def base_lines(self) -> frozenset[str]:
        """Every line of the base's product code, squeezed."""
        return frozenset(
            squeezed(line)
            for path, data in self.trees.before.files.items()
            if not self.trees.before.is_test(path)
            for line in data.decode(errors="replace").splitlines()
        )

    @cached_property
    def allowed(self) -> frozenset[str]:
        """Identifiers that the interface gives, and those of what the tests openly use."""
        names: set[str] = set()
        for item in self.interface:
            names.update(IDENTIFIER.findall(f"{item.name} {item.detail}"))
        for behaviour in self.behaviours.values():
            quoted = re.findall(r"`([^`]+)`", " ".join(behaviour.steps))
            for text in (*behaviour.subjects, *behaviour.raises, *behaviour.claims, *quoted):
                names.update(IDENTIFIER.findall(text))
        return frozenset(names)

    @cached_property
    def allowed_text(self) -> str:
        """Texts of the interface, squeezed: a statement may quote them."""
        return "\n".join(squeezed(f"{item.name} {item.detail}") for item in self.interface)

    @cached_property
    def fix_identifiers(self) -> frozenset[str]:
        """Identifiers that the fix brings and no file of the base has, without the interface."""
        fresh: set[str] = set()
        for path in self.trees.changes.paths:
            module = self.trees.after.at(path)
            if module is not None:
                fresh |= identifiers(module)
        for change in self.fix:
            if not change.path.endswith(".py"):
                for line in change.lines(b"+"):
                    fresh.update(IDENTIFIER.findall(line))
        return frozenset(fresh - self.base_identifiers - self.allowed)

    @cached_property
    def code_words(self) -> frozenset[str]:
        """Identifiers of the changed files with the fix, as code: no comments, no texts."""
        words: set[str] = set(keyword.kwlist)
        for path in self.trees.changes.paths:
            module = self.trees.after.at(path)
            if module is not None:
                words |= identifiers(module)
        return frozenset(word.lower() for word in words)

    @cached_property
    def base_identifiers(self) -> frozenset[str]:
        """Identifiers of the base: product files as they are, whatever their language."""
        known: set[str] = set()
        for path, data in self.trees.before.files.items():
            if not self.trees.before.is_test(path):
                known.update(IDENTIFIER.findall(data.decode(errors="replace")))
        return frozenset(known)

    @cached_property
    def known_words(self) -> frozenset[str]:
        """Names of the base and the interface in small letters."""
        return frozenset(word.lower() for word in self.base_identifiers | self.allowed)

    @cached_property
    def interface_words(self) -> frozenset[str]:
        """The words of the interface's items, in small letters."""
        texts = [f"{item.name} {item.detail}" for item in self.interface]
        return frozenset(word.lower() for text in texts for word in re.findall(r"\w+", text))

    @cached_property
    def private_touched(self) -> frozenset[str]:
        """Private functions and classes that the fix changes inside and that tests do not use."""
        names: set[str] = set()
        for path in self.trees.changes.paths:
            now, then = definitions(self.trees.after, path), definitions(self.trees.before, path)
            names |= {name for name, text in now.items() if then.get(name) not in (None, text)}
        private = {name for name in names if name.startswith("_") and not name.startswith("__")}
        return frozenset(private - self.allowed)

    @cached_property
    def fix_lines(self) -> dict[str, str]:
        """Telling lines that the fix adds and the base does not have -> squeezed."""
        lines = self._telling(added_lines(self.fix))
        return {line: text for line, text in lines.items() if text not in self.base_lines}

    @cached_property
    def removed_lines(self) -> dict[str, str]:
        """Telling lines that the fix removes -> squeezed."""
        return self._telling(removed_lines(self.fix))

    @cached_property
    def test_lines(self) -> dict[str, str]:
        """Telling lines of the hidden tests that are more than a use of the product -> squeezed."""
        lines = self._telling(added_lines(self.tests))
        return {line: text for line, text in lines.items() if self.own_words(tokens(line))}

    def _telling(self, lines: Iterable[str]) -> dict[str, str]:
        """Lines of code that say something: no bracket, no `else:`, nothing of the interface alone."""
        found: dict[str, str] = {}
        for line in sorted({line.strip() for line in lines}):
            text = squeezed(line)
            comment = line.startswith("#") and len(line.split()) < 4
            enough = len(text) >= 12 and CODE_SIGN.search(line) and len(IDENTIFIER.findall(line)) >= 2
            allowed = text in self.allowed_text or self.only_interface(tokens(line))
            if enough and not comment and not allowed:
                found[line] = text
        return found

    def only_interface(self, words: Sequence[str]) -> bool:
        """`raise PoolClosed("the pool is closed")`: nothing but what the interface says."""
        own = {word.lower() for word in words if re.match(r"\w", word)} - {"raise"}
        return bool(own) and own <= self.interface_words

    def own_words(self, words: Sequence[str]) -> bool:
        """Code of a test that is more than a use of the product's names: two words of its own."""
        own = {word.lower() for word in words if re.match(r"\w{2,}", word)} - self.known_words
        return len({word for word in own if not keyword.iskeyword(word)}) >= 2

    @cached_property
    def fix_runs(self) -> frozenset[tuple[str, ...]]:
        """Runs of tokens in added lines of the fix."""
        return token_runs(added_lines(self.fix), FIX_RUN)

    @cached_property
    def test_runs(self) -> frozenset[tuple[str, ...]]:
        """Runs of tokens in added lines of the test patch."""
        return token_runs(added_lines(self.tests), TEST_RUN)

    @cached_property
    def hidden_names(self) -> frozenset[str]:
        """Names of hidden test functions and classes, and of what the test patch defines for them."""
        names: set[str] = set()
        for test_id in self.hidden_ids:
            for part in test_id.split("[")[0].split("::")[1:]:
                names.add(part)
        for change in self.tests:
            for line in change.lines(b"+"):
                match = re.match(r"\s*(?:async\s+)?(?:def|class)\s+(\w+)", line)
                if match and len(match[1]) >= 6 and match[1] not in self.base_identifiers:
                    names.add(match[1])
        return frozenset(names - self.allowed)

    @cached_property
    def hidden_files(self) -> frozenset[str]:
        """Paths and base names of hidden test files."""
        paths = {test_id.split("::")[0] for test_id in self.hidden_ids}
        paths |= {change.path for change in self.tests}
        return frozenset(paths | {path.rpartition("/")[2] for path in paths})
