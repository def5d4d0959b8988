"""How tests failed in the matrix and in the repeats, in the form that is recorded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from race.core.classify import Sorted
from race.core.failure_text import ObservedFailure, normalise
from race.core.outcomes import Observation
from race.core.records import Finding
from race.core.test_ids import in_file
from race.core.wanting import FAILS_WITH_THE_FIX, NO_FAIL_TO_PASS, NOTHING_COLLECTED
from race.work.matrix_runs import MatrixRuns
from race.work.repeating import Repeated
from race.work.trials import observed_failure

UNCOLLECTABLE = 10


def failures_of(ran: MatrixRuns, repeated: Repeated | None) -> dict[str, list[ObservedFailure]]:
    """How every test failed without the fix, in the matrix and in the plain repeats."""
    found: dict[str, list[ObservedFailure]] = {}
    for seen in ran.cells["new-without"]:
        for test_id, test in seen.tests.items():
            if test.outcome != "passed":
                found.setdefault(test_id, []).append(observed_failure(test))
    gold = {test_id for seen in ran.cells["new-with"] for test_id in seen.tests}
    for seen in ran.cells["new-without"]:
        for test_id in gold - set(seen.tests):
            found.setdefault(test_id, []).append(_missing(seen, in_file(test_id)))
    if repeated is not None:
        for test_id, failures in repeated.failures.items():
            found.setdefault(test_id, []).extend(failures)
    return found


def _missing(seen: Observation, path: str) -> ObservedFailure:
    """Why a test was not there at all: its file, or the whole run, could not be imported."""
    lost = seen.uncollectable.get(path)
    message = lost.message if lost is not None else ""
    head, colon, rest = message.partition(": ")
    named = bool(colon) and head.replace(".", "").isidentifier()
    return ObservedFailure(
        outcome="missing",
        phase="collect",
        error_type=head if named else "",
        message=normalise(rest if named else message),
    )


def uncollectable(ran: MatrixRuns) -> list[Finding]:
    """Test files that cannot be collected though tests and fix are there: named, not blocking."""
    lost = {
        path: one.message
        for seen in ran.cells["new-with"]
        for path, one in sorted(seen.uncollectable.items())
        if not one.skipped
    }
    found = [
        Finding(rule="not-collected", severity="warning", place=path, message=normalise(message))
        for path, message in list(lost.items())[:UNCOLLECTABLE]
    ]
    if len(lost) > UNCOLLECTABLE:
        rest = f"{len(lost) - UNCOLLECTABLE} more test files cannot be collected"
        found.append(Finding(rule="not-collected", severity="warning", message=rest))
    return found


def explained(found: Sorted, ran: MatrixRuns, touched: Collection[str] = ()) -> Sorted:
    """The same with the reason, where no test could be collected or none passes only with the fix.

    `touched` are the test files of the change: one that cannot be collected is the reason.
    """
    gold = ran.cells["new-with"]
    if not gold:
        return found
    findings = tuple(_reasoned(finding, gold[0], touched) for finding in found.findings)
    return replace(found, findings=findings)


def _reasoned(finding: Finding, seen: Observation, touched: Collection[str]) -> Finding:
    if finding.rule == NOTHING_COLLECTED:
        place, why = _why_nothing(seen)
        return finding.model_copy(update={"place": place, "message": f"{finding.message}: {why}"})
    if finding.rule not in (FAILS_WITH_THE_FIX, NO_FAIL_TO_PASS):
        return finding
    for path in touched:
        lost = seen.uncollectable.get(path)
        if lost is not None:
            what = "skips itself" if lost.skipped else "cannot be collected"
            why = normalise(_last_line(lost.message))
            said = f"no test passes only with the fix: the file {what} with it: {why}"
            return Finding(rule="touched-not-collected", place=path, message=said)
    test = seen.tests.get(finding.place)
    if test is None or not (test.error or test.message):
        return finding
    why = ": ".join(filter(None, (test.error, normalise(_first_line(test.message)))))
    return finding.model_copy(update={"message": f"{finding.message}; this one by {why}"})


def _why_nothing(seen: Observation) -> tuple[str, str]:
    """The file that says why nothing could be collected, and what it says in a line."""
    for path, lost in sorted(seen.uncollectable.items(), key=lambda entry: entry[1].skipped):
        said = "skips itself: " if lost.skipped else ""
        return path, said + normalise(_last_line(lost.message))
    if seen.broke_off:
        return "", f"pytest broke off: {normalise(seen.broke_off)}"
    last = normalise(_last_line(seen.output))
    words = {
        "collection-failed": "the run died before it looked at a test file",
        "run-limit": "nothing was collected within the limit of a run",
        "memory-limit": "the run used more memory than its limit",
        "disk-limit": "the run left no room on the disk",
        "finished": "the files hold none",
        "crashed": "the process ended while it collected",
    }
    why = words.get(seen.ended, seen.ended)
    return "", f"{why}: {last}" if last and seen.ended in ("collection-failed", "crashed") else why


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _last_line(text: str) -> str:
    lines = [line.removeprefix("E  ").strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
