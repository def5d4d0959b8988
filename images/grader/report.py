"""The report that a grading leaves: pytest-json-report's shape, and our verdict beside it.

A draft in which everything has failed is there before anything runs; the final one replaces it as
the last thing that happens. Standard library only.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

PLACE = "/tmp/report.json"


def report(task: dict[str, Any], graded: dict[str, Any]) -> dict[str, Any]:
    """The report of a grading. A test counts as passed only when the verdict lets it.

    With the verdicts `refused` and `tampered`, and when the grader itself failed, no test has passed,
    whatever was seen; nor when all were seen to pass, but a check of them had not the memory to end.
    """
    listed = [*task["fail_to_pass"], *task["pass_to_pass"]]
    all_passed = all(graded["outcomes"].get(nodeid) == "passed" for nodeid in listed)
    right = "resolved" if all_passed else "unresolved"
    valid = graded["verdict"] == right and not graded.get("accident")
    tests = []
    for nodeid in listed:
        seen = graded["outcomes"].get(nodeid, "missing")
        outcome = seen if valid else "failed"
        if outcome not in ("passed", "failed", "error", "skipped", "xfailed", "xpassed"):
            outcome = "failed"
        entry: dict[str, Any] = {"nodeid": nodeid, "lineno": 0, "outcome": outcome, "keywords": []}
        message = graded["messages"].get(nodeid, "")
        if outcome != "passed":
            why = message or "; ".join(graded["reasons"])[:500] or seen
            entry["call"] = {"duration": 0, "outcome": "failed", "crash": {"message": why}}
        tests.append(entry)
    passed = sum(entry["outcome"] == "passed" for entry in tests)
    return {
        "created": time.time(),
        "duration": graded["seconds"],
        "exitcode": 0 if graded["verdict"] == "resolved" else 1,
        "root": task["root"],
        "environment": {},
        "summary": {"passed": passed, "failed": len(tests) - passed, "total": len(tests)},
        "tests": tests,
        "race": graded,
    }


def write(value: dict[str, Any], place: str = PLACE) -> None:
    """Put a report in place whole, over whatever stands there."""
    folder = os.path.dirname(place)
    temporary = os.path.join(folder, ".report-%d" % os.getpid())
    if os.path.lexists(temporary):
        os.unlink(temporary)
    with open(temporary, "x", encoding="utf-8") as stream:
        json.dump(value, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(temporary, 0o644)
    os.replace(temporary, place)
