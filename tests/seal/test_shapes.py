"""Lines of the fix are recognised when all their names were changed, and only then."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from race.core.leaks.fragments import Fragment, shape_search, wanted_from
from race.core.leaks.layers import Entry
from race.core.leaks.patchtext import read_patch
from race.core.leaks.scanner import LayerScanner
from race.core.leaks.shapes import shape_of

NAMES = {
    "_turnstile": "_gate", "_journal_entry": "_note", "_journal": "_log", "before": "prior",
    "amount": "delta", "Tally": "Abacus", "count": "beads", "add": "put", "total": "whole",
}  # fmt: skip


def renamed(text: str, names: dict[str, str]) -> str:
    """The text with names changed throughout."""
    return re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found.group(), found.group()), text)


def fixed(workshop: Any) -> str:
    """The fixed module, out of the patch."""
    (file,) = read_patch(workshop.fix_patch)
    return "\n".join(text.decode() for hunk in file.hunks for sign, text in hunk if sign != "-")


def found(workshop: Any, path: str, text: str) -> list[Fragment]:
    """What a scan finds in one file."""
    scanner = LayerScanner(workshop.strict, "/repo")
    scanner.add(Entry(path, "f", len(text), 0, 0o644), text.encode())
    hits = scanner.finish("sha256:1", 1).hits
    return [workshop.strict.fragments[n] for hit in hits for n, _, _ in hit.found]


def test_a_copy_with_all_names_changed_is_found(workshop: Any) -> None:
    """Other names, other indentation, comments between: still the same tokens."""
    copy = renamed(fixed(workshop), NAMES).replace("    ", "\t").replace(":\n", ":  # as it was\n", 1)
    shapes = found(workshop, "/srv/site-packages/abacus/engine.py", copy)
    assert {fragment.form for fragment in shapes} == {"shape"}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("delta > prior", "delta < prior", [b"amount > before"]),
        ("'big step'", "'small step'", [b"'big step'"]),
        ("_gate.locked", "_other.locked", [b"with self._turnstile", b"_turnstile.locked"]),
    ],
)
def test_other_code_of_the_same_look_is_not(
    workshop: Any, old: str, new: str, lines: list[bytes]
) -> None:
    """Another operator, another string, two names for one: no shape that holds these lines is found."""
    copy = renamed(fixed(workshop), NAMES)
    assert old in copy
    for text, there in ((copy, True), (copy.replace(old, new), False)):
        shapes = found(workshop, "/srv/x.py", text)
        assert any(all(line in f.text for line in lines) for f in shapes) is there


def test_the_base_tree_has_no_shape_of_the_fix(workshop: Any) -> None:
    """Shapes that the base tree has, under any names, are not looked for."""
    search = shape_search(workshop.strict.fragments)
    assert search
    for path in Path(workshop.clean / "repo").rglob("*.py"):
        assert search.find(path.read_bytes()) == {}
    files = read_patch(workshop.fix_patch)
    known = renamed(fixed(workshop), NAMES).encode()
    assert not shape_search(wanted_from(files, (), [known]).fragments)


def test_few_or_plain_lines_have_no_shape() -> None:
    """What stands in every second module is nobody's shape."""
    assert shape_of([b"def close(self):", b"    self.closed = True", b"    return self.closed"]) is None
    plain = [b"        self.%s = %s" % (name, name) for name in (b"a", b"b", b"c", b"d")]
    assert shape_of(plain) is None
