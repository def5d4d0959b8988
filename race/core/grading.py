"""A grading's verdict, read from the report that the grader leaves in its container."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from race.core.patches import nothing_to_apply
from race.core.records import sha256

Verdict = Literal["resolved", "unresolved", "refused", "tampered"]
VERDICTS: tuple[Verdict, ...] = ("resolved", "unresolved", "refused", "tampered")


class GraderBroke(ValueError):
    """The grader says that it could not do its work; nothing is known about the submission."""


@dataclass(frozen=True)
class Check:
    """One run of tests within a grading: what for, how many tests, how many passed."""

    purpose: str
    tests: int
    passed: int
    how: str
    seconds: float


@dataclass(frozen=True)
class Graded:
    """One submission's verdict.

    `fail_to_pass` and `pass_to_pass` give each listed id's outcome as it was seen (`missing` when it
    was not run); `set_aside` are the paths of the patch that were not graded; `image` is the id of the
    image that it ran in; `pytest_seconds` what the test processes took of `seconds`.
    """

    instance_id: str
    verdict: Verdict
    reasons: tuple[str, ...]
    fail_to_pass: Mapping[str, str]
    pass_to_pass: Mapping[str, str]
    set_aside: tuple[str, ...] = ()
    image: str = ""
    patch: str = ""
    """SHA-256 of the submission: with `image` the key of this result."""
    seconds: float = 0.0
    pytest_seconds: float = 0.0
    checks: tuple[Check, ...] = field(default=())
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def resolved(self) -> bool:
        """Did the submission earn the point?"""
        return self.verdict == "resolved"

    def as_json(self) -> dict[str, Any]:
        """The answer of `race grade --json`."""
        return {
            "instance_id": self.instance_id,
            "resolved": self.resolved,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "fail_to_pass": dict(self.fail_to_pass),
            "pass_to_pass": dict(self.pass_to_pass),
            "set_aside": list(self.set_aside),
            "image": self.image,
            "patch": self.patch,
            "seconds": round(self.seconds, 3),
            "pytest_seconds": round(self.pytest_seconds, 3),
            "checks": [vars(check) for check in self.checks],
        }


def printable(text: str) -> str:
    """A text of the submission's own making, so that a terminal prints it and obeys nothing in it."""
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def soma_resolved(report: Mapping[str, Any], listed: Sequence[str]) -> bool:
    """What a SOMA validator makes of a report: every listed id passed."""
    passed = {
        test.get("nodeid")
        for test in report.get("tests", [])
        if isinstance(test, dict) and test.get("outcome") == "passed"
    }
    return bool(listed) and all(nodeid in passed for nodeid in listed)


def read_report(
    text: bytes,
    instance_id: str,
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    *,
    image: str,
    patch: bytes,
    seconds: float,
) -> Graded:
    """The verdict of a report. Raises GraderBroke when it has none.

    The report and its verdict must say the same: `resolved` and every listed id passed, or neither.
    """
    try:
        report = json.loads(text)
        said = report["race"]
        verdict = said["verdict"]
        outcomes = {str(k): str(v) for k, v in said["outcomes"].items()}
        checks = tuple(Check(**check) for check in said["checks"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GraderBroke(f"the report is not the grader's: {error!r}") from error
    if said.get("accident") or said.get("unfinished"):
        raise GraderBroke(str(said.get("accident") or "the grading was cut off"))
    if said.get("instance_id") != instance_id or verdict not in VERDICTS:
        raise GraderBroke(f"the report is about {said.get('instance_id')!r}, verdict {verdict!r}")
    if soma_resolved(report, [*fail_to_pass, *pass_to_pass]) != (verdict == "resolved"):
        raise GraderBroke("the report's tests and its verdict do not agree")
    return Graded(
        instance_id=instance_id,
        verdict=verdict,
        reasons=tuple(printable(str(reason)) for reason in said["reasons"]),
        fail_to_pass={name: outcomes.get(name, "missing") for name in fail_to_pass},
        pass_to_pass={name: outcomes.get(name, "missing") for name in pass_to_pass},
        set_aside=tuple(printable(str(path)) for path in said["set_aside"]),
        image=image,
        patch=sha256(patch),
        seconds=seconds,
        pytest_seconds=float(said["pytest_seconds"]),
        checks=checks,
        messages={str(k): printable(str(v)) for k, v in said["messages"].items()},
    )


def without_container(
    instance_id: str, patch: bytes, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str], image: str
) -> Graded | None:
    """The verdict on a submission that says nothing, or None when it has to be looked at."""
    why = nothing_to_apply(patch)
    if not why:
        return None
    return Graded(
        instance_id=instance_id,
        verdict="unresolved",
        reasons=(why,),
        fail_to_pass=dict.fromkeys(fail_to_pass, "missing"),
        pass_to_pass=dict.fromkeys(pass_to_pass, "missing"),
        image=image,
        patch=sha256(patch),
    )
