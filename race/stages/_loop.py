"""Runs one stage over the tasks of a release: what is due, -j at once, and a tally that adds up."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import click

from race.core.records import Finding, StageRecord
from race.errors import Accident, BuildFailed, EngineDown, Missing, RaceError, Rejection
from race.options import (
    force_option,
    here_option,
    ids_argument,
    jobs_option,
    json_option,
    print_json,
    release_argument,
    verbose_option,
    workbench,
)
from race.progress import Progress
from race.store import STAGE_ORDER, Store, TaskFolder
from race.work.stage import Desk, Stage, stage_named
from race.work.tally import Tally
from race.workbench import Workbench


def blocked_by(task: TaskFolder, store: Store, name: str) -> str | None:
    """The earlier stage that keeps this task from stage `name`, and how.

    It has not run, or it rejected the task, or what it read has changed since.
    """
    for earlier in STAGE_ORDER[: STAGE_ORDER.index(name)]:
        stage = stage_named(earlier)
        record = task.read(stage.record)
        if record is None:
            return f"waits for {earlier}"
        if not record.accepted:
            return f"rejected by {earlier}"
        if earlier != "mine" and record.inputs != stage.inputs(task, store):
            return f"waits for {earlier}: what it read has changed"
    return None


def run_stage(
    stage: Stage,
    store: Store,
    bench: Workbench,
    ids: Sequence[str],
    *,
    jobs: int = 1,
    force: bool = False,
    here: bool = False,
    progress: Progress,
) -> Tally:
    """Run a stage over tasks. The caller holds the release's lock.

    A rejection is recorded and the next task goes on. A task that waits for an earlier stage stays
    pending, as one for which something is missing. An accident records nothing, nor does what only
    the user can provide; when the engine is down, no further task is started. An interrupt ends the
    containers of running tasks, which then record nothing; a bug goes up after running tasks have
    ended.
    """
    if stage.engine:
        _sweep(bench)
    tally = Tally()
    due: list[str] = []
    for instance_id in ids:
        task = store.task(instance_id)
        why = blocked_by(task, store, stage.name)
        if why is not None:
            if why.startswith("rejected"):
                tally.rejected.append(instance_id)
            else:
                tally.leave(instance_id, Missing(why))
            progress.passed(instance_id, why)
            continue
        record = task.read(stage.record)
        current = record is not None and record.inputs == stage.inputs(task, store)
        if current and here:
            current = bool(task.noted(stage.name))
        if current and record is not None and record.accepted and stage.made is not None:
            current = stage.made(task, store, bench)
        if current and record is not None and not force:
            (tally.skipped if record.accepted else tally.rejected).append(instance_id)
            progress.passed(instance_id, "nothing is due" if record.accepted else "rejected before")
            continue
        due.append(instance_id)
    _run_due(stage, store, bench, due, jobs, tally, progress)
    return tally


def _sweep(bench: Workbench) -> None:
    """Remove what killed commands left. An engine that does not answer is the due tasks' affair."""
    with contextlib.suppress(Accident):
        bench.engine.sweep()


def _abandon(bench: Workbench) -> None:
    """End this process's containers, so that an interrupt need not wait for them."""
    with contextlib.suppress(Accident):
        bench.engine.abandon()


def _run_due(
    stage: Stage,
    store: Store,
    bench: Workbench,
    due: list[str],
    jobs: int,
    tally: Tally,
    progress: Progress,
) -> None:
    waiting = list(due)
    running: dict[Future[StageRecord], str] = {}
    stopped = ""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs and not stopped:
                    instance_id = waiting.pop(0)
                    desk = Desk(store.task(instance_id), store, bench, progress)
                    running[pool.submit(_one, stage, desk)] = instance_id
                if not running:
                    break
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    instance_id = running.pop(future)
                    try:
                        record = future.result()
                    except RaceError as error:
                        tally.leave(instance_id, error)
                        progress.finished(instance_id, f"pending: {error}")
                        if isinstance(error, EngineDown):
                            stopped = str(error)
                        continue
                    (tally.done if record.accepted else tally.rejected).append(instance_id)
                    progress.finished(instance_id, _outcome(record))
        except KeyboardInterrupt:
            progress.say(f"interrupted: ending {len(running)} running tasks; run again to go on")
            if stage.engine:
                _abandon(bench)
            raise
        finally:
            for future in running:
                future.cancel()
    for instance_id in waiting:
        tally.leave(instance_id, f"not started: {stopped}")
        progress.passed(instance_id, f"pending, not started: {stopped}")


def _outcome(record: StageRecord) -> str:
    if record.accepted:
        return "accepted"
    return "rejected: " + "; ".join(record.reasons)[:300]


def _one(stage: Stage, desk: Desk) -> StageRecord:
    inputs = stage.inputs(desk.task, desk.store)
    try:
        record = stage.work(desk)
    except Rejection as error:
        if isinstance(error, BuildFailed):
            desk.task.evidence(f"{stage.name}/build.log", error.tail.encode())
        finding = Finding(rule=error.rule, message=error.message, place=error.place)
        record = stage.record(instance_id=desk.task.id, accepted=False, findings=(finding,))
    sample = desk.store.settings.release.sample
    record = record.model_copy(update={"inputs": inputs, "sample": sample})
    desk.task.write(record)
    desk.task.note(stage.name, desk.facts)
    return record


def stage_command(stage: Stage, summary: str, examples: Sequence[str]) -> click.Command:
    """The click command of a stage: `race <stage> R [ID]...` with the options all stages share."""

    @click.command(stage.name, help=summary + "\n\n\b\nExamples:\n  " + "\n  ".join(examples))
    @release_argument
    @ids_argument
    @jobs_option
    @force_option
    @here_option
    @json_option
    @verbose_option
    @click.pass_context
    def command(
        context: click.Context,
        release: Path,
        ids: tuple[str, ...],
        jobs: int,
        force: bool,
        here: bool,
        as_json: bool,
        verbose: int,
    ) -> int:
        bench = workbench(context)
        store = Store(release)
        with store.lock():
            chosen = store.pick(ids)
            progress = Progress(stage.name, len(chosen), verbose=verbose)
            with progress.running():
                tally = run_stage(
                    stage,
                    store,
                    bench,
                    chosen,
                    jobs=jobs,
                    force=force,
                    here=here,
                    progress=progress,
                )
        if as_json:
            print_json(tally.as_json())
        click.echo(tally.line(stage.name), err=as_json)
        return tally.exit_code

    return command
