"""`race doctor`: what race needs from this machine, and with --fix, getting it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from race.errors import Accident, EngineDown, Missing, RaceError
from race.options import json_option, print_json, verbose_option, workbench
from race.work.base_images import (
    base_names,
    ensure_base,
    missing_bases,
    official_image,
    origin_of,
    pythons,
)
from race.workbench import Workbench

NEEDED_GB = 6.0
FIRST_PYTHON = "3.11"
"""The pair that is always needed; others are made when a task asks for them."""


@dataclass(frozen=True)
class Check:
    """One thing that race needs. `required` ones decide the exit code; `advice` is what to do."""

    name: str
    ok: bool
    what: str
    advice: str = ""
    required: bool = True


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Install and start what may be, and make the base images.")
@click.option("--all-pythons", is_flag=True, help="With --fix: base images of every Python.")
@json_option
@verbose_option
@click.pass_context
def command(context: click.Context, fix: bool, all_pythons: bool, as_json: bool, verbose: int) -> int:
    """Check engine, base images, resolver, token and disk.

    Exit code 0 when everything that is required is there, 3 with what to do when it is not. With
    --fix, on Debian or Ubuntu as root, the container engine and mmdebstrap are installed and the
    engine is started; base images are made.

    \b
    Examples:
      race doctor
      race doctor --fix
    """
    bench = workbench(context)

    def say(line: str) -> None:
        click.echo(f"doctor: {line}", err=True)

    if fix:
        _fix(bench, all_pythons, say)
    checks = examine(bench)
    if as_json:
        print_json({"ok": all(check.ok or not check.required for check in checks),
                    "checks": [asdict(check) for check in checks]})  # fmt: skip
    else:
        for check in checks:
            mark = "ok     " if check.ok else ("MISSING" if check.required else "note   ")
            click.echo(f"{mark} {check.name}: {check.what}")
    blocking = [check for check in checks if check.required and not check.ok]
    for check in blocking:
        click.echo(f"race: {check.name}: {check.advice or check.what}", err=True)
    return 3 if blocking else 0


def examine(bench: Workbench) -> list[Check]:
    """Everything that race needs, in the order in which it is needed."""
    engine = _engine(bench)
    return [engine, *(_bases(bench) if engine.ok else ()), _resolver(bench), _disk(bench), _token()]


def _engine(bench: Workbench) -> Check:
    try:
        return Check("engine", True, f"container engine {bench.engine.version()} answers")
    except EngineDown as error:
        return Check("engine", False, str(error), _engine_advice(bench))


def _engine_advice(bench: Workbench) -> str:
    refusal = bench.host.refusal()
    if bench.host.has("dockerd") and not refusal:
        return "run `race doctor --fix` to start it"
    if not refusal:
        return "run `race doctor --fix` to install and start it"
    if bench.host.has("docker"):
        return "start Docker and make sure that you may use its socket"
    return f"install Docker and start it (this host is not set up by race: {refusal})"


def _bases(bench: Workbench) -> list[Check]:
    checks = []
    for python in pythons():
        missing = missing_bases(bench, python)
        what = f"missing: {', '.join(missing)}" if missing else _origin(bench, python)
        advice = "run `race doctor --fix` to make them" if missing else ""
        required = python == FIRST_PYTHON
        checks.append(Check(f"base images py{python}", not missing, what, advice, required))
    return checks


def _origin(bench: Workbench, python: str) -> str:
    """What a pair was made from, and how to have it from the image that this workspace names."""
    names, workspace = base_names(python), bench.workspace
    origin = origin_of(bench, names) or "the current recipe"
    said = f"made from {origin}"
    named = workspace.registry or python in workspace.base_images
    if named and workspace.registry_pull and "@" not in origin:
        wanted = official_image(workspace, python)
        said += f"; remove {names.runtime} and {names.builder} to have them made from {wanted}"
    return said


def _resolver(bench: Workbench) -> Check:
    try:
        return Check("resolver", True, f"{bench.resolver.reach()}, its index answers")
    except (Accident, Missing) as error:
        return Check("resolver", False, str(error), f"{error}; set index_url or ca_bundle in race.toml")


def _disk(bench: Workbench) -> Check:
    where = bench.workspace.cache_dir
    while not where.exists() and where != where.parent:
        where = where.parent
    free = shutil.disk_usage(where).free / 1e9
    docker = Path("/var/lib/docker")
    if docker.exists():
        free = min(free, shutil.disk_usage(docker).free / 1e9)
    advice = (
        f"free some: a first run needs about {NEEDED_GB:.0f} GB; `race clean` removes images of ours"
    )
    return Check("disk", free >= NEEDED_GB, f"{free:.1f} GB free", advice)


def _token() -> Check:
    has = bool(os.environ.get("GITHUB_TOKEN"))
    what = (
        "GITHUB_TOKEN is set" if has else "GITHUB_TOKEN is not set; only `race mine --github` needs it"
    )
    return Check("token", has, what, required=False)


def _fix(bench: Workbench, all_pythons: bool, say: Callable[[str], None]) -> None:
    host, refusal = bench.host, bench.host.refusal()

    def answers() -> bool:
        try:
            bench.engine.version()
        except EngineDown:
            return False
        return True

    if not answers():
        if refusal:
            raise Missing(f"no container engine answers: {_engine_advice(bench)}")
        if not host.has("dockerd"):
            say("installing the container engine (Debian package docker.io)")
            host.install(["docker.io"])
        say("starting the container engine")
        say(f"the container engine is up: {host.start_engine(answers)}")
    for python in pythons() if all_pythons else [FIRST_PYTHON]:
        if missing_bases(bench, python):
            _make_bases(bench, python, refusal, say)


def _make_bases(bench: Workbench, python: str, refusal: str, say: Callable[[str], None]) -> None:
    if not bench.host.has("mmdebstrap") and not refusal:
        say("installing mmdebstrap")
        bench.host.install(["mmdebstrap"])
    try:
        ensure_base(bench, python, say=say)
    except RaceError as error:
        say(str(error))
