"""The `race` command: the list of its commands, shared options, and the one error boundary.

A command's module is imported when that command is called, so that `race --help` costs click alone.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any

import click

from race import __version__
from race.errors import RaceError

COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("race.commands.doctor", "Check engine, base images, resolver, token and disk."),
    "init": ("race.commands.init", "Make a release folder with a commented release.toml."),
    "sample": ("race.commands.sample", "Write the sample project: a git repository of fixed commits."),
    "mine": ("race.stages.mine", "Find merged pull requests that fix a concurrency bug, with tests."),
    "validate": ("race.stages.validate", "Build environments and prove that each bug reproduces."),
    "specify": ("race.stages.specify", "Write and audit the bug reports that agents see."),
    "seal": ("race.stages.seal", "Build the shipped images and probe them for leaks."),
    "tier": ("race.stages.tier", "Measure difficulty and effort with calibration agents."),
    "verify": ("race.stages.verify", "Check what ships, rebuilt from the release folder alone."),
    "build": ("race.stages.build", "Run all six stages in order."),
    "status": ("race.commands.status", "Show every task and where it stands."),
    "explain": ("race.commands.explain", "Show one task's matrix, bounds and rungs on one screen."),
    "grade": ("race.commands.grade", "Grade one submission against one task."),
    "attack": ("race.commands.attack", "Run the attack battery against a task."),
    "audit": ("race.commands.audit", "Audit any image for leaks of a fix or of hidden tests."),
    "run": ("race.commands.run", "Run an agent on tasks under the protocol."),
    "score": ("race.commands.score", "Score recorded runs by SOMA's formulas."),
    "leaderboard": ("race.commands.leaderboard", "Rank agents, with intervals, cost and effort."),
    "contamination": ("race.commands.contamination", "Compare tasks merged before and after a date."),
    "export": ("race.commands.export", "Write task lists and task folders for other harnesses."),
    "report": ("race.commands.report", "Write the static site of a release."),
    "clean": ("race.commands.clean", "Remove containers and images that race made, nothing else."),
}  # fmt: skip
SECTIONS = {
    "Set up": ("doctor", "init", "sample", "clean"),
    "Build a release": ("build", "mine", "validate", "specify", "seal", "tier", "verify"),
    "Look at it": ("status", "explain"),
    "Grade, attack, audit, run": ("grade", "attack", "audit", "run"),
    "Score runs": ("score", "leaderboard", "contamination"),
    "Publish": ("export", "report"),
}
"""How `race --help` orders the commands."""


class Commands(click.Group):
    """A group that knows its commands' names and one line each without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no command {args[0]!r}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for section, names in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), COMMANDS[name][1]) for name in names])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="race")
def group() -> None:
    """Merged pull requests that fix concurrency bugs, as sealed and graded tasks.

    \b
    Examples:
      race build tasks/sample -j 2
      race grade tasks/sample sample__brook-7 --patch my.patch
    """


def _write_log() -> str:
    handle, path = tempfile.mkstemp(prefix="race-bug-", suffix=".log")
    with os.fdopen(handle, "w") as stream:
        stream.write(f"race {__version__}\n{sys.argv}\n{traceback.format_exc()}")
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end the process with its documented exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None, **tools: Any) -> int:
    """Run a command; its exit code. `tools` become attributes of the command's context object.

    This is the one place that catches everything: an error of ours is one line on standard error,
    anything else is a bug whose traceback goes to a file.
    """
    logging.getLogger("race").addHandler(logging.NullHandler())
    try:
        result = group.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="race",
            standalone_mode=False,
            obj=tools,
        )
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        if context is not None:
            click.echo(context.get_usage(), err=True)
        click.echo(f"race: {' '.join(error.format_message().split())}", err=True)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except RaceError as error:
        click.echo(f"race: {error}", err=True)
        return error.exit_code
    except Exception:  # noqa: BLE001 - the one error boundary
        click.echo(f"race: this is a bug in race; its traceback is in {_write_log()}", err=True)
        return 70
    return result if isinstance(result, int) else 0
