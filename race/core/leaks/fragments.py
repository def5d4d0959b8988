"""What to look for: the pieces of a fix and of its hidden tests that exist nowhere before the fix.

Four kinds of piece, from small to large: an added *line*; a *seam*, two or three neighbouring lines
of the fixed file of which one is new or between which something was removed; a *shingle*, nine words
in a row; a *shape*, a few lines with other names. And *names* of hidden tests and new test modules, and
ids of *commits* that nothing may name. A piece that the patch's own old side or the base tree holds,
or whose words everybody uses, is common and is not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from race.core.leaks.forms import SEPARATOR, squeezed, tokens, worded
from race.core.leaks.matcher import Matcher
from race.core.leaks.patchtext import PatchedFile
from race.core.leaks.shapes import MOST, SUFFIXES, ShapeSearch, shape_of, windows
from race.core.leaks.weight import ENOUGH, bits

Source = Literal["fix", "tests"]
Form = Literal["line", "seam", "shingle", "name", "shape", "commit"]

SHORTEST_LINE = 15
SHORTEST_SEAM = 20
SHORTEST_NAME = 9
SHORTEST_ID = 12
SHINGLE = 9
LIMIT = 12_000

_DEFINED = re.compile(rb"^\s*(?:async\s+def|def|class)\s+([A-Za-z_][A-Za-z0-9_]*)")
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{3,}")
_ID = re.compile(r"[0-9a-f]{12,64}")
_STRING = re.compile(rb"\"([^\"\\\n{}]{8,80})\"|'([^'\\\n{}]{8,80})'")


@dataclass(frozen=True)
class Fragment:
    """One piece: where it comes from, how a person reads it, and what the matcher looks for.

    `lines` are the numbers of the new lines in it, counted over the whole patch; a seam over a
    removal may have none. `wordy` says which normal form the needle is in.
    """

    source: Source
    file: str
    form: Form
    text: bytes
    needle: bytes
    wordy: bool
    lines: frozenset[int]

    @property
    def weight(self) -> float:
        """What it says about its origin, in bits."""
        return bits(tokens(self.text))


@dataclass(frozen=True)
class Wanted:
    """All that one audit looks for, and what was left out as too common."""

    fragments: tuple[Fragment, ...]
    fix_files: tuple[PatchedFile, ...]
    test_files: tuple[PatchedFile, ...]
    identifiers: frozenset[bytes]
    """Identifiers and string constants that first appear with the fix; evidence in byte-code."""
    common_lines: int
    base_known: bool

    @property
    def product_paths(self) -> frozenset[str]:
        """Paths of the files that the fix touches."""
        return frozenset(f.path for f in self.fix_files)

    @property
    def test_paths(self) -> frozenset[str]:
        """Paths of the files that the test patch touches."""
        return frozenset(f.path for f in self.test_files)

    @property
    def names(self) -> tuple[Fragment, ...]:
        """Hidden test names."""
        return tuple(f for f in self.fragments if f.form == "name")

    def count(self, source: Source, form: Form) -> int:
        """How many distinct pieces of one kind are looked for."""
        return sum(f.source == source and f.form == form for f in self.fragments)

    @property
    def shortest_leak_lines(self) -> int:
        """Distinct lines of the fix that are enough to be found: 1 when a single line is, else 2.

        0 when nothing of the fix can be told from the base tree.
        """
        fix = [f for f in self.fragments if f.source == "fix" and f.form != "commit"]
        if any(f.form == "line" for f in fix):
            return 1
        return 2 if fix else 0


def _lines(files: Iterable[PatchedFile]) -> Iterator[tuple[str, list[tuple[int, bytes, bool]]]]:
    """The new side of each hunk: (number of the line or -1, text, something removed before it)."""
    number = 0
    for file in files:
        for hunk in file.hunks:
            after: list[tuple[int, bytes, bool]] = []
            removed = False
            for sign, text in hunk:
                if sign == "-":
                    removed = True
                    continue
                after.append((number if sign == "+" else -1, text, removed and sign == " "))
                number += sign == "+"
                removed = False
            yield file.path, after


def _pieces(source: Source, files: tuple[PatchedFile, ...]) -> Iterator[Fragment]:
    for path, after in _lines(files):
        for number, text, _ in after:
            if number < 0:
                continue
            stripped, lines = text.strip(), frozenset((number,))
            needle = squeezed(stripped)
            if len(needle) >= SHORTEST_LINE and len(tokens(stripped)) >= 2:
                yield Fragment(source, path, "line", stripped, needle, False, lines)
            needle = worded(stripped)
            if len(needle) >= SHORTEST_LINE and len(tokens(stripped)) >= 4:
                yield Fragment(source, path, "shingle", stripped, needle, True, lines)
        yield from _seams(source, path, after)
        yield from _shingles(source, path, after)


def _seams(source: Source, path: str, after: list[tuple[int, bytes, bool]]) -> Iterator[Fragment]:
    full = [entry for entry in after if entry[1].strip()]
    for size in (2, 3):
        for start in range(len(full) - size + 1):
            window = full[start : start + size]
            lines = frozenset(number for number, _, _ in window if number >= 0)
            if not lines and not any(cut for _, _, cut in window[1:]):
                continue
            text = b"\n".join(line for _, line, _ in window).strip()
            needle = squeezed(text)
            if len(needle) >= SHORTEST_SEAM:
                yield Fragment(source, path, "seam", text, needle, False, lines)


def _shingles(source: Source, path: str, after: list[tuple[int, bytes, bool]]) -> Iterator[Fragment]:
    words = [(number, word) for number, line, _ in after for word in tokens(line)]
    for start in range(0, len(words) - SHINGLE + 1, 3):
        window = words[start : start + SHINGLE]
        lines = frozenset(number for number, _ in window if number >= 0)
        fresh = sum(number >= 0 for number, _ in window)
        if fresh * 2 < SHINGLE:
            continue
        needle = b"".join(word for _, word in window).lower()
        if len(needle) >= 24:
            text = b" ".join(word for _, word in window)
            yield Fragment(source, path, "shingle", text, needle, True, lines)


def _shapes(files: tuple[PatchedFile, ...], known: Sequence[bytes]) -> Iterator[Fragment]:
    """Neighbouring lines of the fix that are recognised with other names; those that the known text
    also holds with other names are left out."""
    found = []
    for path, after in _lines(files):
        if path.endswith(SUFFIXES):
            for fresh, lines in windows(after):
                shape = shape_of(lines)
                if shape is not None:
                    text = b"\n".join(lines).strip()
                    found.append(Fragment("fix", path, "shape", text, shape.marks, False, fresh))
    found = found[:: max(1, -(-len(found) // MOST))]
    search = shape_search(found)
    common = {number for text in known for number in search.find(text)}
    yield from (fragment for number, fragment in enumerate(found) if number not in common)


def shape_search(fragments: Sequence[Fragment]) -> ShapeSearch:
    """Finds the shapes among some fragments, by their number."""
    shapes = ((n, shape_of(f.text.split(b"\n"))) for n, f in enumerate(fragments) if f.form == "shape")
    return ShapeSearch((number, shape) for number, shape in shapes if shape is not None)


def _test_names(files: tuple[PatchedFile, ...]) -> Iterator[Fragment]:
    none: frozenset[int] = frozenset()
    for file in files:
        if file.added and file.path.endswith(".py"):
            stem = file.path.rsplit("/", 1)[-1][:-3].encode()
            if len(stem) >= SHORTEST_NAME and b"test" in stem:
                yield Fragment("tests", file.path, "name", stem, stem.lower(), False, none)
        for hunk in file.hunks:
            for sign, text in hunk:
                found = _DEFINED.match(text) if sign == "+" else None
                if found and b"test" in found.group(1).lower():
                    for name in (found.group(1), b"::" + found.group(1)):
                        if len(name) >= SHORTEST_NAME:
                            yield Fragment("tests", file.path, "name", name, name.lower(), False, none)


def _commits(commits: Iterable[str]) -> Iterator[Fragment]:
    none: frozenset[int] = frozenset()
    for commit in sorted({commit.lower() for commit in commits}):
        if _ID.fullmatch(commit):
            start = commit[:SHORTEST_ID].encode()
            yield Fragment("fix", "", "commit", start, start, False, none)


def _old_side(files: Iterable[PatchedFile]) -> bytes:
    parts = []
    for file in files:
        for hunk in file.hunks:
            parts.append(b"\n".join(text for sign, text in hunk if sign != "+"))
    return SEPARATOR.join(parts)


def _identifiers(files: tuple[PatchedFile, ...], sign: str) -> set[bytes]:
    found: set[bytes] = set()
    for file in files:
        if not file.path.endswith((".py", ".pyi", ".pyx")):
            continue
        for hunk in file.hunks:
            for mark, text in hunk:
                if (mark == "+") != (sign == "+"):
                    continue
                found.update(_IDENTIFIER.findall(text.split(b"#")[0]))
                found.update(a or b for a, b in _STRING.findall(text))
    return found


def wanted_from(
    fix: tuple[PatchedFile, ...],
    tests: tuple[PatchedFile, ...] = (),
    base: Iterable[bytes] | None = None,
    commits: Iterable[str] = (),
) -> Wanted:
    """Everything to look for. `base` are the base tree's files; without it only the patch's own old
    side is known to be common, and the judge has to weigh what the work tree itself holds."""
    known = [_old_side(fix), _old_side(tests)]
    if base is not None:
        known.extend(base)
    pieces: dict[tuple[bytes, bool, Source], Fragment] = {}
    for fragment in (*_pieces("fix", fix), *_pieces("tests", tests), *_test_names(tests)):
        pieces.setdefault((fragment.needle, fragment.wordy, fragment.source), fragment)
    every = [f for f in pieces.values() if f.form == "name" or f.weight >= ENOUGH]
    plain = {f.lines for f in pieces.values() if f.form == "line" and f.weight < ENOUGH}
    corpus = [SEPARATOR.join(form(part) for part in known) for form in (squeezed, worded)]
    matcher = Matcher([f.needle for f in every])
    common: set[int] = set()
    for wordy, haystack in enumerate(corpus):
        common |= {n for _, n in matcher.find(haystack) if every[n].wordy == bool(wordy)}
    shapes = list(_shapes(fix, known))
    known_all = base is not None
    whole_words = {w.lower() for part in known for w in tokens(part)} if base is not None else set()
    kept = [
        f
        for n, f in enumerate(every)
        if (
            f.form == "name"
            and f.needle.lstrip(b":") not in whole_words
            and (known_all or n not in common)
        )
        or (f.form != "name" and n not in common)
    ]
    fresh = _identifiers(fix, "+") - _identifiers(fix, "-")
    if base is not None:
        joined = b"\0".join(known)
        fresh = {name for name in fresh if name not in joined}
    plain |= {every[n].lines for n in common if every[n].form == "line"}
    common_lines = len(plain)
    return Wanted(
        _limited([*_commits(commits), *kept, *shapes]),
        fix,
        tests,
        frozenset(fresh),
        common_lines,
        base_known=base is not None,
    )


def _limited(fragments: list[Fragment]) -> tuple[Fragment, ...]:
    """At most LIMIT pieces; names and lines first, then seams and shingles evenly thinned out."""
    order = {"commit": 0, "name": 0, "line": 1, "shape": 1, "seam": 2, "shingle": 3}
    fragments.sort(key=lambda f: order[f.form])
    if len(fragments) <= LIMIT:
        return tuple(fragments)
    first = [f for f in fragments if order[f.form] < 2][:LIMIT]
    rest = [f for f in fragments if order[f.form] >= 2]
    room = LIMIT - len(first)
    step = max(1, -(-len(rest) // max(room, 1)))
    return tuple(first + rest[::step][:room])
