"""What one run of listed tests showed, and whether its parts agree. Standard library only."""

from __future__ import annotations

import os
import signal
from typing import Any

import supervise
from attempt import Attempt, how_it_died

CHANGED = (
    "the submission changed %s, which tests are run or judged by and the reference fix leaves alone"
)
WRITTEN = "something else than the grader's reporter wrote to the channel that outcomes are told on"
LOOK_MISSING = (
    "the grader's looks at the test runner, after collection and after the tests, were left out or saw "
    "less than there is: something keeps it from looking"
)


class Seen:
    """What one run showed, and where its parts disagree (`doubts`).

    `starved` says that there was not enough memory, whoever used it up; `cut`: it cut the run short.
    """

    def __init__(self, asked: list[str], tolerated: Any) -> None:
        self.asked = set(asked)
        self.altered: set[str] = set()
        self.imported: list[str] = []
        self.own: dict[str, bool] = {}
        self._tolerated = tolerated
        self.outcomes: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.doubts: list[str] = []
        self.starved: list[str] = []
        self.cut = False
        self.ending = ""
        self._said = ""
        self._open = ""
        self._collected: set[str] = set()

    def take(self, event: dict[str, Any]) -> None:
        """One event of the run, in order."""
        kind = event["event"]
        if kind == "start":
            self._open = event["id"]
        elif kind == "collected":
            self._collected.update(event["ids"])
        elif kind == "outcome":
            name = event["id"]
            if name not in self.asked or name not in self._collected:
                self.doubts.append("an outcome was told for a test that the grader had not asked for")
            elif name in self.outcomes:
                self.doubts.append("%s: two outcomes were told in one run" % name)
            elif self._open != name:
                self.doubts.append("%s: an outcome was told of it while it was not running" % name)
            self._open = ""
            self.outcomes.setdefault(name, event["outcome"])
            self.seconds[name] = float(event["seconds"])
            if event["outcome"] != "passed":
                self.outcomes[name] = event["outcome"]
                text = "%s: %s" % (event.get("error", ""), event.get("message", ""))
                self.messages[name] = text.strip(": ")
        elif kind == "integrity":
            self.altered |= {*event["what"], *event["hooks"]}
        elif kind == "imports":
            self.imported = [str(name) for name in event["names"]]
            self.own = {str(path): bool(rewritten) for path, rewritten in event["own"].items()}
        elif kind == "collect-error":
            for name in self.asked:
                if name.startswith(event["path"] + "::"):
                    self.messages.setdefault(name, event["message"])
        elif kind == "internal-error":
            self._said = event["message"]
        elif kind == "ended":
            self._said = self._said or _last_line(event["output"])

    def close(self, run: supervise.Run) -> None:
        """Compare events, counts and exit status of every process of the run."""
        lost = [name for name in self.asked if name not in self.outcomes]
        if run.how == "run-limit" and lost:
            self.ending = "the run was ended at its limit of time: %d tests were not run" % len(lost)
        elif self._said and len(lost) == len(self.asked):
            self.messages.update((name, self._said) for name in lost if name not in self.messages)
        if self._tolerated is not None:
            unexpected = sorted(self.altered - set(self._tolerated))
            self.doubts += [CHANGED % name for name in unexpected[:3]]
        for attempt in run.attempts:
            if attempt.garbled:
                self.doubts.append(WRITTEN)
            if attempt.reason == "memory-limit" or attempt.memory_kills:
                self.starved.append(_starved(attempt))
                self.cut = self.cut or not attempt.ended
            if not attempt.ended:
                if (
                    attempt.reason == "gone"
                    and attempt.place[0] == "between"
                    and not attempt.memory_kills
                ):
                    self.doubts.append(_left_early(attempt))
                continue
            if attempt.selected is not None and not _looked(attempt):
                self.doubts.append(LOOK_MISSING)
            if attempt.hurried:
                self.doubts.append(
                    "%s: was told to have passed before it had run to its end" % attempt.hurried[0]
                )
            said = attempt.reported
            passing = ("passed", "skipped", "xfailed", "xpassed")
            failed = any(self.outcomes.get(name) not in passing for name in attempt.done)
            odd = said not in (0, 1, 5) or (said == 0 and failed)
            if odd or (said == 1 and not failed and not attempt.collect_errors):
                self.doubts.append(
                    "pytest's exit status %s does not go with the outcomes that were told" % said
                )
            status = attempt.status
            if status is not None and os.WIFEXITED(status) and os.WEXITSTATUS(status) != said:
                self.doubts.append("the test process ended with another exit status than it had told")
            if attempt.selected is not None and attempt.selected != len(attempt.done):
                self.doubts.append(
                    "%d tests were to run, and outcomes of %d were told"
                    % (attempt.selected, len(attempt.done))
                )


def _last_line(output: str) -> str:
    """What a run that got no test started said last: an error's line, where there is one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[-1]


def _starved(attempt: Attempt) -> str:
    """Words for a run that did not get the memory that it asked for."""
    if attempt.reason == "memory-limit":
        return "the test process used more memory than its limit, and was ended"
    return ("the container's memory limit was reached while the tests ran: the kernel ended %d of their "
            "processes (its counter oom_kill rose)" % attempt.memory_kills)  # fmt: skip


def _left_early(attempt: Attempt) -> str:
    """Words for a process that was gone between two tests, or before the first, and had not said so."""
    how = how_it_died(attempt)
    text = "the test process %s between two tests, before it had said that its run was over" % how
    status = attempt.left
    if status is None or not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        return text + ": code of the submission did that"
    told = "whether the container ran out of memory cannot be read here"
    if attempt.memory_kills == 0:
        told = "the container did not run out of memory"
    return text + ": code of the submission did that, or something outside of the container; " + told


def _looked(attempt: Attempt) -> bool:
    """Was the runner looked at after collection and after the tests, and all of it?"""
    looks = attempt.looks
    return len(looks) == 2 and looks[0] == looks[1] and looks[0][:1] == attempt.watched[:1]


def why_not(task: dict[str, Any], seen: Seen, missing: list[str]) -> list[str]:
    """Reasons for `unresolved`, by list, first the tests that should pass now."""
    reasons = []
    for key, what in (("fail_to_pass", "still"), ("pass_to_pass", "now")):
        ids = [name for name in task[key] if name in set(missing)]
        for name in ids[:5]:
            outcome = seen.outcomes.get(name, "missing")
            text = seen.messages.get(name, "").split("\n")[0][:200]
            reasons.append("%s is %s %s%s" % (name, what, outcome, ": " + text if text else ""))
        if len(ids) > 5:
            reasons.append("and %d more of %s" % (len(ids) - 5, key))
    return [*reasons, seen.ending] if seen.ending else reasons


def joined(reasons: list[str], ids: list[str], most: int = 3) -> list[str]:
    """The reasons, once each; what is said of more than `most` tests is said of so many, and counted."""
    names = sorted(ids, key=len, reverse=True)
    said: dict[str, list[str]] = {}
    for reason in dict.fromkeys(reasons):
        name = next((name for name in names if reason.startswith((name + " ", name + ":"))), "")
        said.setdefault(reason[len(name) :] if name else reason, []).append(reason)
    found = []
    for alike in said.values():
        found += alike[:most]
        if len(alike) > most:
            found.append("and the same of %d more tests" % (len(alike) - most))
    return found
