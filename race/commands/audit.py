"""race audit: the leak audit of any image."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import click

from race.core.leaks.fragments import wanted_from
from race.core.leaks.kinds import NOT_OPENED
from race.core.leaks.patchtext import PatchedFile, read_patch
from race.core.sealed import ProbeResult
from race.errors import Malformed, UsageError
from race.options import json_option, print_json, verbose_option, workbench
from race.work.leak_scan import Audit, AuditRequest, audit_image

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("audit")
@click.argument("image")
@click.option("--fix-patch", type=_FILE, required=True, help="The reference fix, a unified diff.")
@click.option("--test-patch", type=_FILE, help="The hidden tests, a unified diff.")
@click.option("--workdir", default="/repo", show_default=True, help="Where the repository lies.")
@click.option(
    "--base",
    type=click.Path(path_type=Path),
    help="The base tree, a folder or tar file: tells common lines from leaks.",
)
@click.option("--commit", "commits", multiple=True, help="A commit id that nothing may name.")
@click.option("--number", "numbers", multiple=True, help="A pull request or issue number.")
@click.option("--no-live", is_flag=True, help="Start no container of it.")
@click.option("--no-cache", is_flag=True, help="Search all layers again.")
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    image: str,
    fix_patch: Path,
    test_patch: Path | None,
    workdir: str,
    base: Path | None,
    commits: tuple[str, ...],
    numbers: tuple[str, ...],
    no_live: bool,
    no_cache: bool,
    as_json: bool,
    verbose: int,
) -> int:
    """Search every layer of an image for a fix and its hidden tests, and run every leak probe.

    Any image on this engine can be audited. Exit 0 when it is clean, 1 with findings.

    \b
    Examples:
      race audit race-sample:sample__brook-7.env --fix-patch tasks/sample/sample__brook-7/fix.patch
      race audit other/image:tag --fix-patch fix.patch --test-patch test.patch --workdir /testbed --json
    """
    bench = workbench(context)
    wanted = wanted_from(
        _patch(fix_patch),
        _patch(test_patch) if test_patch else (),
        list(_tree(base)) if base else None,
        commits,
    )
    request = AuditRequest(
        image=image,
        wanted=wanted,
        workdir=workdir,
        cache=None if no_cache else bench.workspace.cache_dir,
        live=not no_live,
        commits=commits,
        numbers=numbers,
        say=(lambda line: click.echo(f"audit: {line}", err=True)) if verbose else (lambda _: None),
    )
    audit = audit_image(bench.engine, request)
    if as_json:
        print_json(audit.as_json())
    for line in _lines(audit):
        click.echo(line, err=as_json)
    return 0 if audit.clean else 1


def _patch(path: Path) -> tuple[PatchedFile, ...]:
    try:
        return read_patch(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _tree(base: Path) -> Iterator[bytes]:
    if base.is_dir():
        for path in sorted(base.rglob("*")):
            if path.is_file() and not path.is_symlink() and ".git" not in path.parts:
                yield path.read_bytes()
        return
    try:
        with tarfile.open(base) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is not None:
                    yield stream.read()
    except FileNotFoundError as error:
        raise UsageError(f"{base}: there is no such file or folder") from error
    except tarfile.TarError as error:
        raise Malformed(base, "", f"no tar archive: {error}") from error


def _lines(audit: Audit) -> list[str]:
    lines = []
    for probe in audit.probes:
        lines += [_line(probe)]
        for found in probe.findings[:10]:
            place = f"layer {found.layer}" if found.layer >= 0 else "image"
            lines.append(f"    {found.path} ({place}): {found.what}: {found.excerpt[:120]}")
        if len(probe.findings) > 10:
            lines.append(f"    and {len(probe.findings) - 10} more")
    lines += [f"not checked: {why}" for why in audit.not_checked]
    lines += [f"never opened: {what}" for what in NOT_OPENED]
    passed = sum(probe.passed for probe in audit.probes)
    failed = sum(bool(probe.findings) for probe in audit.probes)
    skipped = len(audit.probes) - passed - failed
    verdict = "clean" if audit.clean else "NOT CLEAN"
    counts = f"{passed} passed + {failed} failed + {skipped} not checked = {len(audit.probes)} probes"
    lines.append(f"audit: {audit.image}: {verdict}; {counts}; {audit.seconds:.1f} s")
    return lines


def _line(probe: ProbeResult) -> str:
    mark = "pass" if probe.passed else ("FAIL" if probe.checked else "skip")
    return f"{mark}  {probe.name}: {probe.title}"
