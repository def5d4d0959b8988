"""`race build`: all six stages in order, each over every task that is still in."""

from __future__ import annotations

from pathlib import Path

import click

from race.errors import UsageError
from race.options import (
    force_option,
    here_option,
    jobs_option,
    json_option,
    print_json,
    release_argument,
    verbose_option,
    workbench,
)
from race.progress import Progress
from race.stages._loop import run_stage
from race.store import STAGE_ORDER, Store
from race.work.manifests import write_manifest
from race.work.mining_run import mine_release
from race.work.stage import stage_named
from race.work.tally import Tally


def known_clones(store: Store, given: dict[str, Path], workspace: dict[str, str]) -> dict[str, Path]:
    """Where each project's clone is: named on the command line, in race.toml, or when last mined."""
    remembered = {**store.read_local("clones.json"), **workspace}
    return {repo: Path(path) for repo, path in remembered.items()} | given


@click.command("build")
@release_argument
@click.option(
    "--clone", type=click.Path(path_type=Path), help="A local clone to mine first; needs --repo."
)
@click.option("--repo", metavar="OWNER/NAME", help="The clone's project.")
@jobs_option
@force_option
@here_option
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    release: Path,
    clone: Path | None,
    repo: str | None,
    jobs: int,
    force: bool,
    here: bool,
    as_json: bool,
    verbose: int,
) -> int:
    """Run all six stages in order: mine, validate, specify, seal, tier, verify.

    Mines the clones that are known (from --clone, race.toml, or earlier mining on this machine)
    between `since` and `until` of release.toml's [mine]; without a clone it goes on with the tasks
    that the release already has.

    \b
    Examples:
      race build tasks/sample -j 2
      race build tasks/winter --clone ~/src/anyio --repo agronholm/anyio
    """
    if (clone is None) != (repo is None):
        raise UsageError("--clone and --repo belong together")
    bench = workbench(context)
    store = Store(release)
    tallies: dict[str, Tally] = {}
    with store.lock():
        given = {repo: clone} if clone is not None and repo is not None else {}
        clones = known_clones(store, given, bench.workspace.clones)
        if clones:
            progress = Progress("mine", len(clones), verbose=verbose)
            with progress.running():
                tallies["mine"] = mine_release(store, bench, clones, progress=progress)
            click.echo(tallies["mine"].line("mine"), err=as_json)
        for name in STAGE_ORDER[1:]:
            ids = store.ids()
            progress = Progress(name, len(ids), verbose=verbose)
            with progress.running():
                tallies[name] = run_stage(
                    stage_named(name),
                    store,
                    bench,
                    ids,
                    jobs=jobs,
                    force=force,
                    here=here,
                    progress=progress,
                )
            click.echo(tallies[name].line(name), err=as_json)
        write_manifest(store)
    if as_json:
        print_json({name: tally.as_json() for name, tally in tallies.items()})
    return max(tally.exit_code for tally in tallies.values())
