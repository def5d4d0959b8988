"""`race run`: an agent on tasks, under the protocol."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

import click

from race.core.attempts import ACCIDENT, Attempt, as_row, contestant
from race.errors import Accident, EngineDown, Missing, RaceError
from race.options import (
    force_option,
    ids_argument,
    jobs_option,
    json_option,
    print_json,
    release_argument,
    verbose_option,
    workbench,
)
from race.progress import Progress
from race.store import Store
from race.work.attempt import Given, attempt, given
from race.work.run_log import RunLog, due
from race.work.standing import stands
from race.work.tally import Tally
from race.workbench import Workbench


@click.command("run")
@release_argument
@ids_argument
@click.option("--agent", required=True, help="mini-swe-agent, or scripted/NAME on a sample release.")
@click.option("--model", default="", help="The model by its litellm name, for mini-swe-agent.")
@click.option(
    "--attempts", type=click.IntRange(1, 1000), help="Attempts per task; else those of release.toml."
)
@jobs_option
@force_option
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    release: Path,
    ids: tuple[str, ...],
    agent: str,
    model: str,
    attempts: int | None,
    jobs: int,
    force: bool,
    as_json: bool,
    verbose: int,
) -> int:
    """Run an agent on sealed tasks: limited steps, no network, graded as it stands.

    The limits are those of release.toml: 100 steps unless it says otherwise.
    Attempts that were made are not made again, so that a killed run goes on where it stopped; ask for
    more of them with a larger --attempts. Runs go to R/local/runs.jsonl, submissions and trajectories
    beside it.

    \b
    Examples:
      race run tasks/sample --agent scripted/stubborn --attempts 3 -j 2
      race run tasks/winter --agent mini-swe-agent --model openai/gpt-5-mini agronholm__anyio-1145
    """
    name, named_model = contestant(agent, model)
    bench = workbench(context)
    store = Store(release)
    planned = attempts or store.settings.tier.attempts
    with store.lock():
        chosen = store.pick(ids)
        progress = Progress("run", len(chosen), verbose=verbose)
        with progress.running():
            tally, rows = _run(bench, store, chosen, (name, named_model), planned, jobs, force, progress)
    if as_json:
        runs = [as_row(row) for row in sorted(rows, key=lambda row: row.key)]
        print_json({"agent": name, "model": named_model, "runs": runs, **tally.as_json()})
    resolved = sum(row.resolved for row in rows)
    click.echo(f"{resolved} of {len(rows)} attempts resolved", err=as_json)
    click.echo(tally.line("run"), err=as_json)
    return tally.exit_code


def _run(
    bench: Workbench,
    store: Store,
    chosen: Sequence[str],
    who: tuple[str, str],
    planned: int,
    jobs: int,
    force: bool,
    progress: Progress,
) -> tuple[Tally, list[Attempt]]:
    tally = Tally()
    rows: list[Attempt] = []
    bench.engine.sweep()
    ready: list[Given] = []
    for instance_id in chosen:
        standing = stands(store, instance_id)
        if standing["state"] == "rejected":
            tally.rejected.append(instance_id)
            progress.passed(instance_id, standing["verdict"])
        elif standing["stages"]["seal"] != "accepted":
            due_first = next(name for name, state in standing["stages"].items() if state != "accepted")
            tally.leave(instance_id, Missing(f"waits for {due_first}"))
            progress.passed(instance_id, f"waits for {due_first}; run `race {due_first}` first")
        else:
            ready.append(given(store, store.task(instance_id)))
    stop: list[str] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running = {
            pool.submit(_task, bench, store, what, who, planned, force, progress, stop): what.task.id
            for what in ready
        }
        try:
            for future in as_completed(running):
                rows += _through(future, running[future], store, who, planned, tally, progress, stop)
        except BaseException as error:
            stop.append(f"stopped by {type(error).__name__}")
            if isinstance(error, KeyboardInterrupt):
                with contextlib.suppress(Accident):
                    bench.engine.abandon()
            raise
    return tally, rows


def _through(
    future: Future[int],
    instance_id: str,
    store: Store,
    who: tuple[str, str],
    planned: int,
    tally: Tally,
    progress: Progress,
    stop: list[str],
) -> list[Attempt]:
    """Count a task whose attempts have ended; its rows. A dead engine keeps the others from starting."""
    try:
        new = future.result()
    except RaceError as error:
        tally.leave(instance_id, error)
        progress.finished(instance_id, f"pending: {error}")
        if isinstance(error, EngineDown):
            stop.append(str(error))
        return []
    rows = _rows(store, instance_id, who, planned)
    (tally.done if new else tally.skipped).append(instance_id)
    resolved = sum(row.resolved for row in rows)
    progress.finished(instance_id, f"{resolved} of {len(rows)} resolved, {new} new")
    return rows


def _task(
    bench: Workbench,
    store: Store,
    what: Given,
    who: tuple[str, str],
    planned: int,
    force: bool,
    progress: Progress,
    stop: list[str],
) -> int:
    """All attempts at one task that are due; how many were made."""
    made = {} if force else RunLog(store).made(what.digest, what.task.id, *who)
    numbers = due(made, planned)
    for number in numbers:
        if stop:
            raise Accident(f"not started: {stop[0]}")
        attempt(
            bench,
            store,
            what,
            *who,
            number,
            lambda said: progress.doing(what.task.id, said),
            fresh=force,
        )
    return len(numbers)


def _rows(store: Store, instance_id: str, who: tuple[str, str], planned: int) -> list[Attempt]:
    return sorted(
        (
            row
            for row in RunLog(store).rows()
            if (row.instance_id, row.agent, row.model) == (instance_id, *who)
            and row.attempt <= planned
            and row.ended != ACCIDENT
        ),
        key=lambda row: row.attempt,
    )
