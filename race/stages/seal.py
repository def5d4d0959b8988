"""`race seal`: build the images that ship and prove that they give nothing away."""

from __future__ import annotations

import time

from race.core import leaks
from race.core.leaks.probes import counts
from race.core.sealed import Sealed
from race.core.verified import Verified
from race.errors import Malformed
from race.stages._loop import stage_command
from race.store import Store, TaskFolder
from race.work.sealing import (
    audit_env,
    audit_test,
    build_images,
    contract,
    leak_findings,
    materials,
    recipe_findings,
)
from race.work.stage import Desk, Stage
from race.work.test_image import RUN_TESTS
from race.workbench import Workbench


def inputs(task: TaskFolder, store: Store) -> dict[str, str]:
    """The mined change, the validated environment and lists, the grader that is put in, the audit."""
    read = {
        "mine": task.record_digest("mine"),
        "validate": task.record_digest("validate"),
        "settings": store.settings.slice_digest("seal"),
        "audit": leaks.METHOD,
    }
    try:
        env, test = materials(task, store).recipes
    except Malformed:
        return read
    return read | {"env": env.recipe, "test": test.recipe}


def made(task: TaskFolder, store: Store, bench: Workbench) -> bool:
    """Whether this engine has both images by the recorded recipes, or as the check corrected them."""
    record = task.read(Sealed)
    if record is None or record.env_image is None or record.test_image is None:
        return False
    checked = task.read(Verified)
    corrected = checked.test_image.recipe if checked and checked.test_image else ""
    for wanted in (record.env_image, record.test_image):
        image = bench.engine.image(wanted.ref)
        if image is None or image.labels.get("race.recipe") not in (wanted.recipe, corrected):
            return False
    return True


def work(desk: Desk) -> Sealed:
    """Build both images and run every probe on them; a leak or a broken contract rejects the task."""
    started = time.monotonic()
    task, store, bench = desk.task, desk.store, desk.bench
    ready = materials(task, store)
    ready, env, test = build_images(bench, ready, desk.say)
    desk.say("probing for leaks")
    env_audit = audit_env(bench, ready, env, desk.say)
    test_audit = audit_test(bench, ready, test, desk.say)
    live = store.settings.seal.live_network
    findings = [
        *contract(bench.engine, env),
        *leak_findings(env_audit.probes, "agent's image", live=live),
        *leak_findings(test_audit.probes, "grading image", live=False),
    ]
    desk.note(
        env_id=env.id,
        test_id=test.id,
        env_size=env.size,
        test_size=test.size,
        env_layers=list(env.layers),
        test_layers=list(test.layers),
        audit_seconds=round(env_audit.seconds + test_audit.seconds, 2),
        seconds=round(time.monotonic() - started, 1),
    )
    env_recipe, test_recipe = ready.recipes
    return Sealed(
        instance_id=task.id,
        accepted=not findings,
        findings=(*findings, *recipe_findings(ready)),
        env_image=env_recipe,
        test_image=test_recipe,
        run_tests=RUN_TESTS,
        test_command=ready.test_image.test_command,
        fragments=counts(ready.wanted),
        probes=env_audit.probes,
        test_probes=test_audit.probes,
        not_checked=tuple(
            dict.fromkeys(
                [*env_audit.not_checked, *(f"grading image: {why}" for why in test_audit.not_checked)]
            )
        ),
    )


STAGE = Stage("seal", Sealed, inputs, work, made, engine=True)
command = stage_command(
    STAGE,
    "Build each task's images - the agent's and the one it is graded in - and probe both for leaks of "
    "the fix or the hidden tests: every layer, git objects, byte-code, archives, times, network.",
    ("race seal tasks/sample -j 2", "race seal tasks/2026-q1 agronholm__anyio-1145 --force -v"),
)
