"""`race verify`: the release check, and the release's manifest."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from race.core.foreign import read_rows
from race.core.verified import Verified
from race.errors import Malformed, UnknownId, UsageError
from race.options import print_json, workbench
from race.progress import Progress
from race.stages._loop import stage_command
from race.store import Store, TaskFolder
from race.work.foreign_check import check_foreign, read_list
from race.work.manifests import check_manifest, write_manifest
from race.work.sealing import materials
from race.work.stage import Desk, Stage
from race.work.verifying import verify_task
from race.workbench import Workbench

LISTS = (".jsonl", ".json")
"""How the name of a task list ends; anything else should be a release folder."""


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


STAGE = Stage("verify", Verified, inputs, work, made, engine=True)
command = stage_command(
    STAGE,
    "Rebuild each task from its release folder alone and grade it three times with the reference fix "
    "(must score 1) and three times with nothing (must score 0); correct or exclude what does not "
    "hold, and write the release's manifest. Instead of a release folder, a file: a SOMA task list or "
    "SWE-bench rows (JSONL) whose images are on this engine; its rows are checked, nothing is written.",
    ("race verify tasks/sample -j 2", "race verify tasks/sample --manifest --images"),
)


def _check(folder: Path, images: bool, as_json: bool) -> int:
    store = Store(folder)
    engine = workbench(click.get_current_context()).engine if images else None
    findings = check_manifest(store, engine)
    if as_json:
        listed = [finding.model_dump(mode="json") for finding in findings]
        print_json({"release": store.settings.release.name, "clean": not findings, "findings": listed})
    for finding in findings:
        click.echo(f"manifest: {finding.message}", err=as_json)
    what = "every file and image" if images else "every file"
    count = f"{len(findings)} difference{'s' * (len(findings) != 1)}"
    verdict = count if findings else f"{what} is as the manifest says"
    click.echo(f"manifest: {folder}: {verdict}", err=as_json)
    return 1 if findings else 0


def _check_list(bench: Workbench, path: Path, ids: tuple[str, ...], verbose: int, as_json: bool) -> int:
    """The check of somebody else's task list, row by row; nothing is written."""
    rows = read_rows(read_list(path), str(path))
    known = [row.instance_id for row in rows]
    for instance_id in ids:
        if instance_id not in known:
            raise UnknownId(instance_id, known, str(path))
    chosen = [row for row in rows if not ids or row.instance_id in ids]
    bench.engine.sweep()
    progress = Progress("verify", len(chosen), verbose=verbose)
    done = []
    with progress.running():
        for row in chosen:
            say = partial(progress.doing, row.instance_id)
            done.append(check_foreign(bench, row, say))
            reasons = "; ".join(finding.message for finding in done[-1].findings)
            progress.finished(
                row.instance_id, "accepted" if done[-1].accepted else f"excluded: {reasons}"
            )
    if as_json:
        print_json({"tasks": [checked.as_json() for checked in done]})
    good = sum(checked.accepted for checked in done)
    click.echo(f"verify: {good} accepted + {len(done) - good} excluded = {len(done)}", err=as_json)
    return 0 if good == len(done) else 1


_run = command.callback


def _callback(manifest: bool, images: bool, **options: Any) -> int:
    path: Path = options["release"]
    if path.suffix in LISTS and not path.exists():
        raise UsageError(f"{path}: there is no such file")
    if path.is_file():
        bench = workbench(click.get_current_context())
        return _check_list(bench, path, options["ids"], options["verbose"], options["as_json"])
    if manifest or images or _run is None:
        return _check(path, images, options["as_json"])
    code = _run(**options)
    store = Store(options["release"])
    with store.lock():
        write_manifest(store)
    return int(code)


command.callback = _callback
command.params += [
    click.Option(
        ["--manifest"], is_flag=True, help="Only check the folder against its manifest; needs no engine."
    ),
    click.Option(
        ["--images"], is_flag=True, help="The same, and compare the images on this engine by digest."
    ),
]
