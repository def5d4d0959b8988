"""Applies a git diff to a tree held in memory, exactly: no fuzz, no offset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from race.errors import Malformed

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_PLAIN = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\", b"a": b"\a", b"b": b"\b", b"r": b"\r"}


@dataclass
class FileChange:
    """One file of a diff. `old` or `new` is None for an added or deleted file.

    `hunks` are (first line in the old file, lines with their leading mark); `binary` when git gave
    no lines.
    """

    old: str | None
    new: str | None
    hunks: list[tuple[int, list[bytes]]] = field(default_factory=list)
    binary: bool = False

    @property
    def path(self) -> str:
        """Where the file is afterwards, or was when it is deleted."""
        return self.new or self.old or ""

    def lines(self, mark: bytes) -> list[str]:
        """The added (`+`) or removed (`-`) lines, decoded, without mark and line end."""
        return [
            line[1:].rstrip(b"\r\n").decode(errors="replace")
            for _, hunk in self.hunks
            for line in hunk
            if line[:1] == mark
        ]


def _path(raw: bytes) -> str | None:
    raw = raw.split(b"\t")[0].rstrip(b"\r")
    if raw.startswith(b'"') and raw.endswith(b'"'):
        raw = _ESCAPE.sub(
            lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else _PLAIN.get(m[1], m[1]), raw[1:-1]
        )
    if raw == b"/dev/null":
        return None
    return raw.partition(b"/")[2].decode(errors="surrogateescape")


def _header_path(line: bytes) -> str:
    """The path in `diff --git a/x b/x`, which both halves share unless it is a rename."""
    rest = line[len(b"diff --git ") :].rstrip(b"\r\n")
    if rest.startswith(b'"'):
        return _path(rest[: rest.index(b'"', 1) + 1]) or ""
    return _path(rest[: (len(rest) - 1) // 2]) or ""


def parse_diff(patch: bytes) -> list[FileChange]:
    """The files of a git diff. Malformed names the line where it stops making sense."""
    changes: list[FileChange] = []
    lines = patch.splitlines(keepends=True) if b"\r" not in patch else patch.split(b"\n")
    if b"\r" in patch:
        lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"diff --git "):
            path = _header_path(line)
            changes.append(FileChange(path, path))
            continue
        if not changes:
            continue
        change = changes[-1]
        hunk = _HUNK.match(line)
        if hunk:
            at = _hunk(change, hunk, lines, at)
        elif line.startswith(b"new file mode"):
            change.old = None
        elif line.startswith(b"deleted file mode"):
            change.new = None
        elif line.startswith(b"--- "):
            change.old = _path(line[4:].rstrip(b"\n"))
        elif line.startswith(b"+++ "):
            change.new = _path(line[4:].rstrip(b"\n"))
        elif line.startswith((b"rename from ", b"copy from ")):
            change.old = _path(b"a/" + line.split(b" from ", 1)[1].rstrip(b"\n"))
        elif line.startswith((b"rename to ", b"copy to ")):
            change.new = _path(b"b/" + line.split(b" to ", 1)[1].rstrip(b"\n"))
        elif line.startswith((b"GIT binary patch", b"Binary files ")):
            change.binary = True
    return changes


def _hunk(change: FileChange, head: re.Match[bytes], lines: list[bytes], at: int) -> int:
    old, new = int(head[2] or b"1"), int(head[4] or b"1")
    body: list[bytes] = []
    while old or new:
        if at >= len(lines):
            raise Malformed("patch", f"line {at}", "a hunk is cut off")
        line = lines[at] if lines[at] != b"\n" else b" \n"
        mark = line[:1]
        at += 1
        if mark == b"\\":
            body[-1] = body[-1].rstrip(b"\n")
            continue
        if mark not in b" +-":
            raise Malformed("patch", f"line {at}", "neither context, added nor removed")
        old -= mark in b" -"
        new -= mark in b" +"
        body.append(line)
    if at < len(lines) and lines[at].startswith(b"\\") and body:
        body[-1] = body[-1].rstrip(b"\n")
        at += 1
    change.hunks.append((int(head[1]), body))
    return at


def _patched(path: str, data: bytes, change: FileChange) -> bytes:
    old = data.split(b"\n")
    old = [line + b"\n" for line in old[:-1]] + ([old[-1]] if old[-1] else [])
    new: list[bytes] = []
    taken = 0
    for start, hunk in change.hunks:
        begin = max(start - 1, 0) if any(line[:1] != b"+" for line in hunk) else start
        new += old[taken:begin]
        taken = begin
        for line in hunk:
            mark, text = line[:1], line[1:]
            if mark == b"+":
                new.append(text)
                continue
            if taken >= len(old) or old[taken] != text:
                raise Malformed("patch", f"{path} line {taken + 1}", "does not match the tree")
            taken += 1
            if mark == b" ":
                new.append(text)
    return b"".join(new + old[taken:])


def apply_diff(tree: Mapping[str, bytes], patch: bytes) -> dict[str, bytes]:
    """The tree with a diff applied. A binary file becomes empty: its bytes are of no use here."""
    result = dict(tree)
    for change in parse_diff(patch):
        source = b"" if change.old is None else tree.get(change.old)
        if source is None and not change.binary:
            if not change.hunks:
                continue
            raise Malformed("patch", change.path, "changes a file that the tree does not have")
        if change.old is not None and change.old != change.new:
            result.pop(change.old, None)
        if change.new is None:
            result.pop(change.old or "", None)
        elif change.binary:
            result[change.new] = b""
        else:
            result[change.new] = _patched(change.path, source or b"", change)
    return result
