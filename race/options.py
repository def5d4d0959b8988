"""Options and tools that commands share."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from race.settings import read_workspace
from race.workbench import Workbench

release_argument = click.argument("release", type=click.Path(path_type=Path))
ids_argument = click.argument("ids", nargs=-1, metavar="[ID]...")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on standard output."
)
verbose_option = click.option("-v", "--verbose", count=True, help="Say more on standard error.")
jobs_option = click.option(
    "-j", "--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Tasks at once."
)
force_option = click.option("--force", is_flag=True, help="Run even what is not due.")
here_option = click.option(
    "--here",
    is_flag=True,
    help="Run what has not run on this machine, though its record is current.",
)


def workbench(context: click.Context) -> Workbench:
    """The tools of this command: those handed in by a caller (a test), or made for this machine."""
    given = (context.find_root().obj or {}).get("workbench")
    if isinstance(given, Workbench):
        return given
    return Workbench(read_workspace(Path.cwd(), dict(os.environ)))


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=False, allow_nan=False))
