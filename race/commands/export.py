"""race export: a release in the words of its neighbours."""

from __future__ import annotations

from pathlib import Path

import click

from race.options import json_option, print_json, release_argument, verbose_option, workbench
from race.store import Store
from race.work.exporting import FORMATS, export_release
from race.work.task_facts import exportable


@click.command("export")
@release_argument
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), required=True, help="Whose format to write."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="A folder; files of the same names are replaced.",
)
@click.option("--unverified", is_flag=True, help="Also sealed tasks that were not checked yet.")
@click.option("--private", is_flag=True, help="Also the release's private tasks.")
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    release: Path,
    kind: str,
    output: Path,
    unverified: bool,
    private: bool,
    as_json: bool,
    verbose: int,
) -> int:
    """Write the tasks that passed the release check as task lists or task folders.

    \b
    soma      tasks.jsonl (the task list) and grading.jsonl (what a validator keeps)
    swebench  tasks.jsonl for `swebench eval`, with images under the work directory it expects
    harbor    one folder per task for `harbor run -p OUTPUT`

    \b
    Examples:
      race export tasks/sample --format soma --output out/soma
      race export tasks/sample --format swebench --output out/swebench --json
    """
    store = Store(release)
    found = exportable(store, unverified=unverified, private=private)
    written = export_release(workbench(context), store, found, kind, output)
    if as_json:
        print_json(
            {
                "format": kind,
                "exported": [task.instance_id for task in found.tasks],
                "left_out": found.left_out,
                "private": len(found.private),
                "files": [str(path) for path in written],
            }
        )
    for instance_id, why in sorted(found.left_out.items()):
        click.echo(f"export: {instance_id}: left out: {why}", err=True)
    if verbose:
        for path in written:
            click.echo(f"export: wrote {path}", err=True)
    click.echo(
        f"export: {len(found.tasks)} exported + {len(found.left_out)} left out + "
        f"{len(found.private)} private = {found.total}",
        err=as_json,
    )
    return 0
