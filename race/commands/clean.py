"""`race clean`: removes what race made on the container engine, by label, and nothing else."""

from __future__ import annotations

from pathlib import Path

import click

from race.errors import Accident, EngineDown
from race.options import json_option, print_json, verbose_option, workbench
from race.ports import Image
from race.store import Store
from race.workbench import Workbench

OURS = "race.recipe"
RESIDUE = "race.builder"


@click.command("clean")
@click.argument("release", required=False, type=click.Path(path_type=Path))
@json_option
@verbose_option
@click.pass_context
def command(context: click.Context, release: Path | None, as_json: bool, verbose: int) -> int:
    """Remove containers and images that race made (by label), nothing else.

    With a release folder: its images, layers of dependencies that only they used, and build cache.
    Without: all images of race, base images too. Containers of race processes that still run stay,
    and so do the images that they use.

    \b
    Examples:
      race clean tasks/sample
      race clean
    """
    bench = workbench(context)
    containers = bench.engine.sweep()
    chosen = _of_release(bench, Store(release)) if release else bench.engine.images(OURS)
    below = [image for image in bench.engine.images("race.deps") if _is_below(image, chosen)]
    removed, kept = _remove(bench, chosen)
    _remove(bench, bench.engine.images(RESIDUE))
    if release is not None:
        unused, _ = _remove(bench, _unused(below, bench.engine.images(OURS)))
        removed += unused
    running = len(bench.engine.containers())
    if as_json:
        print_json({"containers": containers, "images": removed, "kept": kept, "running": running})
    for name in removed if verbose else []:
        click.echo(f"removed {name}", err=True)
    note = f", {len(kept)} images kept (in use)" if kept else ""
    note += f", {running} containers of running commands left alone" if running else ""
    click.echo(f"clean: {containers} containers and {len(removed)} images removed{note}", err=as_json)
    return 0


def _of_release(bench: Workbench, store: Store) -> list[Image]:
    return bench.engine.images(f"race.release={store.settings.release.name}")


def _unused(candidates: list[Image], every: list[Image]) -> list[Image]:
    """Images that no other one is built on; the engine itself would take away the name of one in use."""
    return [image for image in candidates if not _is_below(image, every)]


def _is_below(image: Image, others: list[Image]) -> bool:
    return any(
        other.id != image.id and other.layers[: len(image.layers)] == image.layers for other in others
    )


def _remove(bench: Workbench, images: list[Image]) -> tuple[list[str], list[str]]:
    """Names removed, and names that the engine would not give up. Children go before parents."""
    removed: list[str] = []
    kept: list[str] = []
    for image in sorted(images, key=lambda image: -len(image.layers)):
        for name in image.tags or (image.id,):
            try:
                bench.engine.remove_image(name)
            except EngineDown:
                raise
            except Accident:
                kept.append(name)
            else:
                removed.append(name)
    return removed, kept
