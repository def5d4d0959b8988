"""Small git diffs, made and applied without git: for patches whose trees are a few files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher

from race.core.unified_diff import read_patch

Read = Callable[[str], bytes | None]
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def apply(patch: bytes, read: Read) -> dict[str, bytes | None]:
    """What a text patch makes of a tree: path -> content, None where it deletes.

    Hunks have to fit where they say. Raises ValueError with the path of one that does not.
    """
    made: dict[str, bytes | None] = {}
    for change in read_patch(patch):
        before = (made.get(change.old, read(change.old)) if change.old else b"") or b""
        if change.old and change.old != change.new and not change.copied:
            made[change.old] = None
        if change.new:
            made[change.new] = _applied(change.new, change.section, before)
    return made


def _applied(path: str, section: bytes, before: bytes) -> bytes:
    old, new, at = before.splitlines(keepends=True), [], 0
    lines = section.split(b"\n")
    place = 0
    while place < len(lines):
        match = _HUNK.match(lines[place])
        place += 1
        if match is None:
            continue
        start, removed = int(match[1]), int(match[2] or 1)
        added = int(match[3] or 1)
        begin = start - 1 if removed else start
        new += old[at:begin]
        at = begin
        while removed > 0 or added > 0:
            sign, text = lines[place][:1] or b" ", lines[place][1:] + b"\n"
            place += 1
            if lines[place : place + 1] and lines[place].startswith(b"\\"):
                text, place = text[:-1], place + 1
            if sign in b" -":
                if old[at : at + 1] != [text]:
                    raise ValueError(f"{path}: the patch does not fit at line {at + 1}")
                at, removed = at + 1, removed - 1
            if sign in b" +":
                new.append(text)
                added -= 1
    return b"".join(new + old[at:])


def diff(
    changes: Mapping[str, bytes | None], read: Read, modes: Mapping[str, str], context: int = 3
) -> bytes:
    """One git diff of what was changed, by path; `modes` for files that are not plain."""
    return b"".join(
        _file(path, read(path), changes[path], modes.get(path, "100644"), context)
        for path in sorted(changes)
    )


def _file(path: str, before: bytes | None, after: bytes | None, mode: str, context: int) -> bytes:
    if before == after:
        return b""
    head = f"diff --git a/{path} b/{path}\n"
    if before is None:
        head += f"new file mode {mode}\n"
    if after is None:
        head += "deleted file mode 100644\n"
    body = hunks(before or b"", after or b"", context)
    if body:
        head += f"--- {'/dev/null' if before is None else 'a/' + path}\n"
        head += f"+++ {'/dev/null' if after is None else 'b/' + path}\n"
    else:
        head += "index 0000000..e69de29\n" if before is None else "index e69de29..0000000\n"
    return head.encode() + body


def hunks(before: bytes, after: bytes, context: int = 3) -> bytes:
    """The hunks of a unified diff with so many lines of context."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    out = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        out.append(
            b"@@ -%d,%d +%d,%d @@\n"
            % (i1 + 1 if i2 > i1 else i1, i2 - i1, j1 + 1 if j2 > j1 else j1, j2 - j1)
        )
        for tag, a, b, c, d in group:
            kept = [b" " + line for line in old[a:b]] if tag == "equal" else []
            kept += [b"-" + line for line in old[a:b]] if tag in ("replace", "delete") else []
            kept += [b"+" + line for line in new[c:d]] if tag in ("replace", "insert") else []
            out += [
                line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
                for line in kept
            ]
    return b"".join(out)
