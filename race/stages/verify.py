"""`race verify`: the release check, and the release's manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from race.core.verified import Verified
from race.errors import Malformed
from race.options import print_json
from race.stages._loop import stage_command
from race.store import Store, TaskFolder
from race.work.manifests import check_manifest, write_manifest
from race.work.sealing import materials
from race.work.stage import Desk, Stage
from race.work.verifying import verify_task
from race.workbench import Workbench


def inputs(task: TaskFolder, store: Store) -> dict[str, str]:
    """The records that the images and the lists come from, the recipes, and how often to grade."""
    read = {name: task.record_digest(name) for name in ("mine", "validate", "specify", "seal")}
    read["settings"] = store.settings.slice_digest("verify", "seal")
    try:
        env, test = materials(task, store).recipes
    except Malformed:
        return read
    return read | {"env": env.recipe, "test": test.recipe}


def made(task: TaskFolder, store: Store, bench: Workbench) -> bool:
    """Whether the images that were checked on this machine are still the ones that would ship."""
    record, noted = task.read(Verified), task.noted("verify")
    if record is None or record.env_image is None or record.test_image is None:
        return False
    for wanted, known in ((record.env_image, "env_id"), (record.test_image, "test_id")):
        image = bench.engine.image(wanted.ref)
        if image is None or image.id != noted.get(known):
            return False
    return True


def work(desk: Desk) -> Verified:
    """Check one task from its release folder."""
    return verify_task(desk)


STAGE = Stage("verify", Verified, inputs, work, made)
command = stage_command(
    STAGE,
    "Rebuild each task from its release folder alone and grade it three times with the reference fix "
    "(must score 1) and three times with nothing (must score 0); correct or exclude what does not "
    "hold, and write the release's manifest.",
    ("race verify tasks/sample -j 2", "race verify tasks/sample --manifest"),
)


def _check(folder: Path, as_json: bool) -> int:
    store = Store(folder)
    findings = check_manifest(store)
    if as_json:
        listed = [finding.model_dump(mode="json") for finding in findings]
        print_json({"release": store.settings.release.name, "clean": not findings, "findings": listed})
    for finding in findings:
        click.echo(f"manifest: {finding.message}", err=as_json)
    verdict = f"{len(findings)} differences" if findings else "every file is as the manifest says"
    click.echo(f"manifest: {folder}: {verdict}", err=as_json)
    return 1 if findings else 0


_run = command.callback


def _callback(manifest: bool, **options: Any) -> int:
    if manifest or _run is None:
        return _check(options["release"], options["as_json"])
    code = _run(**options)
    store = Store(options["release"])
    with store.lock():
        write_manifest(store)
    return int(code)


command.callback = _callback
command.params.append(
    click.Option(
        ["--manifest"], is_flag=True, help="Only check the folder against its manifest; needs no engine."
    )
)
