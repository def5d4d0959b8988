"""`race score`: recorded runs through SOMA's formulas."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import click
import orjson

from race.core.runs import RunCounts, build_grid, made_up
from race.core.soma.competition import Competition, score_competition
from race.core.soma.explain import explain_task
from race.core.soma.profile import DEFAULT, PROFILES
from race.core.text_table import number, percent, text_table
from race.errors import UnknownId, UsageError
from race.options import json_option, verbose_option, workbench
from race.work.run_files import read_runs, read_tasks

HELP = """Score recorded runs by SOMA's formulas, and hold the contests over complexity groups.

Runs of the baseline agent are the baseline, every other agent is a miner. RUNS is our runs.jsonl, the
same columns as Parquet, or a SOMA validator's export (its baseline runs then get the name given with
--baseline). A task's n is its planned repeats, else the larger number of runs.

\b
What becomes of imperfect input; every case is counted in the output:
  accident of ours          left out, never a failure
  attempt told twice alike  counted once
  ... told differently      refused, exit 2, with both lines
  unknown task              left out
  half-written last line    left out; any other malformed line is refused
  tokens missing, negative  the run counts as resolved or not, but not in
    or not a finite number  mean tokens
  no baseline run           the task is not scored: nothing to compare with
  not run by a miner        the task is not scored for that miner
  more runs than repeats    n is raised to max(x, y, 1)
  repeats below 1 or no     refused, exit 2
    whole number
  no run at all             refused, exit 2

\b
Examples:
  race score --tasks tasks.jsonl --runs runs.jsonl --baseline plain
  race score --tasks tasks.jsonl --runs runs.jsonl --baseline plain --explain sample__brook-7
"""


@click.command("score", help=HELP)
@click.option("--tasks", "tasks_file", type=click.Path(path_type=Path), required=True, help="Task list.")
@click.option(
    "--runs", "runs_file", type=click.Path(path_type=Path), required=True, help="Recorded runs."
)
@click.option(
    "--baseline", required=True, metavar="AGENT", help="The agent that miners are compared with."
)
@click.option(
    "--burn-ratio", type=float, default=0.0, show_default=True, help="Share that goes to nobody."
)
@click.option(
    "--profile", type=click.Choice(sorted(PROFILES)), default=DEFAULT.name, show_default=True,
    help="Version of the rules.",
)  # fmt: skip
@click.option("--explain", metavar="ID", help="Print one task's arithmetic, step by step.")
@click.option("--csv", "as_csv", is_flag=True, help="One line per miner and task, comma-separated.")
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    tasks_file: Path,
    runs_file: Path,
    baseline: str,
    burn_ratio: float,
    profile: str,
    explain: str | None,
    as_csv: bool,
    as_json: bool,
    verbose: int,
) -> int:
    bench = workbench(context)
    if as_csv + as_json + (explain is not None) > 1:
        raise UsageError("--csv, --json and --explain exclude each other")
    started = time.perf_counter()
    tasks = read_tasks(tasks_file, bench)
    table, counts = read_runs(runs_file, bench, baseline=baseline)
    parsed = time.perf_counter()
    rules = PROFILES[profile]
    grid = build_grid(table, tasks, by="agent", counts=counts, profile=rules)
    result = score_competition(grid, baseline, burn_ratio=burn_ratio, profile=rules)
    ended = time.perf_counter()
    if as_json:
        answer = result.as_json() | made_up(grid).as_json() | {"input": counts.as_json()}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    elif as_csv:
        click.echo(_csv(result), nl=False)
    elif explain is not None:
        for line in _explained(result, explain, [task.instance_id for task in tasks]):
            click.echo(line)
    else:
        for line in _table(result, len(tasks)):
            click.echo(line)
    for line in [*_remarks(result, counts), *made_up(grid).lines()]:
        click.echo(line, err=as_json or as_csv)
    if verbose:
        share = (parsed - started) / max(ended - started, 1e-9)
        click.echo(
            f"{len(table)} runs in {ended - started:.2f} s, of which parsing {percent(share)}", err=True
        )
    return 0


def _table(result: Competition, tasks: int) -> list[str]:
    header = ("miner", "scored", "main", "boost", "total", "short", "medium", "long", "share")
    ranked = sorted(
        result.miners.items(),
        key=lambda item: (-(item[1].total if item[1].total is not None else -9), item[0]),
    )
    rows = []
    for name, miner in ranked:
        scored = sum(1 for task in miner.tasks.values() if task.score is not None)
        groups = [number(miner.groups[group]) for group in ("short", "medium", "long")]
        rows.append(
            (
                name,
                f"{scored}/{tasks}",
                number(miner.main_score),
                number(miner.hard_boost),
                number(miner.total),
                *groups,
                percent(result.contests.shares[name]),
            )
        )
    lines = text_table(header, rows)
    lines += ["", f"contests over complexity groups ({percent(result.contests.burned)} goes to nobody):"]
    for layer in result.contests.layers:
        for contest in layer.sets:
            won = ", ".join(contest.winners) or "nobody has a score"
            best = f" with {number(max(contest.scores.values()))}" if contest.scores else ""
            lines.append(f"  {' + '.join(contest.groups)}: {percent(contest.weight)} to {won}{best}")
    rules = result.profile
    return [
        f"SOMA scores against {result.baseline} (profile {rules.name}: {rules.source})",
        "",
        *lines,
        "",
        "main: mean task score weighted by x^(1/3), from -4 to 3; boost: what hard tasks add;",
        "total: both, scaled to -1..1; short, medium, long: the same total over one group alone;",
        "share: what the contests give. --explain ID shows how one task's score comes about.",
    ]


def _explained(result: Competition, instance_id: str, known: list[str]) -> list[str]:
    if instance_id not in known:
        raise UnknownId(instance_id, known, "the task list")
    lines: list[str] = []
    for name, miner in result.miners.items():
        task = miner.tasks.get(instance_id)
        if task is None:
            lines.append(f"{instance_id}, {name}: no run counts, so the task is not scored for it")
        else:
            lines += explain_task(instance_id, name, task, result.profile)
    return lines


def _csv(result: Competition) -> str:
    out = io.StringIO()
    names = (
        "x", "y", "n", "tokens_without_compression", "tokens_with_compression", "r", "threshold", "zone",
        "pool", "score", "hard_boost_contribution", "note",
    )  # fmt: skip
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("miner", "instance_id", *names))
    for miner, scores in result.miners.items():
        for instance_id, task in scores.tasks.items():
            writer.writerow((miner, instance_id, *(getattr(task, name) for name in names)))
    return out.getvalue()


def _remarks(result: Competition, counts: RunCounts) -> list[str]:
    remarks = result.remarks
    lines = ["", *counts.lines()]
    for ids, what in (
        (remarks.without_baseline, "not scored, no baseline run"),
        (remarks.without_runs, "listed, but nobody ran it"),
        (remarks.repeats_exceeded, "more runs than planned repeats, n raised where needed"),
        (remarks.unclassified, "in no complexity group, so in totals only"),
    ):
        if ids:
            more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
            lines.append(f"{len(ids)} tasks: {what}: {', '.join(ids[:3])}{more}")
    lines += [f"{name}: {n} tasks without a run of its own" for name, n in remarks.not_attempted.items()]
    return lines
