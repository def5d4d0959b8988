"""The number of the audit's method goes up with its code."""

from __future__ import annotations

import hashlib
from pathlib import Path

from race.core import leaks

ROOT = Path(leaks.__file__).parents[3]
PARTS = (
    "race/core/leaks/*.py",
    "race/work/byte_streams.py",
    "race/work/layer_search.py",
    "race/work/leak_scan.py",
    "race/work/live_probes.py",
    "images/probe/live.py",
)


def digest_of_the_audit() -> str:
    """Of all code that decides what is found: blank lines and lines of comment left out, and what
    `__init__.py` records."""
    hasher = hashlib.sha256()
    for path in sorted(path for pattern in PARTS for path in ROOT.glob(pattern)):
        if path.parent.name == "leaks" and path.name == "__init__.py":
            continue
        hasher.update(path.relative_to(ROOT).as_posix().encode())
        for line in path.read_bytes().splitlines():
            if line.strip() and not line.strip().startswith(b"#"):
                hasher.update(b"\n" + line.rstrip())
    return hasher.hexdigest()[:16]


def test_a_change_of_the_audit_is_noticed() -> None:
    """Whoever changes the audit has to decide whether sealed tasks are due again."""
    now = digest_of_the_audit()
    assert now == leaks.METHOD_OF, (
        "the leak audit's code has changed. May it find anything now that it did not find, or let "
        "anything pass that it did not? Then raise METHOD in race/core/leaks/__init__.py, and sealed "
        f'tasks are due again. Either way set METHOD_OF = "{now}" there'
    )


def test_a_change_of_any_part_changes_the_digest() -> None:
    """Every part is there: a name that matches nothing would guard nothing."""
    for pattern in PARTS:
        assert list(ROOT.glob(pattern)), pattern
