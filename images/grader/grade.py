"""Grades what was done to the repository, inside the test image.

    1  judge the submission and make the repository base + its product part + the hidden tests
    2  run every listed test; one that does not pass ends it: unresolved
    3  run the fail-to-pass tests alone, each in a process of its own
    4  run negative controls: the hidden tests with assertions turned false, which must not pass
    5  compare what was seen; any disagreement is `tampered`

Everything runs below root as users of their own; see launch.py and threats in the documentation.
Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any, Callable

import cage
import controls
import supervise
import tree
from race.core import patches

TASK = "/soma/task"
SUBMISSION = "/tmp/soma-agent.patch"
TOTAL_SECONDS = 1500.0
ALONE_GROUPS = 12
CONTROL_ROUNDS = 2
TRIAL_EDITS, TRIAL_SECONDS = 10, 60.0


class Verdict(Exception):
    """A verdict that ends the grading early."""

    def __init__(self, verdict: str, *reasons: str) -> None:
        super().__init__(verdict)
        self.verdict, self.reasons = verdict, list(reasons)


def load(name: str) -> Any:
    """A JSON file of the task."""
    with open(os.path.join(TASK, name), encoding="utf-8", errors="surrogateescape") as stream:
        return json.load(stream)


def hidden_files() -> dict[str, bytes | None]:
    """What the hidden tests put into the tree; None where they remove a file."""
    return {
        path: None if data is None else base64.b64decode(data)
        for path, data in load("hidden.json").items()
    }


class Grading:
    """One grading, from the submission to the verdict."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.root = task, task["root"]
        self.trial = load("trial.json") if os.path.isfile(os.path.join(TASK, "trial.json")) else {}
        self.base = tree.Base(TASK)
        self.hidden = hidden_files()
        self.product: dict[str, bytes | None] = {}
        self.set_aside: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.checks: list[dict[str, Any]] = []
        self.doubts: list[str] = []
        self.started = time.monotonic()
        self.pytest_seconds = 0.0
        self.nonce = os.urandom(16).hex()
        self._first_uid, self._uids = cage.fresh_uids(), 0
        self._worker: supervise.Worker | None = None

    def next_uid(self) -> int:
        """A user id that no earlier run of this grading had."""
        self._uids += 1
        return self._first_uid + self._uids

    # --- the submission

    def submission(self) -> None:
        """Find out what was submitted and what of it is graded. Raises Verdict."""
        around = patches.Surroundings(list(self.base.files), list(self.hidden), set(load("taken.json")))
        try:
            done = tree.difference(self.base, self.root)
        except tree.Mismatch as error:
            raise Verdict("refused", str(error)) from None
        if os.path.isfile(SUBMISSION) and not os.path.islink(SUBMISSION):
            with open(SUBMISSION, "rb") as stream:
                patch = patches.without_carriage_returns(stream.read())
            self._from_patch(patch, around, done)
        elif done:
            self._from_tree(around, done)

    def _take(self, judgement: patches.Judgement) -> None:
        self.set_aside = list(judgement.set_aside)
        if judgement.verdict:
            raise Verdict(judgement.verdict, *judgement.reasons)

    def _from_patch(
        self, patch: bytes, around: patches.Surroundings, done: dict[str, bytes | None]
    ) -> None:
        judgement = patches.judge(patch, around)
        self._take(judgement)
        touched = [path for change in patches.read_patch(judgement.graded) for path in change.paths]
        try:
            made = tree.apply_exactly(self.base, self.root, judgement.graded, touched, self.next_uid())
        except tree.Mismatch as error:
            raise Verdict(
                "refused", "the patch does not apply exactly to the base: %s" % error
            ) from None
        made.update({path: None for path in judgement.gone})
        known = set(judgement.product)
        extra = sorted(path for path in made if path not in known and path not in judgement.set_aside)
        if extra:
            raise Verdict("refused", "%s: changed by the patch, but not named by it" % extra[0])
        self.product = {path: data for path, data in made.items() if path in known}
        layout = patches.Layout(around.tree)
        applied = {
            path: data for path, data in done.items() if patches.is_product(path, layout, around.hidden)
        }
        if applied and applied != self.product:
            odd = sorted(
                path for path in {**applied, **self.product}
                if applied.get(path, b"?") != self.product.get(path, b"?")
            )  # fmt: skip
            raise Verdict(
                "refused", "%s: the tree is not what the patch makes of the base exactly" % odd[0]
            )

    def _from_tree(self, around: patches.Surroundings, done: dict[str, bytes | None]) -> None:
        changes = [
            patches.Change(
                path if path in self.base.files else "", path if data is not None else "", (), False, b""
            )
            for path, data in done.items()
        ]
        judgement = patches.judge_changes(changes, around)
        self.set_aside = list(judgement.set_aside)
        if judgement.verdict == "refused":
            raise Verdict("refused", *judgement.reasons)
        self.product = {path: done[path] for path in judgement.product}

    def place(self, changed_tests: dict[str, bytes] | None = None) -> dict:
        """Make the repository what it has to be for a run."""
        wanted = tree.rebuild(
            self.base, self.root, self.product, {**self.hidden, **(changed_tests or {})}
        )
        cage.open_folders(self.root)
        return wanted

    # --- runs

    def run(self, ids: list[str], purpose: str, seconds: float | None = None) -> Seen:
        """Run tests under a fresh user; what was seen, and what does not add up."""
        task = self.task
        left = TOTAL_SECONDS - (time.monotonic() - self.started)
        plan = {
            "root": self.root,
            "python": task["python"],
            "ids": ids,
            "environment": task["environment"],
            "arguments": task["arguments"],
            "test_seconds": min(seconds or task["test_seconds"], task["test_seconds"]),
            "run_seconds": max(5.0, min(task["run_seconds"], left)),
            "output_bytes": 2**16,
            "memory_bytes": task["memory_bytes"],
            "processes": 512,
            "restarts": 50,
        }
        if self._worker is None:
            self._worker = supervise.Worker(plan["python"], {})
            if not self._worker.ready:
                raise RuntimeError("the test interpreter does not start: " + self._worker.error[-500:])
        seen = Seen(ids)
        run = supervise.Run(plan, seen.take, self.next_uid)
        how = run.go(self._worker)
        spent = sum(attempt.seconds for attempt in run.attempts)
        self.pytest_seconds += spent
        seen.close(run, how)
        self.checks.append(
            {"purpose": purpose, "tests": len(ids), "seconds": round(spent, 3), "how": how,
             "passed": sum(outcome == "passed" for outcome in seen.outcomes.values())}
        )  # fmt: skip
        return seen

    def grade(self) -> None:
        """The whole grading. Raises Verdict unless everything holds."""
        task = self.task
        listed = [*task["fail_to_pass"], *task["pass_to_pass"]]
        self.submission()
        wanted = self.place()
        seen = self.run(listed, "all listed tests")
        self.outcomes, self.messages = seen.outcomes, seen.messages
        self.doubts += seen.doubts
        missing = [name for name in listed if seen.outcomes.get(name) != "passed"]
        if missing:
            raise Verdict("unresolved", *_why_not(task, seen, missing))
        self._alone()
        self._controls()
        self.place()
        changed = tree.check(self.root, wanted)
        if changed:
            self.doubts.append("%s: changed while the tests ran" % changed[0])
        if self.doubts:
            raise Verdict("tampered", *dict.fromkeys(self.doubts))

    def _alone(self) -> None:
        """Each fail-to-pass function in a process of its own, in a drawn order."""
        draw = controls.drawing(secret(), self.nonce, "alone")
        groups: dict[tuple, list[str]] = {}
        for nodeid in self.task["fail_to_pass"]:
            if nodeid not in self.trial.get("not_alone", ()):
                groups.setdefault(controls.function_of(nodeid), []).append(nodeid)
        order = list(groups.values())
        draw.shuffle(order)
        for ids in order[:ALONE_GROUPS]:
            draw.shuffle(ids)
            seen = self.run(ids, "alone")
            self.doubts += seen.doubts
            for name in ids:
                if seen.outcomes.get(name) != "passed":
                    self.doubts.append(
                        "%s passes among the others, but alone it is %s"
                        % (name, seen.outcomes.get(name, "missing"))
                    )

    def _controls(self) -> None:
        """Hidden tests with an assertion turned false: none may pass."""
        draw = controls.drawing(secret(), self.nonce, "controls")
        files = {path: data for path, data in self.sources().items()}
        found = controls.candidates(files, self.task["fail_to_pass"])
        for _ in range(CONTROL_ROUNDS):
            edited, ids = self._draw_round(draw, files, found)
            if not ids:
                return
            self.place(edited)
            seen = self.run(ids, "negative controls", seconds=10)
            for name in ids:
                if seen.outcomes.get(name) == "passed":
                    self.doubts.append("a negative control in place of %s passes" % name)

    def sources(self) -> dict[str, bytes]:
        """The files that hold listed tests, as they are with the hidden tests in place."""
        found: dict[str, bytes] = {}
        listed = [*self.task["fail_to_pass"], *self.task["pass_to_pass"]]
        for path in {name.partition("::")[0] for name in listed}:
            data = self.hidden.get(path)
            if data is None and path in self.base.files:
                data = self.base.bytes_of(self.root, {path}).get(path)
            if data is not None:
                found[path] = data
        return found

    def _draw_round(self, draw: Any, files: dict, found: dict) -> tuple[dict[str, bytes], list[str]]:
        """One edit for each function, made; the edited files and the ids that must fail in them."""
        trials = self.trial.get("edits")
        by_function: dict[tuple, list[str]] = {}
        for nodeid in found:
            by_function.setdefault(controls.function_of(nodeid), []).append(nodeid)
        picked: dict[str, list] = {}
        ids: list[str] = []
        for (path, _), members in sorted(by_function.items()):
            usable = []
            for number, edit in found[members[0]]:
                failing = [
                    name for name in members
                    if (edit.trust == controls.SAFE if trials is None else number in trials.get(name, ()))
                ]  # fmt: skip
                if failing:
                    usable.append((edit, failing))
            if not usable:
                continue
            kinds = sorted({edit.kind for edit, _ in usable})
            kind = draw.choice(kinds)
            edit, failing = draw.choice([pair for pair in usable if pair[0].kind == kind])
            picked.setdefault(path, []).append(edit)
            ids.extend(failing)
        edited = {}
        for path, edits in picked.items():
            source = files[path]
            for edit in sorted(edits, key=lambda entry: -entry.start):
                source = edit.apply(source, draw)
            edited[path] = source
        return edited, ids

    def result(self, verdict: str, reasons: list[str]) -> dict[str, Any]:
        """What is reported."""
        return {
            "instance_id": self.task["instance_id"],
            "verdict": verdict,
            "reasons": reasons,
            "outcomes": self.outcomes,
            "messages": {name: text[:500] for name, text in self.messages.items()},
            "set_aside": self.set_aside,
            "checks": self.checks,
            "nonce": self.nonce,
            "pytest_seconds": round(self.pytest_seconds, 3),
            "seconds": round(time.monotonic() - self.started, 3),
        }

    def close(self) -> None:
        """End what still runs."""
        if self._worker is not None:
            self._worker.close()
        for number in range(self._uids + 1):
            cage.end_all(self._first_uid + number)


class Seen:
    """What one run showed, and where its parts disagree."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = set(asked)
        self.outcomes: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.doubts: list[str] = []
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
                self.doubts.append("an outcome came for a test that was not asked for")
            elif name in self.outcomes:
                self.doubts.append("%s: two outcomes in one run" % name)
            elif self._open != name:
                self.doubts.append("%s: an outcome without a start" % name)
            self._open = ""
            self.outcomes.setdefault(name, event["outcome"])
            if event["outcome"] != "passed":
                self.outcomes[name] = event["outcome"]
                text = "%s: %s" % (event.get("error", ""), event.get("message", ""))
                self.messages[name] = text.strip(": ")
        elif kind == "integrity":
            self.doubts.append("the test runner was changed while it ran: %s" % event["what"])
        elif kind == "collect-error":
            for name in self.asked:
                if name.startswith(event["path"] + "::"):
                    self.messages.setdefault(name, event["message"])

    def close(self, run: supervise.Run, how: str) -> None:
        """Compare events, counts and exit status of every process of the run."""
        for attempt in run.attempts:
            if attempt.garbled:
                self.doubts.append("something else wrote to the grader's channel")
            if not attempt.ended:
                continue
            failed = any(self.outcomes.get(name) not in ("passed", "skipped", "xfailed", "xpassed")
                         for name in attempt.done)  # fmt: skip
            if attempt.reported not in (0, 1, 5) or (attempt.reported == 0 and failed):
                self.doubts.append("the exit status %s does not go with the outcomes" % attempt.reported)
            if attempt.reported == 1 and not failed and not attempt.collect_errors:
                self.doubts.append("the exit status 1 does not go with the outcomes")
            if attempt.status is not None and os.WIFEXITED(attempt.status):
                if os.WEXITSTATUS(attempt.status) != attempt.reported:
                    self.doubts.append("the process ended otherwise than it said")
            if attempt.selected is not None and attempt.selected != len(attempt.done):
                self.doubts.append(
                    "%d tests were begun, %d ended" % (attempt.selected, len(attempt.done))
                )


def _why_not(task: dict[str, Any], seen: Seen, missing: list[str]) -> list[str]:
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
    return reasons


def try_out() -> dict[str, Any]:
    """With the reference fix as the submission: which tests pass alone, and which edits make them fail.

    Run once while the image is built; what it finds is what gradings may rely on. Empty when the
    reference fix itself is not resolved, which the release check then says.
    """
    cage.adopt_orphans()
    grading = Grading(load("task.json"))
    task, began = grading.task, time.monotonic()
    try:
        grading.submission()
        grading.place()
        listed = [*task["fail_to_pass"], *task["pass_to_pass"]]
        seen = grading.run(listed, "all listed tests")
        if any(seen.outcomes.get(name) != "passed" for name in listed) or seen.doubts:
            return {"reference": seen.outcomes, "doubts": seen.doubts}
        not_alone = []
        groups: dict[tuple, list[str]] = {}
        for name in task["fail_to_pass"]:
            groups.setdefault(controls.function_of(name), []).append(name)
        for ids in groups.values():
            alone = grading.run(ids, "alone")
            not_alone += [name for name in ids if alone.outcomes.get(name) != "passed"]
        files = grading.sources()
        found = controls.candidates(files, task["fail_to_pass"])
        draw = controls.drawing(b"", "", "trial")
        edits: dict[str, list[int]] = {}
        for number in range(max((len(entry) for entry in found.values()), default=0)):
            if number >= TRIAL_EDITS or time.monotonic() - began > TRIAL_SECONDS:
                break
            ids, chosen = [], {}
            for name, entry in found.items():
                if number < len(entry):
                    ids.append(name)
                    path, names = controls.function_of(name)
                    chosen[path, names] = entry[number]
            edited = dict(files)
            for (path, _), (_, edit) in sorted(chosen.items(), key=lambda pair: -pair[1][1].start):
                edited[path] = edit.apply(edited[path], draw)
            changed = {path for path, _ in chosen}
            grading.place({path: edited[path] for path in changed})
            seen = grading.run(ids, "trial", seconds=5)
            for name in ids:
                if seen.outcomes.get(name) in ("failed", "error"):
                    edits.setdefault(name, []).append(found[name][number][0])
        return {"not_alone": not_alone, "edits": edits}
    except Verdict as verdict:
        return {"reference": verdict.verdict, "doubts": verdict.reasons}
    finally:
        grading.close()


def secret() -> bytes:
    """The release's secret that the choice of controls is drawn from."""
    with open(os.path.join(TASK, "secret"), "rb") as stream:
        return stream.read()


def grade(write: Callable[[dict, dict], None]) -> None:
    """Grade, and hand task and result to `write`: first a draft, last the verdict."""
    task = load("task.json")
    blank = {"verdict": "unresolved", "reasons": ["the grading did not finish"], "outcomes": {},
             "messages": {}, "set_aside": [], "checks": [], "seconds": 0, "pytest_seconds": 0}  # fmt: skip
    write(task, {**blank, "instance_id": task["instance_id"], "unfinished": True})
    cage.adopt_orphans()
    grading = Grading(task)
    try:
        grading.grade()
        result = grading.result("resolved", [])
    except Verdict as verdict:
        result = grading.result(verdict.verdict, verdict.reasons)
    except Exception as error:  # noqa: BLE001 - a report is left, and says that it is our fault
        result = grading.result("unresolved", ["the grader failed: %r" % error])
        result["accident"] = repr(error)
    finally:
        grading.close()
    write(task, result)
