"""Test ids that cannot be listed: they change from run to run, or they stand for several tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

ADDRESS = "its name holds a memory address"
CHANGES = "not every run collects it under this name"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}\b")
_OBJECT = re.compile(r"<[^<>\[\]]* (?:object )?at 0x[0-9a-fA-F]+>")


def carries_address(test_id: str) -> bool:
    """Whether a parameter shows an object by its memory address, which no other process repeats."""
    return bool(_OBJECT.search(test_id))


def unstable(runs: Sequence[Iterable[str]]) -> dict[str, str]:
    """Ids that not every one of these runs of one cell collected, and why they cannot be listed.

    A run is the ids that it collected; give only runs that collected to the end.
    """
    collected = [set(run) for run in runs]
    seen = Counter(test_id for run in collected for test_id in run)
    found: dict[str, str] = {}
    for test_id, times in seen.items():
        if carries_address(test_id):
            found[test_id] = ADDRESS
        elif times < len(collected):
            found[test_id] = ADDRESS if _ADDRESS.search(test_id) else CHANGES
    return found


def without_parameters(test_id: str) -> str:
    """An id whose parameters change from run to run, as one name for all of them."""
    path, mark, rest = test_id.partition("::")
    name, bracket, _ = rest.partition("[")
    return f"{path}{mark}{name}[…]" if bracket else test_id


def in_file(test_id: str) -> str:
    """The file of an id; only the first `::` ends it, since parameters may hold more of them."""
    return test_id.split("::", 1)[0]
