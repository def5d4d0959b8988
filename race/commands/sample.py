"""`race sample DIR`: the sample project as a git repository."""

from __future__ import annotations

from pathlib import Path

import click

from race.options import verbose_option
from race.sample import HEAD, REPO, write_sample


@click.command("sample")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@verbose_option
def command(directory: Path, verbose: int) -> int:
    """Write the sample project into DIR: a git repository whose history was made to be mined.

    Every copy has the same commits. Nothing happens when DIR holds the sample already.

    \b
    Examples:
      race sample brook
      race sample brook && race mine tasks/sample --clone brook --repo sample/brook
    """
    write_sample(directory)
    click.echo(f"{directory}: the sample project {REPO}, {HEAD[:12]}")
    if verbose:
        click.echo("It is a sample: its history was written by hand, to be mined.", err=True)
    return 0
