"""`race contamination`: do older tasks score higher than newer ones?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import click

from race.core.contamination import Gap, Study, study_eras
from race.core.contamination.study import CUT, SEED
from race.core.figures import era_figure, gap_figure
from race.core.intervals import Estimate
from race.core.permutation import DRAWS
from race.core.runs import RunCounts, build_grid, made_up
from race.core.runs.tasks import day
from race.core.text_table import percent, text_table
from race.errors import UsageError
from race.options import json_option, print_json, verbose_option, workbench
from race.store import write_atomic
from race.work.run_files import read_runs, read_tasks

HELP = """Compare tasks merged before a date with tasks merged after it, by size of the reference fix.

Rates per band of fix size, the size-adjusted difference with a bootstrap interval, a permutation test
of era labels inside bands (exact when small, else drawn with a recorded seed), Cochran-Mantel-Haenszel
as a cross-check, and what so many tasks could have shown. With --cutoff each model is compared at its
own training cut-off, and models with different cut-offs against each other.

\b
Examples:
  race contamination --tasks tasks.jsonl --runs runs.jsonl --cut 2026-01-01
  race contamination --tasks tasks.jsonl --runs runs.jsonl --cutoff some/model=2025-06-30 --svg eras.svg
"""


@click.command("contamination", help=HELP)
@click.option("--tasks", "tasks_file", type=click.Path(path_type=Path), required=True, help="Task list.")
@click.option(
    "--runs", "runs_file", type=click.Path(path_type=Path), required=True, help="Recorded runs."
)
@click.option("--cut", default=CUT.isoformat(), show_default=True, metavar="DATE", help="First new day.")
@click.option(
    "--cutoff", "cutoffs", multiple=True, metavar="MODEL=DATE", help="A model's own; repeatable."
)
@click.option(
    "--draws", type=click.IntRange(10_000), default=DRAWS, show_default=True, help="Random draws."
)
@click.option("--seed", type=int, default=SEED, show_default=True, help="Of the draws.")
@click.option("--svg", type=click.Path(path_type=Path), help="Write the figure of the bands here.")
@click.option(
    "--models-svg", type=click.Path(path_type=Path), help="And that of models at their cut-offs."
)
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    tasks_file: Path,
    runs_file: Path,
    cut: str,
    cutoffs: Sequence[str],
    draws: int,
    seed: int,
    svg: Path | None,
    models_svg: Path | None,
    as_json: bool,
    verbose: int,
) -> int:
    bench = workbench(context)
    first_new, own = _day(cut, "--cut"), dict(_cutoff(text) for text in cutoffs)
    tasks = read_tasks(tasks_file, bench)
    table, counts = read_runs(runs_file, bench)
    by_model = build_grid(table, tasks, by="model", counts=RunCounts())
    for name in own:
        if name not in by_model.entrants:
            raise UsageError(f"--cutoff: no run of the model {name!r}")
    grid = build_grid(table, tasks, by="entrant", counts=counts)
    study = study_eras(
        grid,
        by_model,
        cut=first_new,
        cutoffs=own,
        seed=seed,
        draws=draws,
    )
    if svg is not None:
        write_atomic(svg, _figure(study.whole, made_up(grid).short).encode())
    if models_svg is not None:
        if not own:
            raise UsageError("--models-svg: no model has a --cutoff")
        rows = [(name, study.models[name]) for name in own]
        write_atomic(models_svg, gap_figure(rows, made_up(grid).short).encode())
    if as_json:
        print_json(study.as_json() | made_up(grid).as_json() | {"input": counts.as_json()})
    else:
        for line in _lines(study, verbose):
            click.echo(line)
    for line in [*counts.lines(), *made_up(grid).lines()]:
        click.echo(line, err=as_json)
    return 0


def _day(text: str, option: str) -> date:
    try:
        return day(text)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} is no ISO 8601 date") from error


def _cutoff(text: str) -> tuple[str, date]:
    model, equals, when = text.rpartition("=")
    if not equals or not model:
        raise UsageError(f"--cutoff: expected MODEL=DATE, found {text!r}")
    return model, _day(when, "--cutoff")


def _figure(gap: Gap, note: str) -> str:
    day_name = gap.cut.isoformat()
    return era_figure(
        gap.bands,
        old=f"merged before {day_name}",
        new="merged since",
        title="Resolve rate by size of the reference fix, older against newer tasks",
        note=note,
    )


def _rate(estimate: Estimate) -> str:
    if estimate.rate is None:
        return "no tasks"
    interval = ""
    if estimate.low is not None:
        interval = f" [{percent(estimate.low)}, {percent(estimate.high)}]"
    return f"{percent(estimate.rate)}{interval} n={estimate.n}"


def _lines(study: Study, verbose: int) -> list[str]:
    gap = study.whole
    rows = [(band.band, _rate(band.old), _rate(band.new)) for band in gap.bands]
    lines = text_table(("fix lines", f"before {gap.cut}", "since"), rows)
    lines += ["", gap.sentence]
    if gap.p_cmh is not None and gap.chi_square is not None:
        kind = "exact" if gap.exact else f"seed {gap.seed}"
        lines.append(
            f"permutation ({kind}) p = {gap.p_permutation:.4f}; Cochran-Mantel-Haenszel chi-square "
            f"{gap.chi_square:.2f}, p = {gap.p_cmh:.4f}"
        )
    for name, own in study.models.items():
        if name in study.known_cutoffs or verbose:
            lines.append(f"{name} (cut {own.cut}): {own.sentence}")
    if len(study.known_cutoffs) > 1:
        lines.append("each model's p-value stands alone: one in twenty is significant by chance")
    lines += ["", study.own.sentence]
    left_out = json.dumps(study.as_json()["left_out"])
    lines.append(f"tasks left out: {left_out.strip('{}')}; {study.uneven} not run by every agent")
    return lines
