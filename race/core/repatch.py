"""Puts right which of a task's two patches a file belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from race.core.mining.diffs import Section, sections
from race.core.paths import TEST_SIDE, Layout
from race.core.verified import Correction


@dataclass(frozen=True)
class Repatched:
    """The two patches after correction; `corrections` is empty when they were right."""

    fix: bytes
    tests: bytes
    corrections: tuple[Correction, ...] = ()


def separated(fix: bytes, tests: bytes, layout: Layout) -> Repatched:
    """Test files that stand in the fix patch moved to the test patch, where they are hidden."""
    parts = list(sections(fix))
    known = {part.path for part in sections(tests)}
    stray = [p for p in parts if layout.kind(p.path) in TEST_SIDE and p.path not in known]
    if not stray or len(stray) == len(parts):
        return Repatched(fix, tests)
    moved = tuple(sorted(part.path for part in stray))
    correction = Correction(
        rule="test-file-in-fix-patch",
        what="fix_patch",
        before=moved,
        after=tuple(f"test_patch: {path}" for path in moved),
    )
    rest = b"".join(part.data for part in parts if part not in stray)
    return Repatched(rest, _joined([*sections(tests), *stray]), (correction,))


def completed(tests: bytes, fix: bytes, whole: bytes, layout: Layout) -> Repatched:
    """Test-side files of the whole change that neither patch has, added to the test patch."""
    known = {part.path for patch in (tests, fix) for part in sections(patch)}
    missing = [
        part
        for part in sections(whole)
        if part.path not in known and layout.kind(part.path) in TEST_SIDE
    ]
    if not missing:
        return Repatched(fix, tests)
    correction = Correction(
        rule="helper-file-missing",
        what="test_patch",
        after=tuple(sorted(part.path for part in missing)),
    )
    return Repatched(fix, _joined([*sections(tests), *missing]), (correction,))


def _joined(parts: list[Section]) -> bytes:
    ordered = sorted(parts, key=lambda part: part.path)
    return b"".join(p.data if p.data.endswith(b"\n") else p.data + b"\n" for p in ordered)
