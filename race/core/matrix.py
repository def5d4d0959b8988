"""The 2x2 matrix of validation: {old tests, new tests} x {without the fix, with the fix}.

Which patches make a cell, which test modules are run, and in what order the runs go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from race.core.records import Closed
from race.core.unified_diff import read_patch

Cell = Literal["old-without", "old-with", "new-without", "new-with"]
CELLS: tuple[Cell, ...] = ("old-without", "old-with", "new-without", "new-with")
Change = Literal["added", "changed", "deleted"]

_TEST_NAME = re.compile(r"^(test.*|.*_tests?|tests?)\.py$")
_DEFINES = re.compile(rb"^\+\s*((async )?def test|class Test)", re.MULTILINE)
_TEST_FOLDERS = ("tests", "test", "testing")


class Suite(Closed):
    """Which tests validation ran: the touched test files only, or the whole test folder around them.

    `paths` are given to the test runner, relative to the repository. `why` says what decided.
    """

    width: Literal["touched", "whole"]
    paths: tuple[str, ...]
    why: str = ""


def has_fix(cell: Cell) -> bool:
    """Whether the reference fix is applied in this cell."""
    return cell.endswith("-with")


def has_new_tests(cell: Cell) -> bool:
    """Whether the test patch is applied in this cell."""
    return cell.startswith("new-")


def schedule(runs: int) -> list[tuple[Cell, int]]:
    """Every (cell, run), a round of all four cells at a time; a change of load meets all cells alike.

    The new tests without the fix come first: they may hang.
    """
    order: tuple[Cell, ...] = ("new-without", "new-with", "old-without", "old-with")
    return [(cell, run) for run in range(runs) for cell in order]


def next_run(pending: Sequence[tuple[Cell, int]], seconds: Mapping[Cell, float]) -> tuple[Cell, int]:
    """Which of the pending runs starts next: of the earliest round the one that took longest before.

    Cells that were not run yet count as long, in the order of `pending`; short runs last keep all
    cores busy to the end.
    """
    first = min(run for _, run in pending)
    return max(
        (key for key in pending if key[1] == first), key=lambda key: seconds.get(key[0], float("inf"))
    )


def touched_files(patch: bytes) -> dict[str, Change]:
    """What a git diff does to each path: added, changed or deleted. A rename is both its ends."""
    found: dict[str, Change] = {}
    for change in read_patch(patch):
        if change.old and change.old != change.new:
            found[change.old] = "deleted"
        if change.new:
            found[change.new] = "changed" if change.old == change.new else "added"
    return found


def modules_with_tests(paths: Iterable[str], defining: Collection[str] = ()) -> tuple[str, ...]:
    """The Python files among these that hold tests, by name or because the change defines some there.

    Helpers only when there is nothing else; conftest and package files never.
    """
    python = sorted(
        path
        for path in paths
        if path.endswith(".py") and PurePosixPath(path).name not in ("conftest.py", "__init__.py")
    )
    named = [p for p in python if _TEST_NAME.match(PurePosixPath(p).name) or p in defining]
    return tuple(named or python)


def touched_suite(test_patch: bytes) -> Suite:
    """The test modules that the test patch adds or changes."""
    kept = [path for path, change in touched_files(test_patch).items() if change != "deleted"]
    defining = {change.new for change in read_patch(test_patch) if _DEFINES.search(change.section)}
    return Suite(
        width="touched",
        paths=modules_with_tests(kept, defining),
        why="the test files that the change touches",
    )


def whole_suite(touched: Suite) -> Suite | None:
    """The outermost test folders around the touched modules, or None when they are in none."""
    folders = {_test_folder(path) or path for path in touched.paths}
    if not folders or folders == set(touched.paths):
        return None
    inner = {f for f in folders for other in folders if f != other and f.startswith(other + "/")}
    return Suite(width="whole", paths=tuple(sorted(folders - inner)))


def _test_folder(path: str) -> str:
    parts = PurePosixPath(path).parts[:-1]
    for index, part in enumerate(parts):
        if part in _TEST_FOLDERS:
            return "/".join(parts[: index + 1])
    return ""


def cell_paths(suite: Suite, cell: Cell, changes: Mapping[str, Change]) -> tuple[str, ...] | None:
    """The suite's paths that exist in a cell, or None when there is nothing to run.

    Old cells lack the files that the test patch adds. A suite without paths is what the project's
    own settings name.
    """
    if has_new_tests(cell) or not suite.paths:
        return suite.paths
    return tuple(path for path in suite.paths if changes.get(path) != "added") or None


def spread(items: Sequence[str], limit: int) -> tuple[str, ...]:
    """At most `limit` of the items, evenly taken from first to last; the same ones every time."""
    if len(items) <= limit:
        return tuple(items)
    return tuple(items[index * len(items) // limit] for index in range(limit))
