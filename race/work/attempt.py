"""One attempt of an agent at a sealed task, under the protocol.

The agent's loop runs here, its commands in a container of the shipped environment image without
network. At the end, or at a limit, the work is taken as it stands and graded in the test image. The
attempt is a row of runs.jsonl; submission and trajectory are kept in the ledger.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from race.core import prompts
from race.core.attempts import ACCIDENT, Attempt
from race.core.records import Mined, canonical, digest, sha256
from race.core.scripted import PREFIX, SKILLS, script
from race.core.sealed import ImageRecipe, Sealed
from race.core.specified import Specified
from race.errors import Accident, Malformed, Missing, UsageError
from race.ports import AgentLimits, AgentRun, ContainerSpec, Limits
from race.store import Store, TaskFolder
from race.work.grading import grade
from race.work.listed import listed_tests
from race.work.run_log import RunLog
from race.work.submission import Submission, take_submission
from race.workbench import Workbench

Say = Callable[[str], None]
NAMES = b"127.0.0.1\tlocalhost\n"
"""A container without a network knows no name of its own; the grader gives the tests this one, too."""
_SCRIPTED_ATTEMPTS = 3


@dataclass(frozen=True)
class Given:
    """A task as an agent gets it, and what is needed to grade it.

    `digest` changes with anything that could change a run: statement, images, limits, prompts.
    """

    task: TaskFolder
    statement: str
    fix: bytes
    env: ImageRecipe
    test: ImageRecipe
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    digest: str


def given(store: Store, task: TaskFolder) -> Given:
    """A sealed task. Raises UsageError when it is not sealed, Malformed when its folder is broken."""
    mined, specified = task.read(Mined), task.read(Specified)
    sealed = task.read(Sealed)
    if sealed is None or not sealed.accepted or specified is None or mined is None:
        raise UsageError(f"{task.id} is not sealed; run `race seal` first")
    if not sealed.env_image or not sealed.test_image or not specified.statement or not mined.fix_patch:
        raise Malformed(task.path / "seal.json", "", "an accepted task without images or statement")
    fix = task.read_file(mined.fix_patch)
    listed = listed_tests(task)
    return Given(
        task=task,
        statement=task.read_file(specified.statement).decode(),
        fix=fix,
        env=sealed.env_image,
        test=sealed.test_image,
        fail_to_pass=tuple(listed.fail_to_pass),
        pass_to_pass=tuple(listed.pass_to_pass),
        digest=digest(protocol(store, task, fix)),
    )


def protocol(store: Store, task: TaskFolder, fix: bytes) -> dict[str, str]:
    """Digests of all that an attempt depends on, besides its agent."""
    tier = store.settings.tier
    limits = [tier.max_steps, tier.command_seconds, tier.run_seconds]
    texts = [prompts.SYSTEM, prompts.TASK, prompts.OBSERVATION, prompts.BAD_CALL]
    parts = {
        "specify": task.record_digest("specify"),
        "seal": task.record_digest("seal"),
        "protocol": digest([*limits, *texts]),
    }
    if store.settings.release.sample:
        turns = range(1, _SCRIPTED_ATTEMPTS + 1)
        scripts = {name: [script(name, fix, task.id, turn) for turn in turns] for name in SKILLS}
        parts["scripts"] = digest(scripts)
    return parts


def attempt(
    bench: Workbench,
    store: Store,
    what: Given,
    agent: str,
    model: str,
    number: int,
    say: Say,
    *,
    fresh: bool = False,
) -> Attempt:
    """Make one attempt, grade it and keep it; its row.

    The agent's work is kept before it is graded: when grading meets an accident, or we are killed,
    the next call grades the same work, unless it is asked for a `fresh` attempt. An accident leaves a
    row that says so and counts as nothing, and goes up. Raises UsageError for a scripted agent
    outside a sample release.
    """
    if agent.startswith(PREFIX) and not store.settings.release.sample:
        raise UsageError(f"{agent} knows the fix; scripted agents work on sample releases only")
    head = {
        "instance_id": what.task.id,
        "agent": agent,
        "model": model,
        "attempt": number,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "task": what.digest,
        "scripted": agent.startswith(PREFIX),
        "sample": store.settings.release.sample,
    }
    log = RunLog(store)
    keep = _Kept(what.task, what.digest, agent, model, number)
    try:
        image = _image(bench, what, what.env)
        _image(bench, what, what.test)
        work = None if fresh else keep.read()
        if work is None:
            say(f"{agent} {model}, attempt {number}")
            work = keep.write(*_solve(bench, store, what, agent, model, number))
        facts, patch = work
        say(f"{agent} {model}, attempt {number}: grading")
        graded = grade(
            bench.engine,
            what.test.ref,
            patch,
            instance_id=what.task.id,
            fail_to_pass=what.fail_to_pass,
            pass_to_pass=what.pass_to_pass,
        )
    except Accident as error:
        lost = {"resolved": False, "ended": ACCIDENT, "note": str(error)[:300]}
        log.add(Attempt.model_validate(head | lost))
        raise
    judged = {"resolved": graded.resolved, "verdict": graded.verdict, "image": image}
    row = Attempt.model_validate(head | facts | judged)
    log.add(row)
    return row


class _Kept:
    """An agent's work in the ledger: patch, trajectory, and last the facts that make it whole."""

    def __init__(self, task: TaskFolder, given: str, agent: str, model: str, number: int) -> None:
        self._task, self._given = task, given
        self._name = f"runs/{agent.replace('/', '-')}/{model.replace('/', '-')}/{number}"

    def read(self) -> tuple[dict[str, Any], bytes] | None:
        """Work on the same task that was kept whole, or None."""
        try:
            kept = json.loads(self._task.evidence_path(f"{self._name}.facts.json").read_bytes())
            patch = self._task.evidence_path(f"{self._name}.patch").read_bytes()
        except (FileNotFoundError, ValueError):
            return None
        if not isinstance(kept, dict) or kept.pop("task", "") != self._given:
            return None
        return (kept, patch) if kept.get("patch_sha256") == sha256(patch) else None

    def write(
        self, run: AgentRun, submission: Submission, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Keep work; the fields of its row that it decides, and its patch."""
        facts = {
            "input_tokens": run.input_tokens,
            "cached_input_tokens": run.cached_input_tokens,
            "output_tokens": run.output_tokens,
            "cost_usd": run.cost_usd,
            "steps": run.steps,
            "seconds": round(seconds, 3),
            "ended": run.ended,
            "note": "; ".join(part for part in (run.note, submission.note) if part),
            "patch_sha256": sha256(submission.patch),
        }
        self._task.evidence(f"{self._name}.patch", submission.patch)
        self._task.evidence(f"{self._name}.trajectory.json", run.trajectory)
        self._task.evidence(f"{self._name}.facts.json", canonical(facts | {"task": self._given}))
        return facts, submission.patch


def _image(bench: Workbench, what: Given, recipe: ImageRecipe) -> str:
    """The id of a shipped image. Missing when this engine has none made by the same recipe."""
    image = bench.engine.image(recipe.ref)
    if image is None or image.labels.get("race.recipe") != recipe.recipe:
        release = what.task.path.parent
        raise Missing(
            f"image {recipe.ref} is not here as sealed; run `race seal {release} {what.task.id}`"
        )
    return image.id


def _solve(
    bench: Workbench, store: Store, what: Given, agent: str, model: str, number: int
) -> tuple[AgentRun, Submission, float]:
    """The agent's work in a container of the environment image, what it left, and its seconds."""
    tier, box = store.settings.tier, store.settings.validate_
    spec = ContainerSpec(
        image=what.env.ref,
        workdir=what.env.workdir,
        limits=Limits(memory_mb=box.memory_mb, cpus=box.cpus, pids=box.pids),
        lifetime=tier.run_seconds + tier.command_seconds + 900,
    )
    limits = AgentLimits(tier.max_steps, tier.command_seconds, tier.run_seconds)
    commands = script(agent, what.fix, what.task.id, number) if agent.startswith(PREFIX) else None
    with bench.engine.container(spec) as container:
        container.put("/", {"etc/hosts": NAMES})
        clock = time.monotonic()
        run = bench.agent(model, commands).solve(container, what.statement, limits)
        seconds = time.monotonic() - clock
        return run, take_submission(bench.engine, container, spec), seconds
