"""`race init`: a new release folder with a commented release.toml."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import click

from race.errors import UsageError
from race.options import release_argument
from race.render import render
from race.settings import PERMISSIVE
from race.store import write_atomic


@click.command("init")
@release_argument
def command(release: Path) -> int:
    """Make a release folder with a commented release.toml.

    \b
    Examples:
      race init tasks/winter
      race init tasks/2026.2
    """
    name = release.resolve().name.lower()
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,40}", name):
        raise UsageError(
            f"{name!r} cannot name a release: letters, digits, dot, dash and underscore only"
        )
    target = release / "release.toml"
    if target.exists():
        raise UsageError(f"{target} is there already; nothing was changed")
    if release.exists() and not release.is_dir():
        raise UsageError(f"{release} is a file")
    canary = str(uuid.uuid4())
    text = render("images", "release.toml.j2", name=name, canary=canary, licences=PERMISSIVE)
    write_atomic(target, text.encode())
    write_atomic(
        release / ".gitignore", b"# what this machine measured, and secrets: never committed\nlocal/\n"
    )
    click.echo(f"{target} written; `race mine {release} --clone PATH --repo OWNER/NAME` comes next")
    return 0
