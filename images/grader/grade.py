"""Grades what was done to the repository, inside the test image.

    1  judge the submission and make the repository base + its product part + the hidden tests
    2  run every listed test; one that does not pass ends it: unresolved
    3  in a drawn order: each fail-to-pass test alone in a process of its own, and all of them together,
       under other names; negative controls (hidden tests turned false) alone, together, and in a run
       of all tests, with every kind of false edit that a test has a place for
    4  compare what was seen; any disagreement is `tampered`

Everything runs below root as users of their own. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
from typing import Any, Callable, Tuple

import attempt
import cage
import controls
import supervise
import tree
import workers
from bytecode import Bytecode
from choices import Choices, Pick
from decoys import BEFORE_SECONDS, Decoys
from seen import Seen, joined, why_not
from submission import Refused, Submission

from race.core import patches

TASK = "/soma/task"
TOTAL_SECONDS = 1500.0
HUNG_SECONDS, HUNG_TIMES = 5.0, 10.0
"""Once a test has hung, the verdict stands: every other has at least so long, or so many times what it
took in the trial,"""
HUNG_RUN_SECONDS, HUNG_RUN_TIMES = 60.0, 5.0
"""and all of them together so long, or so many times what all took."""
MOST_ALONE = 12
CONTROLS_ALONE = 2
CONTROLS_TOGETHER = 4
HELPERS = 3
NOT_ALONE = (
    "%s passes among all tests, but is %s in a process of its own, where it passes with the reference "
    "fix: something else than the behaviour under test makes it pass"
)


def load(name: str) -> Any:
    """A JSON file of the task."""
    with open(os.path.join(TASK, name), encoding="utf-8", errors="surrogateescape") as stream:
        return json.load(stream)


def secret() -> bytes:
    """The release's secret that the choice of controls is drawn from."""
    with open(os.path.join(TASK, "secret"), "rb") as stream:
        return stream.read()


class Grading:
    """One grading, from the submission to the verdict."""

    def __init__(self, task: dict[str, Any], worker: workers.Worker) -> None:
        self.task, self.root, self.worker = task, task["root"], worker
        self.started = time.monotonic()
        self.base = tree.Base(TASK)
        self.hidden = {path: None if data is None else base64.b64decode(data)
                       for path, data in load("hidden.json").items()}  # fmt: skip
        tried = os.path.isfile(os.path.join(TASK, "trial.json"))
        self.trial: dict[str, Any] = load("trial.json") if tried else {}
        self.tolerated: list[str] | None = self.trial.get("tolerated")
        self.submitted = Submission()
        self.outcomes: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.checks: list[dict[str, Any]] = []
        self.doubts: list[str] = []
        self.pytest_seconds = 0.0
        self.nonce = os.urandom(16).hex()
        self.uids = cage.Uids()
        self.compile(self.trial.get("bytecode", {}))

    def compile(self, names: dict[str, bool]) -> None:
        """Have byte-code made of these files of the project; see `Bytecode`."""
        self.bytecode = Bytecode(self.worker, self.root, names, self.uids())

    def submission(self) -> None:
        """Find out what is graded. Raises Refused."""
        around = patches.Surroundings(list(self.base.files), list(self.hidden), set(load("taken.json")))
        self.submitted.read(self.base, self.root, around, self.uids())

    def place(self, variants: dict[str, bytes] | None = None) -> dict:
        """Make the repository what it has to be for a run; its manifest."""
        hidden = {**self.hidden, **(variants or {})}
        beside = self.bytecode
        wanted = tree.rebuild(self.base, self.root, self.submitted.product, hidden,
                              lambda wanted: beside.files(wanted, set(hidden)))  # fmt: skip
        cage.open_folders(self.root)
        return wanted

    def run(
        self,
        ids: list[str],
        purpose: str,
        seconds: float = 0.0,
        until: list[str] | None = None,
        most: float = 0.0,
        ordered: bool = False,
        tell_imports: bool = False,
    ) -> Seen:
        """Run tests under a fresh user; what was seen, and what does not add up."""
        task = self.task
        left = TOTAL_SECONDS - (time.monotonic() - self.started)
        plan = {
            "root": self.root,
            "python": task["python"],
            "ids": ids,
            "until": until or [],
            "ordered": ordered,
            "tell_imports": tell_imports,
            "traceback": "line",
            "environment": task["environment"],
            "arguments": task["arguments"],
            "test_seconds": min(seconds or task["test_seconds"], task["test_seconds"]),
            "run_seconds": most or max(5.0, min(task["run_seconds"], left)),
            **self._after_hang(ids),
            "output_bytes": 2**16,
            "memory_bytes": task["memory_bytes"],
            "processes": 512,
            "restarts": 50,
        }
        self.worker.wait()
        if not self.worker.ready:
            raise RuntimeError("the test interpreter does not start: " + self.worker.error[-500:])
        seen = Seen(ids, self.tolerated)
        run = supervise.Run(plan, seen.take, self.uids)
        how = run.go(self.worker)
        seen.close(run)
        spent = sum(attempt.seconds for attempt in run.attempts)
        self.pytest_seconds += spent
        passed = sum(outcome == "passed" for outcome in seen.outcomes.values())
        self.checks.append({"purpose": purpose, "tests": len(ids), "passed": passed, "how": how,
                            "seconds": round(spent, 3)})  # fmt: skip
        return seen

    def _after_hang(self, ids: list[str]) -> dict[str, Any]:
        """What a run is given once a test of it has hung, by what the trial took."""
        taken: dict[str, float] = self.trial.get("seconds", {})
        seconds = {name: max(HUNG_SECONDS, HUNG_TIMES * taken.get(name, 0.0)) for name in ids}
        whole = max(HUNG_RUN_SECONDS, HUNG_RUN_TIMES * sum(taken.values()))
        return {"hung_seconds": seconds, "hung_run_seconds": whole} if taken else {}

    def grade(self) -> None:
        """The whole grading. Raises Refused, with the verdict, unless everything holds."""
        task = self.task
        if cage.disk_room() < 2 * attempt.DISK_ROOM:
            raise RuntimeError("there is no room on the disk before any test has run")
        self.submission()
        checks = Checks(self)
        checks.before()
        wanted = self.place()
        listed = [*task["fail_to_pass"], *task["pass_to_pass"]]
        seen = self.run(listed, "all listed tests")
        self.outcomes, self.messages, self.seconds = seen.outcomes, seen.messages, seen.seconds
        self.doubts += seen.doubts
        missing = [name for name in listed if seen.outcomes.get(name) != "passed"]
        if missing:
            raise Refused("unresolved", *why_not(task, seen, missing), *seen.starved)
        if seen.cut:  # on a second try all passed, but nobody knows what the memory did to the first
            checks.starved += seen.starved
        if not (self.doubts or checks.doubts or checks.starved):
            checks.after()
        self.doubts += checks.doubts
        self.place()
        self.doubts += ["%s: this file was changed while the tests ran" % path
                        for path in tree.check(self.root, wanted)[:3]]  # fmt: skip
        if self.doubts:
            raise Refused("tampered", *joined(self.doubts, listed))
        if checks.starved:
            raise Refused("unresolved", *dict.fromkeys(checks.starved))

    def sources(self) -> dict[str, bytes]:
        """The files that hold listed tests, as they are with the hidden tests in place."""
        listed = [*self.task["fail_to_pass"], *self.task["pass_to_pass"]]
        return self.content({name.partition("::")[0] for name in listed})

    def content(self, paths: set[str]) -> dict[str, bytes]:
        """Files of the tests' side, as they are with the hidden tests in place; those that there are."""
        hidden = {path: data for path, data in self.hidden.items() if path in paths}
        known = {path for path in paths if path in self.base.files and path not in hidden}
        found = {**self.base.bytes_of(self.root, known), **hidden}
        return {path: data for path, data in sorted(found.items()) if data is not None}

    def beside(self, sources: dict[str, bytes]) -> dict[str, bytes]:
        """Other Python files of the tests' side that the tests may use: conftest, and what they name."""
        layout = patches.Layout(list(self.base.files))
        words = set(re.findall(rb"[^\W\d]\w*", b" ".join(sources.values())))
        paths = set()
        for path in {*self.base.files, *self.hidden}:
            name = path.rpartition("/")[2]
            used = name == "conftest.py" or (name.endswith(".py") and name[:-3].encode() in words)
            if used and path not in sources and not patches.is_product(path, layout, self.hidden):
                paths.add(path)
        return self.content(paths)

    def result(self, verdict: str, reasons: list[str]) -> dict[str, Any]:
        """What is reported."""
        return {
            "instance_id": self.task["instance_id"],
            "verdict": verdict,
            "reasons": reasons,
            "outcomes": self.outcomes,
            "messages": {name: text[:500] for name, text in self.messages.items()},
            "set_aside": self.submitted.set_aside,
            "checks": self.checks,
            "nonce": self.nonce,
            "pytest_seconds": round(self.pytest_seconds, 3),
            "seconds": round(time.monotonic() - self.started, 3),
        }

    def close(self) -> None:
        """End what still runs."""
        self.worker.close()
        for uid in self.uids.used:
            cage.end_all(uid)


Job = Tuple[Callable[[Any], None], Any]
"""A check and what it is of."""


class Checks:
    """What is looked at beside the run of all listed tests: tests alone, and controls."""

    def __init__(self, grading: Grading) -> None:
        self.grading, self.task, self.trial = grading, grading.task, grading.trial
        self.doubts: list[str] = []
        self.starved: list[str] = []
        self.draw = controls.drawing(secret(), grading.nonce, "checks")
        outer = [controls.HelperEdit.read(row) for row in self.trial.get("outer", ())]
        self.helpers = [helper for helper in outer if not helper.edit.neutral]
        sources = grading.content({helper.edit.path for helper in outer})
        self.book = controls.Book({**sources, **grading.sources()}, grading.task["fail_to_pass"])
        self.groups = self.book.groups
        self.choices = Choices(self.book, self.trial, outer, self.draw)
        kept = self.trial.get("not_renamed", ())
        self._keep_name = {(entry[0], tuple(entry[1:])) for entry in kept}
        self.decoys = Decoys(grading, self.book.files, self.draw, self.choices)
        self._jobs: list[Job] | None = None

    def before(self) -> None:
        """One to three decoys, so that no run can tell by its place whether it is the one.

        Runs may be able to count those before them, and the first is never the one that matters. Where
        the fail-to-pass tests run too late for a decoy, one or two of the checks go first instead; what
        they find counts once all listed tests have passed.
        """
        if self.decoys.possible():
            for _ in range(1 + self.draw.randrange(3)):
                self.decoy(BEFORE_SECONDS)
            return
        self._jobs = self._drawn_jobs()
        for _ in range(1 + self.draw.randrange(2)):
            if self._jobs:
                check, argument = self._jobs.pop()
                check(argument)

    def decoy(self, most: float) -> None:
        """A run that looks like the one of all tests; see `Decoys`."""
        self.doubts += self.decoys.run(most)

    def after(self) -> None:
        """Once all listed tests have passed: every check, in a drawn order, until one disagrees."""
        for check, argument in self._drawn_jobs() if self._jobs is None else self._jobs:
            if not self.doubts and not self.starved:
                check(argument)

    def _drawn_jobs(self) -> list[Job]:
        functions = list(self.groups)
        self.draw.shuffle(functions)
        jobs: list[Job] = [(self.alone, [f]) for f in functions[:MOST_ALONE]]
        jobs += [(self.controls, chosen) for chosen in self._rounds(functions)]
        jobs += [(self.controls, chosen) for chosen in self._helper_rounds(functions)]
        if len(functions) > 1 and self.trial.get("together"):
            jobs.append((self.alone, functions))
        if self.decoys.possible():
            jobs.append((self.decoy, 0.0))
        self.draw.shuffle(jobs)
        return jobs

    def _rounds(self, functions: list[controls.Function]) -> list[list[Pick]]:
        """What each run of controls turns false: some tests alone, then all, one way after the other."""
        ways = {function: self.choices.ways(function) for function in functions}
        alone = [[ways[function].pop()] for function in functions[:CONTROLS_ALONE] if ways[function]]
        longest = max((len(left) for left in ways.values()), default=0)
        together = []
        for _ in range(min(longest, CONTROLS_TOGETHER)):
            together.append([ways[function].pop() for function in functions if ways[function]])
        return alone + together

    def _helper_rounds(self, functions: list[controls.Function]) -> list[list[Pick]]:
        """The same with edits of helpers: each function that has one gets one."""
        rounds = controls.helper_rounds(functions, self.helpers, self.groups, self.draw, HELPERS)
        return [[(function, helper.edit, [name for name in self.groups[function] if name in helper.ids])
                 for function, helper in picks] for picks in rounds[:MOST_ALONE]]  # fmt: skip

    def _name(self, function: controls.Function, chosen: dict) -> str:
        renameable = function in self.book.edits and self.trial and function not in self._keep_name
        return self.book.new_name(function, self.draw, chosen) if renameable else ""

    def alone(self, functions: list[controls.Function]) -> None:
        """Fail-to-pass functions in a process of their own, under other names, must pass again."""
        left_out = self.trial.get("not_alone", ())
        asked: dict[str, str] = {}
        chosen: dict[controls.Function, tuple[Any, str]] = {}
        for function in functions:
            name = self._name(function, chosen)
            ids = [nodeid for nodeid in self.groups[function] if nodeid not in left_out]
            asked.update({controls.renamed(nodeid, name): nodeid for nodeid in ids})
            if function in self.book.edits:
                chosen[function] = (None, name)
        if not asked:
            return
        self._place(chosen)
        seen = self._run(asked, "alone" if len(functions) == 1 else "together")
        self.doubts += seen.doubts
        failing = any(seen.outcomes.get(name) != "passed" for name in asked)
        if seen.cut or (failing and seen.starved):
            self.starved += seen.starved
            return
        for name, nodeid in asked.items():
            outcome = seen.outcomes.get(name, "missing")
            if outcome != "passed":
                self.doubts.append(NOT_ALONE % (nodeid, outcome))

    def controls(self, picks: list[Pick]) -> None:
        """Hidden tests turned false, in one process: none may pass."""
        asked: dict[str, str] = {}
        chosen: dict[controls.Function, tuple[Any, str]] = {}
        for function, edit, ids in picks:
            name = self._name(function, chosen)
            chosen[function] = (edit, name)
            asked.update({controls.renamed(nodeid, name): nodeid for nodeid in ids})
        self._place(chosen)
        seen = self._run(asked, "negative controls", seconds=10, until=list(asked))
        for name, nodeid in asked.items():
            if seen.outcomes.get(name) == "passed":
                self.doubts.append(controls.STILL_PASSES % nodeid)

    def _place(self, chosen: dict[controls.Function, tuple[Any, str]]) -> None:
        true = self.choices.true({function: edit for function, (edit, _) in chosen.items()})
        self.grading.place(self.book.variant(chosen, self.draw, true))

    def _run(self, asked: dict[str, str], purpose: str, **how: Any) -> Seen:
        order = list(asked)
        self.draw.shuffle(order)
        ordered = all(name != nodeid for name, nodeid in asked.items())
        return self.grading.run(order, purpose, ordered=ordered, **how)


def grade(worker: workers.Worker, write: Callable[[dict, dict], None]) -> None:
    """Grade, and hand task and result to `write`: first a draft, last the verdict."""
    task = load("task.json")
    blank = {"verdict": "unresolved", "reasons": ["the grading did not finish"], "outcomes": {}}
    blank.update(messages={}, set_aside=[], checks=[], seconds=0, pytest_seconds=0, unfinished=True)
    write(task, {**blank, "instance_id": task["instance_id"]})
    cage.adopt_orphans()
    grading = Grading(task, worker)
    try:
        grading.grade()
        result = grading.result("resolved", [])
    except Refused as verdict:
        result = grading.result(verdict.verdict, verdict.reasons)
    except Exception as error:  # noqa: BLE001 - a report is left, and says that it is our fault
        result = grading.result("unresolved", ["the grader failed: %r" % error])
        result["accident"] = repr(error)
    finally:
        grading.close()
    write(task, result)
