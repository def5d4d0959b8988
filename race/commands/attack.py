"""`race attack`: the battery of attacks and honest patches against one task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from race.battery.entries import Entry, battery
from race.battery.rendering import DoesNotFit
from race.core.grading import Graded
from race.core.records import Mined
from race.core.sealed import Sealed
from race.core.validated import Validated
from race.errors import CheckFailed, Missing, UnknownId
from race.options import (
    jobs_option,
    json_option,
    print_json,
    release_argument,
    verbose_option,
    workbench,
)
from race.progress import Progress
from race.store import Store, TaskFolder
from race.work.attacking import Attacked, BaseTree, run_battery
from race.work.grading import grade
from race.work.listed import listed_tests
from race.work.soma_grading import grade_by_soma
from race.work.source import read_source


@click.command(
    "attack",
    help="""Run the battery against a task: patches that try to buy a verdict, and honest, unusual ones.

    No attack may be resolved; every honest patch has to be graded on its merits. Exit 1 when one was
    not. It is the test that a task passes before it ships. The route is race's own (grade), the steps of
    a SOMA validator (soma: the patch is applied by git or GNU patch as the image's user, then
    run_tests), or both.

    \b
    Examples:
      race attack tasks/sample sample__brook-7 -j 2
      race attack tasks/sample sample__brook-7 --route both --only conftest-root --only fuzz --json
    """,
)
@release_argument
@click.argument("instance_id", metavar="ID")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Only this entry of the battery; repeatable."
)
@click.option(
    "--route",
    type=click.Choice(["grade", "soma", "both"]),
    default="grade",
    show_default=True,
    help="How each patch is graded.",
)
@jobs_option
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    release: Path,
    instance_id: str,
    only: tuple[str, ...],
    route: str,
    jobs: int,
    as_json: bool,
    verbose: int,
) -> int:
    """Grade every entry and print the table."""
    entries = _chosen(only)
    bench, store = workbench(context), Store(release)
    task = store.task(store.pick([instance_id])[0])
    tree, fix, test = _published(task)
    lists = listed_tests(task)
    sealed = task.read(Sealed)
    if sealed is None or sealed.test_image is None:
        raise Missing(f"{task.id} has no test image yet; `race seal` builds it")
    ref = sealed.test_image.ref
    try:
        place = tree.target(fix, test, lists.fail_to_pass, lists.pass_to_pass)
    except DoesNotFit as error:
        raise CheckFailed(f"{task.id}: the battery does not fit this task: {error}") from error
    bench.engine.sweep()

    def by(way: Callable[..., Graded]) -> Callable[[bytes], Graded]:
        return lambda patch: way(
            bench.engine,
            ref,
            patch,
            instance_id=task.id,
            fail_to_pass=lists.fail_to_pass,
            pass_to_pass=lists.pass_to_pass,
        )

    ways: dict[str, Callable[..., Graded]] = {"grade": grade, "soma": grade_by_soma}
    routes = {name: by(way) for name, way in ways.items() if route in (name, "both")}
    outcomes: list[Attacked] = []
    progress = Progress("attack", len(entries) * len(routes), verbose=verbose)
    with progress.running():
        for outcome in run_battery(entries, place, tree, fix, routes, jobs=jobs):
            outcomes.append(outcome)
            progress.finished(outcome.entry.name, _word(outcome))
    if as_json:
        print_json(_as_json(task.id, ref, outcomes))
    else:
        _print_table(outcomes)
    click.echo(_tally(outcomes), err=as_json)
    return 0 if all(outcome.held for outcome in outcomes) else 1


def _chosen(only: tuple[str, ...]) -> list[Entry]:
    entries = battery()
    known = [entry.name for entry in entries]
    for name in only:
        if name not in known:
            raise UnknownId(name, known, "the battery")
    return [entry for entry in entries if not only or entry.name in only]


def _published(task: TaskFolder) -> tuple[BaseTree, bytes, bytes]:
    """The tree at the base, the reference fix and the hidden tests, from the release folder."""
    mined, validated = task.read(Mined), task.read(Validated)
    if mined is None or mined.fix_patch is None or mined.test_patch is None:
        raise Missing(f"{task.id} has no patches; `race mine` finds them")
    if validated is None or validated.source is None:
        raise Missing(f"{task.id} has no source tree; `race validate` keeps it")
    tree = BaseTree(read_source(task, validated.source))
    return tree, task.read_file(mined.fix_patch), task.read_file(mined.test_patch)


def _word(outcome: Attacked) -> str:
    if outcome.graded is None:
        return f"not for this task: {outcome.why}"
    return outcome.graded.verdict if outcome.held else f"{outcome.graded.verdict}: WRONG"


def _print_table(outcomes: list[Attacked]) -> None:
    wide = max(len(outcome.entry.name) for outcome in outcomes)
    for outcome in outcomes:
        reason = "" if outcome.graded is None else "; ".join(outcome.graded.reasons)[:100]
        head = f"{outcome.route:<5}  {outcome.entry.kind:<10}  {outcome.entry.name:<{wide}}"
        click.echo(f"{head}  {_word(outcome)}  {reason}")


def _tally(outcomes: list[Attacked]) -> str:
    attacks = [o for o in outcomes if not o.entry.honest and o.graded is not None]
    honest = [o for o in outcomes if o.entry.honest and o.graded is not None]
    words = [f"{sum(o.graded.verdict == verdict for o in attacks if o.graded)} {verdict}"
             for verdict in ("resolved", "unresolved", "refused", "tampered")]  # fmt: skip
    return (
        f"attack: {len(attacks)} attacks ({', '.join(words)}) + {len(honest)} honest patches "
        f"({sum(not o.held for o in honest)} wrong) + {sum(o.graded is None for o in outcomes)} "
        f"not for this task = {len(outcomes)}"
    )


def _as_json(instance_id: str, image: str, outcomes: list[Attacked]) -> dict[str, object]:
    rows = [
        {
            "name": outcome.entry.name,
            "kind": outcome.entry.kind,
            "mechanism": outcome.entry.mechanism,
            "verdict": None if outcome.graded is None else outcome.graded.verdict,
            "route": outcome.route,
            "seconds": None if outcome.graded is None else round(outcome.graded.seconds, 3),
            "expected": list(outcome.entry.verdicts(outcome.route)),
            "as_expected": outcome.as_expected,
            "held": outcome.held,
            "reasons": [outcome.why] if outcome.graded is None else list(outcome.graded.reasons),
        }
        for outcome in outcomes
    ]
    return {
        "instance_id": instance_id,
        "image": image,
        "held": all(outcome.held for outcome in outcomes),
        "entries": rows,
    }
