"""Combines the fixes of several pull requests to one project into one patch.

Members were merged one after another, so that the older fixes are already in at the newer members'
bases. The composite therefore starts from the oldest member's base, a commit that existed, and the
newer members' changes are carried over to it: a hunk applies where its old side stands exactly, at
another line if need be, never by similarity. What cannot be carried over is a rejection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from race.core.mining.diffs import Section, sections
from race.errors import Rejection

Read = Callable[[str], bytes | None]
"""The bytes of a path in the base tree, or None when it is not there."""

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*\n", re.MULTILINE)
_INDEX = re.compile(rb"^index ([0-9a-f]{40})\.\.([0-9a-f]{40})(?: (\d+))?$", re.MULTILINE)
_CONTEXT = 3


@dataclass(frozen=True)
class _Hunk:
    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]


def combine(patches: Sequence[bytes], base: Read) -> bytes:
    """One git diff against the base tree that does what all patches do, one after another.

    `patches` are git diffs with full index lines and without renames, oldest first. A file that
    one member alone touches, and that is at the base what it was for that member, keeps its part
    of the diff byte for byte, also when it is binary. Raises Rejection with the path.
    """
    by_path: dict[str, list[Section]] = {}
    for patch in patches:
        for section in sections(patch):
            by_path.setdefault(section.path, []).append(section)
    return b"".join(_file(path, parts, base(path)) for path, parts in sorted(by_path.items()))


def _file(path: str, parts: list[Section], before: bytes | None) -> bytes:
    old_id, _ = _ids(parts[0])
    if len(parts) == 1 and old_id == blob_id(before):
        return parts[0].data
    after, mode = before, ""
    for part in parts:
        if part.binary or part.submodule or {"old mode", "new mode"} & part.modes.keys():
            raise _refused(path, "changes that are not text cannot be carried to another base")
        after = _applied(path, part, after)
        index = _INDEX.search(part.head)
        found = part.modes.get("new file mode") or part.modes.get("deleted file mode")
        mode = found or (index[3] or b"").decode() if index else mode
    return b"" if after == before else _section(before, after, mode or "100644", parts[0])


def _ids(section: Section) -> tuple[str, str]:
    index = _INDEX.search(section.head)
    return (index[1].decode(), index[2].decode()) if index else ("", "")


def blob_id(data: bytes | None) -> str:
    """Git's name for these bytes; forty zeros for no file."""
    if data is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _refused(path: str, why: str) -> Rejection:
    return Rejection("composite-does-not-apply", f"{path}: {why}", path)


def _applied(path: str, part: Section, before: bytes | None) -> bytes | None:
    if "new file mode" in part.modes and before is not None:
        raise _refused(path, "two members add this file")
    if "new file mode" not in part.modes and before is None:
        raise _refused(path, "the file is not there at the oldest member's base")
    lines = _lines(before or b"")
    shift, floor = 0, 0
    for number, hunk in enumerate(_hunks(part.data), 1):
        at = _place(lines, hunk, max(hunk.start - (1 if hunk.old else 0) + shift, 0), floor)
        if at is None:
            raise _refused(path, f"hunk {number} does not fit the oldest member's base")
        lines[at : at + len(hunk.old)] = hunk.new
        floor = at + len(hunk.new)
        shift = at + len(hunk.new) - len(hunk.old) - (hunk.start - (1 if hunk.old else 0))
    return None if "deleted file mode" in part.modes and not lines else b"".join(lines)


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) if b"\r" not in data else re.findall(rb"[^\n]*\n|[^\n]+", data)


def _hunks(data: bytes) -> list[_Hunk]:
    found = []
    for match in _HUNK.finditer(data):
        old_left, new_left = int(match[2] or 1), int(match[4] or 1)
        old: list[bytes] = []
        new: list[bytes] = []
        rest = data[match.end() :].split(b"\n")
        for at, line in enumerate(rest):
            if old_left <= 0 and new_left <= 0:
                break
            text = line[1:] + (
                b"" if rest[at + 1 : at + 2] == [b"\\ No newline at end of file"] else b"\n"
            )
            if line[:1] in (b" ", b"-"):
                old.append(text)
                old_left -= 1
            if line[:1] in (b" ", b"+"):
                new.append(text)
                new_left -= 1
        found.append(_Hunk(int(match[1]), tuple(old), tuple(new)))
    return found


def _place(lines: list[bytes], hunk: _Hunk, wanted: int, floor: int) -> int | None:
    """Where the hunk's old side stands, the place nearest to the wanted line; never before `floor`."""
    size = len(hunk.old)
    if size == 0:
        return wanted if wanted == len(lines) == 0 else None
    fits = [
        at
        for at in range(floor, len(lines) - size + 1)
        if lines[at] == hunk.old[0] and tuple(lines[at : at + size]) == hunk.old
    ]
    return min(fits, key=lambda at: (abs(at - wanted), at), default=None)


def _section(before: bytes | None, after: bytes | None, mode: str, like: Section) -> bytes:
    names = like.data[: like.data.find(b"\n") + 1]
    quoted = names[len(b"diff --git ") : -1]
    left, right = quoted[: len(quoted) // 2], quoted[len(quoted) // 2 + 1 :]
    head = names
    if before is None:
        head += b"new file mode " + mode.encode() + b"\n"
    elif after is None:
        head += b"deleted file mode " + mode.encode() + b"\n"
    head += f"index {blob_id(before)}..{blob_id(after)}".encode()
    head += b"\n" if before is None or after is None else b" " + mode.encode() + b"\n"
    head += b"--- " + (b"/dev/null" if before is None else left) + b"\n"
    head += b"+++ " + (b"/dev/null" if after is None else right) + b"\n"
    return head + _changes(_lines(before or b""), _lines(after or b""))


def _changes(old: list[bytes], new: list[bytes]) -> bytes:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    out: list[bytes] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        out.append(b"@@ -%s +%s @@\n" % (_range(first[1], last[2]), _range(first[3], last[4])))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [_line(b" ", line) for line in old[i1:i2]]
            else:
                out += [_line(b"-", line) for line in old[i1:i2]]
                out += [_line(b"+", line) for line in new[j1:j2]]
    return b"".join(out)


def _range(start: int, stop: int) -> bytes:
    size = stop - start
    return b"%d,%d" % (start + 1 if size else start, size)


def _line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"
