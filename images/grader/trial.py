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
import supervise
from grade import Grading, load
from seen import Seen
from submission import Refused

EDITS, NEUTRAL, SECONDS = 8, 3, 60.0
"""At most so many false and neutral edits of each test are tried, and for so long in all."""


def try_out(worker: supervise.Worker) -> dict[str, Any]:
    """What was found: `not_alone`, `not_renamed` (functions), `false`, `neutral` (id -> edit numbers),
    `preload` (modules that the worker imports before any run), `bytecode` (files of the project that are
    compiled before any run, with whether pytest rewrites them), `together` (do renamed ones pass in
    one process), `seconds` (what each test took, in the order of the run), `tolerated` (what the
    project itself changes about the runner).

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
    found["false"] = _try_edits(grading, book, False, EDITS, deadline, ("failed", "error"))
    found["neutral"] = _try_edits(grading, book, True, NEUTRAL, deadline, ("passed",))
    return found


def _try_preload(grading: Grading, listed: list[str], seen: Seen) -> tuple[list[str], Seen]:
    """What the worker may import before any run: all that the tests do, when they pass then as well."""
    task = grading.task
    with tempfile.NamedTemporaryFile("w", suffix=".json") as stream:
        json.dump({"preload": seen.imported}, stream)
        stream.flush()
        grading.worker.close()
        grading.worker = supervise.Worker(task["python"], task["environment"], stream.name)
        grading.worker.wait()
    if grading.worker.ready:
        grading.place()
        again = grading.run(listed, "all listed tests")
        if not again.doubts and all(again.outcomes.get(name) == "passed" for name in again.asked):
            return seen.imported, again
    grading.worker.close()
    grading.worker = supervise.Worker(task["python"], task["environment"])
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
    wanted: tuple[str, ...],
) -> dict[str, list[int]]:
    """In each round one edit of every function, all in one process; which did what it is for."""
    draw = controls.drawing(b"", "", "edits")
    groups = controls.by_function(grading.task["fail_to_pass"])
    rows = {function: book.numbered(function, neutral)[:most] for function in book.edits}
    good: dict[str, list[int]] = {}
    for place in range(max((len(row) for row in rows.values()), default=0)):
        if time.monotonic() > deadline:
            break
        chosen = {function: row[place] for function, row in rows.items() if place < len(row)}
        grading.place(book.variant({f: (edit, "") for f, (_, edit) in chosen.items()}, draw))
        ids = [nodeid for function in chosen for nodeid in groups[function]]
        seen = grading.run(ids, "trial", seconds=5)
        for function, (number, _) in chosen.items():
            for nodeid in groups[function]:
                if seen.outcomes.get(nodeid) in wanted:
                    good.setdefault(nodeid, []).append(number)
    return good
