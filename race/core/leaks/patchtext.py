"""A unified diff as hunks of signed lines: what a leak probe needs of it, no more."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from race.errors import Malformed

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"^index ([0-9a-f]{7,64})\.\.([0-9a-f]{7,64})")


@dataclass(frozen=True)
class PatchedFile:
    """One file of a diff; `hunks` hold (sign, text without its newline). Paths are posix text."""

    path: str
    added: bool = False
    deleted: bool = False
    old_blob: str = ""
    new_blob: str = ""
    hunks: tuple[tuple[tuple[str, bytes], ...], ...] = ()

    @property
    def grown(self) -> int:
        """Bytes that the file gains with the patch, newline counted as one byte."""
        total = 0
        for hunk in self.hunks:
            for sign, text in hunk:
                total += (len(text) + 1) * ((sign == "+") - (sign == "-"))
        return total


@dataclass
class _Open:
    path: str = ""
    old: str = ""
    added: bool = False
    deleted: bool = False
    blobs: tuple[str, str] = ("", "")
    hunks: list[tuple[tuple[str, bytes], ...]] = field(default_factory=list)

    def closed(self) -> PatchedFile:
        return PatchedFile(
            self.path or self.old, self.added, self.deleted, *self.blobs, tuple(self.hunks)
        )


def _name(raw: bytes) -> str:
    text = raw.split(b"\t")[0].strip()
    if text.startswith(b'"') and text.endswith(b'"'):
        text = text[1:-1].decode("latin-1").encode("latin-1").decode("unicode_escape").encode("latin-1")
    if text == b"/dev/null":
        return ""
    if text[:2] in (b"a/", b"b/"):
        text = text[2:]
    return text.decode("utf-8", "replace")


def _git_header(line: bytes) -> str:
    rest = line[len(b"diff --git ") :].strip()
    half = rest.split(b" b/", 1)
    return half[1].decode("utf-8", "replace") if len(half) == 2 else ""


def read_patch(data: bytes, name: str = "patch") -> tuple[PatchedFile, ...]:
    """The files of a unified diff. Raises Malformed with the line when it is none."""
    files: list[PatchedFile] = []
    current: _Open | None = None
    lines = data.split(b"\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"diff --git "):
            if current:
                files.append(current.closed())
            current = _Open(path=_git_header(line))
        elif line.startswith(b"--- ") and at < len(lines) and lines[at].startswith(b"+++ "):
            old, new = _name(line[4:]), _name(lines[at][4:])
            at += 1
            if current is None or current.hunks:
                if current:
                    files.append(current.closed())
                current = _Open()
            current.path, current.old = new or old, old
            current.added, current.deleted = not old, not new
        elif current is not None and line.startswith(b"new file mode"):
            current.added = True
        elif current is not None and line.startswith(b"deleted file mode"):
            current.deleted = True
        elif current is not None and (found := _INDEX.match(line)):
            current.blobs = (found.group(1).decode(), found.group(2).decode())
        elif header := _HUNK.match(line):
            if current is None:
                raise Malformed(name, f"line {at}", "a hunk before any file header")
            hunk, at = _read_hunk(lines, at, header, name)
            current.hunks.append(hunk)
    if current:
        files.append(current.closed())
    if not files:
        raise Malformed(name, "", "no unified diff: no file in it")
    return tuple(files)


def _read_hunk(
    lines: list[bytes], at: int, header: re.Match[bytes], name: str
) -> tuple[tuple[tuple[str, bytes], ...], int]:
    old = int(header.group(2)) if header.group(2) else 1
    new = int(header.group(4)) if header.group(4) else 1
    started, hunk = at, []
    while old > 0 or new > 0:
        if at >= len(lines) or (at == len(lines) - 1 and not lines[at]):
            raise Malformed(name, f"line {started}", "the hunk ends before its counts are met")
        line = lines[at]
        at += 1
        sign, text = (line[:1].decode("latin-1") or " "), line[1:].rstrip(b"\r")
        if sign == "\\":
            continue
        if sign not in " +-":
            raise Malformed(name, f"line {at}", "a line in a hunk that starts with none of ' +-'")
        old -= sign in " -"
        new -= sign in " +"
        hunk.append((sign, text))
    return tuple(hunk), at


def applied(file: PatchedFile, text: bytes) -> bytes | None:
    """A file's content with its hunks applied, each at the first place after the one before; None when
    one does not fit."""
    lines, at = text.split(b"\n"), 0
    for hunk in file.hunks:
        old = [line for sign, line in hunk if sign != "+"]
        new = [line for sign, line in hunk if sign != "-"]
        while lines[at : at + len(old)] != old:
            at += 1
            if at + len(old) > len(lines):
                return None
        lines[at : at + len(old)] = new
        at += len(new)
    return b"\n".join(lines)
