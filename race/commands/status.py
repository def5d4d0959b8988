"""`race status`: every task of a release and where it stands."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from race.options import json_option, print_json, release_argument
from race.store import STAGE_ORDER, Store
from race.work.rejected import rejected_rows
from race.work.standing import stands


@click.command("status")
@release_argument
@json_option
def command(release: Path, as_json: bool) -> int:
    """Show every task of a release and where it stands.

    \b
    Examples:
      race status tasks/sample
      race status tasks/sample --json
    """
    store = Store(release)
    tasks = [stands(store, instance_id) for instance_id in store.ids()]
    turned_down = len(rejected_rows(store))
    if as_json:
        print_json(
            {"release": store.settings.release.name, "tasks": tasks, "mining_rejected": turned_down}
        )
        return 0
    sample = " (a sample: made up for demonstration)" if store.settings.release.sample else ""
    table = Table(title=f"{store.settings.release.name}{sample}", title_justify="left")
    table.add_column("task", no_wrap=True)
    table.add_column("stages", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for task in tasks:
        passed = sum(task["stages"][stage] == "accepted" for stage in STAGE_ORDER)
        table.add_row(task["instance_id"], f"{passed} of {len(STAGE_ORDER)}", task["verdict"])
    Console().print(table)
    counts = {
        word: sum(task["state"] == word for task in tasks)
        for word in ("verified", "rejected", "pending")
    }
    click.echo(
        f"{counts['verified']} verified + {counts['rejected']} rejected + {counts['pending']} pending "
        f"= {len(tasks)} tasks; mining turned down {turned_down} more"
    )
    return 0
