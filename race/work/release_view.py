"""Reads a whole release for the site: every task's records, its standing, its runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from race.core.contamination import study_eras
from race.core.leaderboard import make_leaderboard
from race.core.records import Mined
from race.core.runs import RunCounts, RunTable, RunTableBuilder, build_grid
from race.core.sealed import Sealed
from race.core.site.standings import Results
from race.core.site.view import ReleaseView, TaskView
from race.core.soma.competition import score_competition
from race.core.specified import Specified
from race.core.tiered import Tiered
from race.core.validated import Validated
from race.core.verified import Verified
from race.errors import Malformed
from race.store import STAGE_ORDER, Store, TaskFolder
from race.work.manifests import image_digests
from race.work.rejected import rejected_rows
from race.work.run_files import read_runs
from race.work.standing import stands
from race.workbench import Workbench


def view_release(store: Store) -> ReleaseView:
    """Everything that the pages are made from. Raises Malformed for a record that does not parse."""
    release = store.settings.release
    digests = image_digests(store)
    return ReleaseView(
        name=release.name,
        version=release.version,
        sample=release.sample,
        minimum_count=release.minimum_count,
        settings=store.settings,
        tasks=tuple(
            _task(store, instance_id, digests.get(instance_id, {})) for instance_id in store.ids()
        ),
        turned_down=tuple(rejected_rows(store)),
        changelog=(store.read_text("CHANGELOG.md") or b"").decode(errors="replace"),
    )


def _task(store: Store, instance_id: str, images: Mapping[str, str]) -> TaskView:
    task = store.task(instance_id)
    mined = task.read(Mined)
    if mined is None:
        raise Malformed(task.path / "mine.json", "", "gone while the report was made")
    standing = stands(store, instance_id)
    specified = task.read(Specified)
    private = set(store.settings.release.private)
    return TaskView(
        id=instance_id,
        private=not private.isdisjoint((instance_id, *mined.members)),
        state=standing["state"],
        verdict=standing["verdict"],
        stages=standing["stages"],
        mined=mined,
        validated=task.read(Validated),
        specified=specified,
        sealed=task.read(Sealed),
        tiered=task.read(Tiered),
        verified=task.read(Verified),
        statement=_statement(task, specified),
        facts={stage: task.noted(stage) for stage in STAGE_ORDER},
        images=images,
    )


def _statement(task: TaskFolder, specified: Specified | None) -> str:
    """The recorded statement; empty when it was edited since, which makes the task pending anyway."""
    if specified is None or specified.statement is None:
        return ""
    try:
        return task.read_file(specified.statement).decode(errors="replace")
    except Malformed:
        return ""


def release_results(view: ReleaseView, runs: Path, bench: Workbench, *, named: bool) -> Results | None:
    """The runs of a release on every task that is not rejected; None when there are none.

    `named` says that the user asked for this file. One that was not asked for may be missing (a clone
    of the release on another machine): the counts in the tier records stand in, which tell who
    resolved what, but neither cost nor tokens.
    """
    settings = view.settings
    rows = [task.row(settings.tier.attempts) for task in view.of("verified", "pending")]
    told = named or (runs.is_file() and runs.stat().st_size > 0)
    table, counts = read_runs(runs, bench) if told else (_recorded_runs(view), RunCounts())
    grid = build_grid(table, rows, by="entrant", counts=counts)
    if not grid.attempts.any():
        return None
    by_model = build_grid(table, rows, by="model", counts=RunCounts())
    by_agent = build_grid(table, rows, by="agent", counts=RunCounts())
    study = study_eras(
        grid,
        by_model,
        cut=settings.report.cut,
        cutoffs=settings.report.cutoffs,
        minimum_count=view.minimum_count,
    )
    competition = None
    if told and settings.report.baseline in by_agent.entrants:
        competition = score_competition(
            by_agent, settings.report.baseline, burn_ratio=settings.report.burn_ratio
        )
    return Results(grid, counts, make_leaderboard(grid), study, competition, from_records=not told)


def _recorded_runs(view: ReleaseView) -> RunTable:
    """One row for each attempt that a tier record counts."""
    rows = [
        {
            "instance_id": task.id,
            "agent": tier.agent,
            "model": tier.model,
            "attempt": attempt,
            "resolved": attempt < tier.resolved,
        }
        for task in view.tasks
        if task.tiered is not None
        for tier in task.tiered.agents
        for attempt in range(tier.attempts)
    ]
    builder = RunTableBuilder()
    if rows:
        builder.add(rows, range(1, len(rows) + 1))
    return builder.table()
