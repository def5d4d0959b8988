"""`race status`: every task of a release and where it stands."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from race.options import json_option, print_json, release_argument
from race.settings import json_object
from race.store import STAGE_ORDER, Store
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
    turned_down = _turned_down(store)
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


def _turned_down(store: Store) -> int:
    name = "rejected.jsonl"
    lines = (store.read_text(name) or b"").splitlines()
    return sum(
        1 for line in lines if line.strip() and json_object(store.folder / name, line) is not None
    )
