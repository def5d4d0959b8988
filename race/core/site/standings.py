"""The leaderboard page: entrants, slices, pairs, SOMA scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from race.core.contamination import Study
from race.core.figures import era_figure, gap_figure
from race.core.intervals import Estimate
from race.core.leaderboard import SLICES, Entry, Leaderboard, Pair
from race.core.runs import Grid, RunCounts
from race.core.scripted import PREFIX
from race.core.site.rates import Rate, amount, rate
from race.core.site.view import ReleaseView
from race.core.soma.competition import Competition
from race.core.text_table import percent


@dataclass(frozen=True)
class Results:
    """Everything that was computed from the runs of a release.

    `from_records` says that there was no file of runs, only the counts in the tier records.
    """

    grid: Grid
    counts: RunCounts
    board: Leaderboard
    study: Study
    competition: Competition | None
    from_records: bool = False

    @property
    def scripted(self) -> bool:
        """Whether any entrant is a scripted one."""
        return any(is_scripted(name) for name in self.grid.entrants)


def is_scripted(name: str) -> bool:
    """Scripted agents carry it in their name."""
    return name.startswith(PREFIX)


def leaderboard_page(view: ReleaseView, results: Results | None) -> dict[str, Any]:
    """Contents of the first page. Slices of private tasks alone are not shown."""
    if results is None:
        return {"rows": [], "slices": [], "pairs": [], "soma": None, "notes": [], "study": None}
    few = view.minimum_count
    top = max((k for entry in results.board.entries for k in entry.pass_at), default=1)
    rows = [_entrant(entry, top, few) for entry in results.board.entries]
    pairs = [_compared(pair) for pair in results.board.pairs]
    return {
        "rows": rows,
        "top": top,
        "slices": [s for by in SLICES if (s := _slice(view, results, by))],
        "pairs": pairs[:200],
        "pairs_hidden": max(0, len(pairs) - 200),
        "soma": _soma(results.competition) if results.competition else None,
        "notes": results.counts.lines(names=False),
        "from_records": results.from_records,
        "unverified": len({t.id for t in view.tasks if t.state == "pending"} & _ran(results.grid)),
        "study": era_section(results.study),
        "seed": results.board.seed,
    }


def _entrant(entry: Entry, top: int, few: int) -> dict[str, Any]:
    """A row of the leaderboard; `top` is the largest k of pass@k that the table has."""
    return {
        "name": entry.name,
        "scripted": is_scripted(entry.name),
        "rank": entry.rank,
        "rate": rate(entry.pass_at_1, few),
        "best": rate(entry.pass_at.get(top), few) if top > 1 else None,
        "tasks": entry.tasks,
        "attempts": entry.attempts,
        "cost": amount(entry.cost_per_task, 2, "$"),
        "cost_resolved": amount(entry.cost_per_resolved, 2, "$"),
        "tokens": amount(entry.tokens),
        "steps": amount(entry.steps, 1),
        "limit": percent(entry.ended.get("step_limit")),
        "timeout": percent(entry.ended.get("timeout")),
        "accidents": entry.accidents,
    }


def _compared(pair: Pair) -> dict[str, Any]:
    """A row of the table of pairs."""
    return {
        "first": pair.first,
        "second": pair.second,
        "tasks": pair.difference.n,
        "difference": _points(pair.difference),
        "p": f"{pair.p:.4f}",
        "p_adjusted": f"{pair.p_adjusted:.4f}",
        "apart": pair.apart,
    }


def _ran(grid: Grid) -> set[str]:
    runs = grid.attempts.sum(axis=1).tolist()
    return {task.instance_id for task, count in zip(grid.tasks, runs, strict=True) if count}


def _points(estimate: Estimate) -> str:
    if estimate.rate is None:
        return "no common task"
    text = f"{100 * estimate.rate:+.1f}"
    if estimate.low is not None and estimate.high is not None:
        text += f" [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"
    return text.replace("-", "−")


def _slice(view: ReleaseView, results: Results, by: str) -> dict[str, Any] | None:
    """pass@1 per value and entrant; what there is more of goes down the page."""
    public = {task.id for task in view.tasks if not task.private}
    shown = {getattr(task, by) for task in results.grid.tasks if task.instance_id in public}
    ran = _ran(results.grid)
    outside = [t for t in results.grid.tasks if t.instance_id in ran and getattr(t, by) is None]
    entries = results.board.entries
    values = sorted({value for entry in entries for value in entry.slices[by] if value in shown})
    if len(values) < 2:
        return None
    said = {"name": "kind of bug" if by == "kind" else by, "outside": len(outside)}

    def cell(entry: Entry, value: str) -> Rate | None:
        return rate(entry.slices[by].get(value), view.minimum_count)

    agents = [(entry.name, is_scripted(entry.name)) for entry in entries]
    if len(values) <= len(entries):
        rows = [
            {"head": agent, "cells": [cell(entry, value) for value in values]}
            for agent, entry in zip(agents, entries, strict=True)
        ]
        return said | {"header": [(value, False) for value in values], "rows": rows}
    rows = [
        {"head": (value, False), "cells": [cell(entry, value) for entry in entries]} for value in values
    ]
    return said | {"header": agents, "rows": rows}


def _soma(competition: Competition) -> dict[str, Any]:
    rows = []
    for name, miner in competition.miners.items():
        rows.append(
            {
                "name": name,
                "scripted": is_scripted(name),
                "scored": sum(1 for task in miner.tasks.values() if task.score is not None),
                "main": amount(miner.main_score, 3),
                "boost": amount(miner.hard_boost, 3),
                "total": amount(miner.total, 3),
                "groups": [amount(score, 3) for score in miner.groups.values()],
                "share": percent(competition.contests.shares[name]),
            }
        )
    sets = [
        {
            "groups": " + ".join(contest.groups),
            "weight": percent(contest.weight),
            "winners": ", ".join(contest.winners) or "nobody has a score",
        }
        for layer in competition.contests.layers
        for contest in layer.sets
    ]
    return {
        "baseline": competition.baseline,
        "profile": competition.profile.name,
        "source": competition.profile.source,
        "rows": sorted(rows, key=lambda row: str(row["name"])),
        "sets": sets,
        "burned": percent(competition.contests.burned),
    }


def era_section(study: Study) -> dict[str, Any]:
    """The figure of eras with its sentence, and each model at its own cut-off."""
    gap = study.whole
    cut = gap.cut.isoformat()
    models: list[Mapping[str, Any]] = [
        {"name": name, "cut": own.cut.isoformat(), "sentence": own.sentence}
        for name, own in study.models.items()
        if name in study.known_cutoffs
    ]
    left_out = study.without_date + study.without_size + study.without_runs
    return {
        "figure": era_figure(
            gap.bands,
            old=f"merged before {cut}",
            new=f"merged since {cut}",
            title="Resolve rate by size of the reference fix, older against newer tasks",
        ),
        "sentence": gap.sentence,
        "compared": gap.compared,
        "left_out": left_out,
        "p_cmh": None if gap.p_cmh is None else f"{gap.p_cmh:.3f}",
        "exact": gap.exact,
        "seed": gap.seed,
        "models": models,
        "models_figure": gap_figure(
            [(name, own) for name, own in study.models.items() if name in study.known_cutoffs]
        ),
        "own": study.own.sentence,
        "uneven": study.uneven,
    }
