"""With the reference fix: what gradings of this task may rely on. Standard library only.

Run once, while the image is built. An edit is used later only when it did here what it is for: false
ones made the test fail, neutral ones left it passing. So an honest fix is never caught by a control.
"""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

import cage
import controls
import workers
from assertions import Edit
from edits import helper_edits
from grade import Grading, load
from reach import Place, Reach
from seen import Seen
from submission import Refused

EDITS, NEUTRAL, SECONDS = 12, 6, 60.0
"""At most so many false and neutral edits of each test are tried, and for so long in all."""
HELPERS, HELPER_EDITS, HELPER_GOOD, HELPER_SECONDS = 6, 4, 2, 45.0
"""So many helpers of each test, the nearest, and so many edits of each are tried, until so many work;
and for so long."""
SLOWER = 0.5
"""With a false edit of a helper a test may take so many seconds longer than without. One that does
not end sooner waits for something, or is tried again and again: it may pass at another time."""


def try_out(worker: workers.Worker) -> dict[str, Any]:
    """What was found, by name:

    `not_alone`, `not_renamed`    ids and functions that do not pass alone, or under another name
    `together`                    do renamed ones pass in one process
    `false`, `neutral`            id -> numbers of the edits that work
    `outer`                       false and neutral edits of helpers, as `controls.HelperEdit` reads them
    `preload`                     modules that the worker imports before any run
    `bytecode`                    files of the project that are compiled before any run, with whether
                                  pytest rewrites them
    `seconds`                     what each test took, in the order of the run
    `tolerated`                   what the project itself changes about the runner

    When the reference fix is not resolved there is only `reference`, which the release check then says.
    """
    cage.adopt_orphans()
    grading = Grading(load("task.json"), worker)
    grading.tolerated = None
    try:
        return _try_out(grading)
    except Refused as verdict:
        return {"reference": [verdict.verdict, *verdict.reasons]}
    finally:
        grading.close()


def _try_out(grading: Grading) -> dict[str, Any]:
    task = grading.task
    grading.submission()
    grading.place()
    listed = [*task["fail_to_pass"], *task["pass_to_pass"]]
    seen = grading.run(listed, "all listed tests", tell_imports=True)
    failing = [name for name in seen.asked if seen.outcomes.get(name) != "passed"]
    if failing or seen.doubts:
        return {"reference": ["unresolved", *sorted(failing)[:20], *seen.doubts[:5]]}
    preload, again = _try_preload(grading, listed, seen)
    own = {path: rewritten for path, rewritten in seen.own.items() if path not in grading.hidden}
    bytecode = _try_bytecode(grading, listed, own)
    deadline = time.monotonic() + SECONDS
    book = controls.Book(grading.sources(), task["fail_to_pass"])
    found: dict[str, Any] = {"not_alone": [], "not_renamed": [], "tolerated": sorted(again.altered)}
    found.update(preload=preload, seconds=again.seconds, bytecode=bytecode)
    for function, ids in controls.by_function(task["fail_to_pass"]).items():
        _try_alone(grading, book, function, ids, found)
    found["together"] = _try_together(grading, book, found)
    taken = again.seconds
    found["false"] = _try_edits(grading, book, False, EDITS, deadline, taken)
    found["neutral"] = _try_edits(grading, book, True, NEUTRAL, deadline, taken)
    found["outer"] = try_helpers(grading, book, taken)
    return found


def _try_preload(grading: Grading, listed: list[str], seen: Seen) -> tuple[list[str], Seen]:
    """What the worker may import before any run: all that the tests do, when they pass then as well."""
    task = grading.task
    with tempfile.NamedTemporaryFile("w", suffix=".json") as stream:
        json.dump({"preload": seen.imported}, stream)
        stream.flush()
        grading.worker.close()
        grading.worker = workers.Worker(task["python"], task["environment"], stream.name)
        grading.worker.wait()
    if grading.worker.ready:
        grading.place()
        again = grading.run(listed, "all listed tests")
        if not again.doubts and all(again.outcomes.get(name) == "passed" for name in again.asked):
            return seen.imported, again
    grading.worker.close()
    grading.worker = workers.Worker(task["python"], task["environment"])
    return [], seen


def _try_bytecode(grading: Grading, listed: list[str], own: dict[str, bool]) -> dict[str, bool]:
    """The project's files that need not be compiled in each run, when all tests pass then as well."""
    grading.compile(own)
    grading.place()
    seen = grading.run(listed, "all listed tests")
    if not seen.doubts and all(seen.outcomes.get(name) == "passed" for name in seen.asked):
        return own
    grading.compile({})
    return {}


def _try_alone(
    grading: Grading, book: controls.Book, function: controls.Function, ids: list[str], found: dict
) -> None:
    """Does a function pass in a process of its own, under another name and in another order?"""
    draw = controls.drawing(b"", "", "alone")
    if function in book.edits:
        name = book.new_name(function, draw, {})
        grading.place(book.variant({function: (None, name)}, draw))
        other = [controls.renamed(nodeid, name) for nodeid in ids]
        seen = grading.run(other[::-1], "alone, renamed", ordered=True)
        if all(seen.outcomes.get(nodeid) == "passed" for nodeid in other):
            return
    found["not_renamed"].append([function[0], *function[1]])
    grading.place()
    seen = grading.run(ids, "alone")
    found["not_alone"] += [nodeid for nodeid in ids if seen.outcomes.get(nodeid) != "passed"]


def _try_together(grading: Grading, book: controls.Book, found: dict) -> bool:
    """Do all that pass alone and renamed pass in one process as well?"""
    draw = controls.drawing(b"", "", "together")
    kept = {(entry[0], tuple(entry[1:])) for entry in found["not_renamed"]}
    chosen: dict = {}
    asked = []
    for function, ids in controls.by_function(grading.task["fail_to_pass"]).items():
        renameable = function in book.edits and function not in kept
        name = book.new_name(function, draw, chosen) if renameable else ""
        if renameable:
            chosen[function] = (None, name)
        asked += [controls.renamed(nodeid, name) for nodeid in ids if nodeid not in found["not_alone"]]
    grading.place(book.variant(chosen, draw))
    seen = grading.run(asked[::-1], "together", ordered=True)
    return bool(asked) and all(seen.outcomes.get(nodeid) == "passed" for nodeid in asked)


def _try_edits(
    grading: Grading,
    book: controls.Book,
    neutral: bool,
    most: int,
    deadline: float,
    taken: dict[str, float],
) -> dict[str, list[int]]:
    """In each round one edit of every function, all in one process; which did what it is for."""
    draw = controls.drawing(b"", "", "edits")
    wanted = ("passed",) if neutral else ("failed", "error")
    rows = {}
    for function in book.edits:
        row = book.numbered(function, neutral)
        rows[function] = [entry for entry in row if not (neutral and entry[1].sure)][:most]
    good: dict[str, list[int]] = {}
    for place in range(max((len(row) for row in rows.values()), default=0)):
        if time.monotonic() > deadline:
            break
        chosen = {function: row[place] for function, row in rows.items() if place < len(row)}
        grading.place(book.variant({f: (edit, "") for f, (_, edit) in chosen.items()}, draw))
        ids = [nodeid for function in chosen for nodeid in book.groups[function]]
        seen = grading.run(ids, "trial", seconds=5)
        for function, (number, edit) in chosen.items():
            for nodeid in book.groups[function]:
                slow = edit.owner and not neutral and not soon(seen, nodeid, taken)
                if seen.outcomes.get(nodeid) in wanted and not slow:
                    good.setdefault(nodeid, []).append(number)
    return good


def soon(seen: Seen, nodeid: str, taken: dict[str, float]) -> bool:
    """Did a test end as soon as it does when it is true, or nearly?"""
    return seen.seconds.get(nodeid, 0.0) <= taken.get(nodeid, 0.0) + SLOWER


def try_helpers(grading: Grading, book: controls.Book, taken: dict[str, float]) -> list[dict[str, Any]]:
    """Edits of helpers: false ones, each in runs of its own, and neutral ones.

    A false one is tried twice, so that nothing else makes a test fail: a test counts when it fails both
    times, in either order of the tests, without waiting for anything.
    """
    groups = controls.by_function(grading.task["fail_to_pass"])
    files = {**grading.sources(), **grading.beside(book.files)}
    candidates = helpers_of(files, list(groups))
    deadline = time.monotonic() + HELPER_SECONDS
    draw = controls.drawing(b"", "", "helpers")
    found: list[dict[str, Any]] = []
    good = [0] * len(candidates)
    for place in range(HELPER_EDITS):
        for number, (edits, reached) in enumerate(candidates):
            false = [edit for edit in edits if not edit.neutral]
            if place >= len(false) or good[number] >= HELPER_GOOD or time.monotonic() > deadline:
                continue
            edit = false[place]
            known = edit.path not in grading.hidden
            ids = [nodeid for function in reached for nodeid in groups[function]]
            variant = controls.Book(files, []).variant({reached[0]: (edit, "")}, draw)
            for _ in range(2):
                ids = _failing(grading, variant, ids[::-1], taken, deadline) if ids else []
            if ids:
                good[number] += 1
                found.append(controls.HelperEdit(edit, number, ids, reached, known).row())
    neutral = [controls.HelperEdit(edit, number, [], reached, edit.path not in grading.hidden)
               for number, (edits, reached) in enumerate(candidates)
               for edit in edits if edit.neutral]  # fmt: skip
    return found + [edit.row() for edit in _passing(grading, files, neutral, deadline)]


def _passing(
    grading: Grading, files: dict[str, bytes], edits: list[controls.HelperEdit], deadline: float
) -> list[controls.HelperEdit]:
    """Those neutral edits of helpers with which all tests pass: all at once, else in halves."""
    if not edits or time.monotonic() > deadline:
        return []
    groups = controls.by_function(grading.task["fail_to_pass"])
    reached = set().union(*(edit.reached for edit in edits))
    ids = [name for function, names in groups.items() if function in reached for name in names]
    more = [(next(iter(edit.reached)), edit.edit) for edit in edits]
    draw = controls.drawing(b"", "", "neutral helpers")
    grading.place(controls.Book(files, []).variant({}, draw, more))
    seen = grading.run(ids, "trial of helpers", seconds=5)
    if all(seen.outcomes.get(name) == "passed" for name in ids):
        for edit in edits:
            edit.ids = {name for function in edit.reached for name in groups[function]}
        return edits
    half = len(edits) // 2
    return [edit for part in (edits[:half], edits[half:]) if half
            for edit in _passing(grading, files, part, deadline)]  # fmt: skip


def helpers_of(
    files: dict[str, bytes], functions: list[controls.Function]
) -> list[tuple[list[Edit], list[controls.Function]]]:
    """Helpers that tests may come to: the edits of each, and all functions that may come to it."""
    reach = Reach(files)
    near: dict[int, Place] = {}
    edits: dict[int, list[Edit]] = {}
    reached: dict[int, list[controls.Function]] = {}
    said = b"\n".join(files.values())
    for function in functions:
        room = HELPERS
        for place in reach.of(function):
            key = id(place)
            if key not in edits:
                edits[key] = helper_edits(files[place.path], place.node, place.path, said)
            reached.setdefault(key, []).append(function)
            if edits[key] and room:
                near[key], room = place, room - 1
    return [(edits[key], reached[key]) for key in near]


def _failing(
    grading: Grading,
    variant: dict[str, bytes],
    ids: list[str],
    taken: dict[str, float],
    deadline: float,
) -> list[str]:
    """Those of the tests that fail with these files, and soon."""
    grading.place(variant)
    most = max(1.0, deadline - time.monotonic())
    seen = grading.run(ids, "trial of a helper", seconds=5, most=most)
    return [nodeid for nodeid in ids if seen.outcomes.get(nodeid) in ("failed", "error")
            and soon(seen, nodeid, taken)]  # fmt: skip
