"""`race grade`: one submission against one task."""

from __future__ import annotations

from pathlib import Path

import click

from race.core.sealed import Sealed
from race.errors import UsageError
from race.options import json_option, print_json, release_argument, verbose_option, workbench
from race.store import Store
from race.work.grading import grade
from race.work.listed import listed_tests


@click.command(
    "grade",
    help="""Grade one submission against one task, in a clean container of its test image.

    The verdict is `resolved` (all that should pass does), `unresolved`, `refused` (the patch may not
    be applied) or `tampered` (the checks disagree), with reasons.

    \b
    Examples:
      race grade tasks/sample sample__brook-7 --patch my.patch
      race grade tasks/sample sample__brook-7 --patch my.patch --json
    """,
)
@release_argument
@click.argument("instance_id", metavar="ID")
@click.option("--patch", required=True, type=click.Path(path_type=Path), help="A unified diff.")
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context, release: Path, instance_id: str, patch: Path, as_json: bool, verbose: int
) -> int:
    """Grade and print the verdict. Exit 0 whenever there is one."""
    try:
        submission = patch.read_bytes()
    except OSError as error:
        raise UsageError(f"{patch}: cannot read the patch: {error.strerror}") from error
    bench = workbench(context)
    store = Store(release)
    task = store.task(store.pick([instance_id])[0])
    lists = listed_tests(task)
    sealed = task.read(Sealed)
    ref = f"{store.settings.repository}:{task.id}.test"
    if sealed is not None and sealed.test_image is not None:
        ref = sealed.test_image.ref
    bench.engine.sweep()
    graded = grade(
        bench.engine,
        ref,
        submission,
        instance_id=task.id,
        fail_to_pass=lists.fail_to_pass,
        pass_to_pass=lists.pass_to_pass,
    )
    if as_json:
        print_json(graded.as_json())
        return 0
    passed = {name: sum(o == "passed" for o in outcomes.values()) for name, outcomes in (
        ("fail_to_pass", graded.fail_to_pass), ("pass_to_pass", graded.pass_to_pass))}  # fmt: skip
    click.echo(f"{task.id}: {graded.verdict}")
    click.echo(f"  fail_to_pass {passed['fail_to_pass']} of {len(graded.fail_to_pass)} passed")
    click.echo(f"  pass_to_pass {passed['pass_to_pass']} of {len(graded.pass_to_pass)} passed")
    for reason in graded.reasons:
        click.echo(f"  because: {reason}")
    for path in graded.set_aside:
        click.echo(f"  set aside, not graded: {path}")
    click.echo(f"  in {graded.image[:19]}, {graded.seconds:.1f} s")
    if verbose:
        for check in graded.checks:
            click.echo(
                f"  {check.purpose}: {check.passed} of {check.tests} passed, {check.seconds:.2f} s"
            )
    return 0
