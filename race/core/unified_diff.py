"""The files of a unified diff, as git and plain diff write it.

The same code runs here and inside test images, on Python 3.8 and newer: standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HUNK = re.compile(rb"^@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


class Unreadable(ValueError):
    """A patch that does not parse: the line, and what is wrong there."""


@dataclass(frozen=True)
class Change:
    """One file of a patch. `old` is empty for an added file, `new` for a deleted one.

    `copied` says that `old` is only what `new` is made of and stays as it is.
    """

    old: str
    new: str
    modes: tuple[str, ...]
    binary: bool
    section: bytes
    copied: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Its paths, once each."""
        return tuple(dict.fromkeys(path for path in (self.old, self.new) if path))

    @property
    def changed(self) -> tuple[str, ...]:
        """The paths that are other than before."""
        return (self.new,) if self.copied else self.paths


def without_carriage_returns(patch: bytes) -> bytes:
    """The patch as it was before every one of its lines, headers too, was given a carriage return."""
    lines = patch.split(b"\n")
    heads = [line for line in lines if line.startswith((b"diff --git ", b"--- ", b"+++ ", b"@@ "))]
    if heads and all(line.endswith(b"\r") for line in heads):
        return b"\n".join(line[:-1] if line.endswith(b"\r") else line for line in lines)
    return patch


def read_patch(patch: bytes) -> list[Change]:
    """The files of a unified diff, in order. Text between them (a mail, a commit message) is skipped.

    Raises Unreadable when a hunk is not as long as it says, or a file has no name.
    """
    reader = _Reader(patch.split(b"\n"))
    changes: list[Change] = []
    while reader.seek():
        changes.append(reader.file())
    return changes


class _Reader:
    """Walks the lines of a patch."""

    def __init__(self, lines: list[bytes]) -> None:
        if lines and lines[-1] == b"":
            lines.pop()
        self.lines, self.at = lines, 0

    def peek(self, offset: int = 0) -> bytes:
        place = self.at + offset
        return self.lines[place] if place < len(self.lines) else b""

    def _plain_start(self) -> bool:
        """Do `---` and `+++` lines start a file here without a `diff --git` line?"""
        return self.peek().startswith(b"--- ") and self.peek(1).startswith(b"+++ ")

    def seek(self) -> bool:
        """Go to the next file; False when there is none."""
        while self.at < len(self.lines):
            line = self.peek()
            if line.startswith(b"diff --git ") or self._plain_start():
                return True
            if line.startswith((b"*** ", b"diff --cc ", b"diff --combined ")) and self.peek(1)[:4] in (
                b"--- ",
                b"inde",
            ):
                raise Unreadable(f"line {self.at + 1}: not in unified format")
            if line.startswith(b"@@ -"):
                raise Unreadable(f"line {self.at + 1}: a hunk without a file")
            self.at += 1
        return False

    def file(self) -> Change:
        """One file's section, which starts here."""
        start, old, new = self.at, "", ""
        modes: list[str] = []
        binary, added, deleted, copied = False, False, False, False
        if self.peek().startswith(b"diff --git "):
            old, new = header_paths(self.peek())
            self.at += 1
            while self.at < len(self.lines):
                line = self.peek()
                if line.startswith((b"diff --git ", b"@@ -", b"--- ")):
                    break
                word, _, rest = line.partition(b" ")
                if line.startswith(
                    (b"new file mode ", b"deleted file mode ", b"old mode ", b"new mode ")
                ):
                    modes.append(line.rsplit(b" ", 1)[1].strip().decode("ascii", "replace"))
                    added = added or line.startswith(b"new file")
                    deleted = deleted or line.startswith(b"deleted file")
                elif line.startswith((b"rename from ", b"copy from ")):
                    old = unquote(line.split(b" ", 2)[2])
                    copied = copied or word == b"copy"
                elif line.startswith((b"rename to ", b"copy to ")):
                    new = unquote(line.split(b" ", 2)[2])
                elif word == b"index":
                    if rest.strip().count(b" ") == 1:
                        modes.append(rest.rsplit(b" ", 1)[1].strip().decode("ascii", "replace"))
                elif line.startswith(b"GIT binary patch"):
                    binary = True
                    self._skip_binary()
                    break
                elif line.startswith(b"Binary files "):
                    binary = True
                elif word not in (b"similarity", b"dissimilarity"):
                    break
                self.at += 1
        if self._plain_start():
            before, after = self.peek()[4:], self.peek(1)[4:]
            old = "" if _is_null(before) else _strip(unquote(before.split(b"\t")[0]))
            new = "" if _is_null(after) else _strip(unquote(after.split(b"\t")[0]))
            self.at += 2
            self._hunks()
        old, new = ("" if added else old), ("" if deleted else new)
        if not old and not new:
            raise Unreadable(f"line {start + 1}: a file without a name")
        section = b"\n".join(self.lines[start : self.at]) + b"\n"
        return Change(old, new, tuple(modes), binary, section, copied and bool(old and new))

    def _skip_binary(self) -> None:
        while self.at < len(self.lines) and not self.peek().startswith(b"diff --git "):
            self.at += 1

    def _hunks(self) -> None:
        found = False
        while True:
            match = _HUNK.match(self.peek())
            if match is None:
                if not found:
                    raise Unreadable(f"line {self.at + 1}: a file without a hunk")
                return
            found = True
            begin = self.at + 1
            old, new = (int(count) if count is not None else 1 for count in match.groups())
            self.at += 1
            while old > 0 or new > 0:
                if self.at >= len(self.lines):
                    raise Unreadable(f"line {begin}: the hunk is cut short")
                sign = self.peek()[:1]
                if sign in (b" ", b"", b"\t", b"\r"):
                    old, new = old - 1, new - 1
                elif sign == b"-":
                    old -= 1
                elif sign == b"+":
                    new -= 1
                elif sign != b"\\":
                    raise Unreadable(f"line {self.at + 1}: the hunk of line {begin} is cut short")
                self.at += 1
            if old < 0 or new < 0:
                raise Unreadable(f"line {begin}: the hunk is longer than it says")
            if self.peek().startswith(b"\\"):
                self.at += 1


def header_paths(line: bytes) -> tuple[str, str]:
    """Both paths of a `diff --git a/X b/X` line; empty when they cannot be told apart."""
    rest = line[len(b"diff --git ") :].rstrip(b"\r\n")
    if rest.startswith(b'"'):
        end = re.search(rb'[^\\]" ', rest)
        if end is None:
            return "", ""
        return _strip(unquote(rest[: end.end() - 1])), _strip(unquote(rest[end.end() :]))
    if b' "' in rest:
        first, _, second = rest.partition(b" ")
        return _strip(unquote(first)), _strip(unquote(second))
    half = len(rest) // 2
    first, second = rest[:half], rest[half + 1 :]
    if rest[half : half + 1] == b" " and first.partition(b"/")[2] == second.partition(b"/")[2]:
        return _strip(unquote(first)), _strip(unquote(second))
    words = rest.split(b" ")
    if len(words) == 2:
        return _strip(unquote(words[0])), _strip(unquote(words[1]))
    return "", ""


def unquote(path: bytes) -> str:
    """A path as git prints it: plain, or in quotes with C escapes when it holds unusual bytes."""
    path = path.rstrip(b"\r\n")
    if len(path) > 1 and path.startswith(b'"') and path.endswith(b'"'):
        path = _ESCAPE.sub(_unescape, path[1:-1])
    return path.decode("utf-8", "surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    if len(code) == 3:
        return bytes([int(code, 8) & 255])
    return _LETTERS.get(code, code)


def _strip(path: str) -> str:
    """Without its first component, as `-p1` takes it; an absolute path stays what it is."""
    if path.startswith("/"):
        return path
    return path.partition("/")[2] or path


def _is_null(path: bytes) -> bool:
    return path.split(b"\t")[0].strip() == b"/dev/null"
