"""`race leaderboard`: who resolves how much, with intervals, cost, effort and shared ranks."""

from __future__ import annotations

from pathlib import Path

import click

from race.core.intervals import Estimate
from race.core.leaderboard import SLICES, Entry, Leaderboard, make_leaderboard
from race.core.runs import build_grid, made_up
from race.core.text_table import number, percent, text_table
from race.options import json_option, print_json, verbose_option, workbench
from race.work.run_files import read_runs, read_tasks

HELP = """Rank agents by pass@1, with intervals over tasks, paired comparison, cost and effort.

pass@1 is the mean over tasks of the share of resolved attempts; its interval is clustered by task.
Two agents are compared on the tasks that both ran, by a sign-flip permutation test, adjusted for the
number of pairs (Benjamini and Hochberg). A rank is one more than the number of agents that are better
and told apart, so agents that cannot be told apart share one. Accidents are counted, never failures.

\b
Examples:
  race leaderboard --tasks tasks.jsonl --runs runs.jsonl
  race leaderboard --tasks tasks.jsonl --runs runs.parquet --json
"""


@click.command("leaderboard", help=HELP)
@click.option("--tasks", "tasks_file", type=click.Path(path_type=Path), required=True, help="Task list.")
@click.option(
    "--runs", "runs_file", type=click.Path(path_type=Path), required=True, help="Recorded runs."
)
@click.option(
    "--minimum-count", type=click.IntRange(1), default=5, show_default=True,
    help="A rate from fewer tasks gets a remark.",
)  # fmt: skip
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    tasks_file: Path,
    runs_file: Path,
    minimum_count: int,
    as_json: bool,
    verbose: int,
) -> int:
    bench = workbench(context)
    tasks = read_tasks(tasks_file, bench)
    table, counts = read_runs(runs_file, bench)
    grid = build_grid(table, tasks, by="entrant", counts=counts)
    board = make_leaderboard(grid)
    if as_json:
        answer = board.as_json() | made_up(grid).as_json()
        print_json(answer | {"listed_tasks": len(tasks), "input": counts.as_json()})
    else:
        for line in _lines(board, len(tasks), minimum_count, verbose):
            click.echo(line)
        click.echo("")
    for line in [*counts.lines(), *made_up(grid).lines()]:
        click.echo(line, err=as_json)
    return 0


def _rate(estimate: Estimate, minimum_count: int) -> str:
    few = "*" if estimate.n < minimum_count else ""
    if estimate.low is None:
        return percent(estimate.rate) + few
    return f"{percent(estimate.rate)} [{percent(estimate.low)}, {percent(estimate.high)}]{few}"


def _lines(board: Leaderboard, listed: int, minimum_count: int, verbose: int) -> list[str]:
    top = max((k for entry in board.entries for k in entry.pass_at), default=1)
    header = (
        "agent", "rank", "tasks", "runs", "pass@1 [95%]", f"pass@{top}", "cost/task", "cost/resolved",
        "tokens", "steps", "limit", "time-out", "accidents",
    )  # fmt: skip
    rows = [_row(entry, listed, top, minimum_count) for entry in board.entries]
    lines = text_table(header, rows)
    if any("*" in cell for row in rows for cell in row):
        lines.append(f"* from fewer than {minimum_count} tasks")
    lines.append("tokens are weighted; limit and time-out are shares of runs that ended so")
    for by in SLICES:
        lines += _slice_lines(board, by, minimum_count, most=100 if verbose else 6)
    close = [pair for pair in board.pairs if not pair.apart]
    lines.append("")
    lines.append(f"{len(board.pairs)} pairs compared, {len(board.pairs) - len(close)} told apart at 5%")
    for pair in board.pairs if verbose else ():
        low, high = number(pair.difference.low), number(pair.difference.high)
        lines.append(
            f"  {pair.first} - {pair.second}: {number(pair.difference.rate)} [{low}, {high}] over "
            f"{pair.difference.n} tasks, p = {pair.p:.4f}, adjusted {pair.p_adjusted:.4f}"
        )
    return lines


def _row(entry: Entry, listed: int, top: int, minimum_count: int) -> tuple[str, ...]:
    best = entry.pass_at.get(top)
    return (
        entry.name,
        str(entry.rank),
        f"{entry.tasks}/{listed}",
        str(entry.attempts),
        _rate(entry.pass_at_1, minimum_count),
        percent(best.rate) if best else "-",
        number(entry.cost_per_task),
        number(entry.cost_per_resolved),
        number(entry.tokens, 0),
        number(entry.steps, 1),
        percent(entry.ended.get("step_limit")),
        percent(entry.ended.get("timeout")),
        str(entry.accidents),
    )


def _slice_lines(board: Leaderboard, by: str, minimum_count: int, *, most: int) -> list[str]:
    values = sorted({value for entry in board.entries for value in entry.slices[by]})
    if len(values) < 2:
        return []
    if len(values) > most:
        return ["", f"pass@1 by {by}: {len(values)} values, shown with -v and in --json"]
    sizes = {
        value: max(e.slices[by][value].n for e in board.entries if value in e.slices[by])
        for value in values
    }
    header = ("agent", *(f"{value} ({sizes[value]})" for value in values))
    rows = []
    for entry in board.entries:
        rates = [entry.slices[by].get(value) for value in values]
        rows.append((entry.name, *(_rate(rate, minimum_count) if rate else "-" for rate in rates)))
    return ["", f"pass@1 by {by} (tasks):", *text_table(header, rows)]
