"""Turns an entry of the battery into a patch for one task."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from race.battery.diffs import Read, apply, diff
from race.battery.entries import Entry, Step
from race.core.paths import TEST_SIDE, Layout
from race.core.unified_diff import read_patch

PLACES = ("product", "package", "dotted", "root", "tests", "hidden", "oldtest", "other", "plugin")


class DoesNotFit(Exception):
    """The task has nothing that this entry needs, such as an old test file."""


@dataclass(frozen=True)
class Target:
    """The places of a task that entries name. Attackers are given more than they would know.

    product: a module that the fix changes; package, dotted: its package as a path and as a name; root:
    the import root with a slash; tests, hidden: folder and path of a hidden test file; oldtest: an old
    test file; other: a module that the fix leaves alone; plugin: a product module with pytest hooks;
    names, ids: hidden test names, listed ids.
    """

    product: str
    package: str
    dotted: str
    root: str
    tests: str
    hidden: str
    oldtest: str
    other: str
    names: tuple[str, ...]
    ids: tuple[str, ...]
    plugin: str = ""

    def fill(self, text: str) -> str:
        """A text with its placeholders filled. Raises DoesNotFit when one has no value."""
        for name in PLACES:
            mark = "{" + name + "}"
            if mark in text:
                value = getattr(self, name)
                if not value and name != "root":
                    raise DoesNotFit(f"the task has no {name}")
                text = text.replace(mark, value)
        return text.replace("{names}", json.dumps(self.names)).replace("{ids}", json.dumps(self.ids))


def target(
    tree: Mapping[str, bytes], fix: bytes, test: bytes, fail_to_pass: Sequence[str], ids: Sequence[str]
) -> Target:
    """The places of a task. Raises DoesNotFit when the fix changes no Python module of a package."""
    layout = Layout(tree)
    fixed = [path for change in read_patch(fix) for path in change.paths]
    modules = [path for path in fixed if path.endswith(".py") and path in tree and "/" in path]
    modules = [path for path in modules if layout.kind(path) == "product"]
    if not modules:
        raise DoesNotFit("the fix changes no module of a package")
    product = modules[0]
    package = product.rpartition("/")[0]
    top = package
    while f"{top.rpartition('/')[0]}/__init__.py" in tree:
        top = top.rpartition("/")[0]
    root = top.rpartition("/")[0]
    hidden = fail_to_pass[0].partition("::")[0]
    own = sorted(p for p in tree if p.rpartition("/")[0] == package and p.endswith(".py"))
    others = [path for path in own if path not in fixed and not path.endswith("__init__.py")]
    tested = {path for change in read_patch(test) for path in change.paths}
    old = sorted(p for p in tree if layout.kind(p) in TEST_SIDE and "/test_" in "/" + p)
    old = [path for path in old if path in tested] + old
    plugins = sorted(
        path
        for path, data in tree.items()
        if path.endswith(".py") and b"\ndef pytest_" in data and layout.kind(path) == "product"
    )
    return Target(
        product=product,
        package=package,
        dotted=package.removeprefix(root + "/" if root else "").replace("/", "."),
        root=root + "/" if root else "",
        tests=hidden.rpartition("/")[0],
        hidden=hidden,
        oldtest=old[0] if old else "",
        other=others[0] if others else "",
        plugin=plugins[0] if plugins else "",
        names=tuple(sorted({re.sub(r"\[.*$", "", name).split("::")[-1] for name in fail_to_pass})),
        ids=tuple(ids),
    )


def patch_of(entry: Entry, place: Target, read: Read, fix: bytes) -> bytes:
    """The entry as a patch against the task's base tree. Raises DoesNotFit.

    An attack that leaves the package alone gets a comment in it, so that there is something to grade.
    """
    try:
        changes = apply(fix, read) if entry.with_fix else {}
    except ValueError as error:
        raise DoesNotFit(str(error)) from error
    modes: dict[str, str] = {}
    raw: list[bytes] = []
    for step in entry.steps:
        words = tuple(place.fill(word) for word in step.words)
        text = place.fill(step.text).encode()
        if step.verb == "raw":
            raw.append(text)
        elif step.verb in _TREE:
            _change(changes, modes, read, step.verb, words, text)
    if not entry.honest and not any(place.package in path for path in changes):
        _change(changes, modes, read, "append", (place.product,), b"# looked at\n")
    context = 0 if any(step.verb == "bare" for step in entry.steps) else 3
    patch = diff(changes, read, modes, context) + b"".join(raw)
    for step in entry.steps:
        patch = _whole(patch, step)
    return patch


_TREE = ("write", "append", "delete", "move", "lines", "mode", "no")


def _change(
    changes: dict[str, bytes | None],
    modes: dict[str, str],
    read: Read,
    verb: str,
    words: tuple[str, ...],
    text: bytes,
) -> None:
    """One step that changes files."""

    def now(path: str) -> bytes | None:
        return changes[path] if path in changes else read(path)

    path = words[0]
    if verb == "write":
        changes[path] = text
    elif verb == "append":
        before = now(path) or b""
        changes[path] = before + (b"" if before.endswith(b"\n") or not before else b"\n") + text
    elif verb == "delete":
        changes[path] = None
    elif verb == "move":
        changes[words[1]], changes[path] = now(path), None
    elif verb == "lines":
        rows = "".join(f"    {number}: 'row {number}',\n" for number in range(int(path)))
        changes[words[1]] = f"TABLE = {{\n{rows}}}\n".encode()
    elif verb == "mode":
        modes[path] = words[1]
    else:
        changes[words[1]] = (now(words[1]) or b"").rstrip(b"\n")


def _whole(patch: bytes, step: Step) -> bytes:
    """One step that changes the patch as a whole."""
    if step.verb == "carriage":
        return patch.replace(b"\n", b"\r\n")
    if step.verb == "mail":
        head = (
            b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
            b"From: Sample Author <sample@example.invalid>\n"
            b"Subject: [PATCH] Fix it\n\n---\n 1 file changed\n\n"
        )
        return head + patch + b"-- \n2.39.5\n\n"
    if step.verb == "shift":
        by = int(step.words[0])
        return re.sub(
            rb"^@@ -([1-9]\d*)(,\d+)? \+([1-9]\d*)",
            lambda m: b"@@ -%d%s +%d" % (int(m[1]) + by, m[2] or b"", int(m[3]) + by),
            patch,
            flags=re.MULTILINE,
        )
    if step.verb == "spoil":
        return re.sub(rb"^ (\S.*|\s+\S.*)$", rb" \1 # spoilt", patch, count=1, flags=re.MULTILINE)
    return patch
