"""Validates one task: environment, matrix, lists, repeats, and the record that they make."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from race.core.classify import Sorted, classify
from race.core.environment.model import Environment
from race.core.hangs import limit_without, slow
from race.core.interface.applying import apply_diff
from race.core.matrix import Suite, spread, touched_files, touched_suite, whole_suite
from race.core.records import FileRef, Mined
from race.core.reliability import variants_for
from race.core.standing import Dropped
from race.core.validated import Validated, observed, remembered, without, wobbling
from race.core.wanting import nothing_left
from race.errors import Malformed
from race.ports import Image, Limits
from race.settings import ValidateSection
from race.work.cells import Subject
from race.work.environment_images import tree_of
from race.work.environments import build_env
from race.work.evidence import durations, keep_excerpts, keep_matrix
from race.work.failures import explained, failures_of, uncollectable
from race.work.matrix_runs import MatrixRuns, run_matrix
from race.work.repeating import Repeated, repeat, unsteady
from race.work.source import ensure_source
from race.work.stage import Desk
from race.work.steadiness import unsteady_under_load
from race.work.trials import Work


@dataclass(frozen=True)
class Prepared:
    """What the matrix needs and the record names."""

    mined: Mined
    source: FileRef
    environment: Environment
    image: Image
    fix_patch: bytes
    test_patch: bytes
    lock: bytes


def prepare(desk: Desk, mined: Mined, earlier: Validated | None) -> Prepared:
    """Source archive, patches and environment image. Raises Rejection when there can be none."""
    assert mined.fix_patch is not None
    assert mined.test_patch is not None
    bench, store, task = desk.bench, desk.store, desk.task
    desk.say("reading the source")
    source, tar = ensure_source(bench, store, task, mined, earlier, desk.say)
    fix_patch, test_patch = task.read_file(mined.fix_patch), task.read_file(mined.test_patch)
    started = time.monotonic()
    built = build_env(
        bench,
        store,
        task,
        tar,
        repo=mined.repo,
        merged_at=mined.merged_at,
        tests=new_tests(tar, test_patch),
        say=desk.say,
    )
    desk.note(environment_seconds=round(time.monotonic() - started, 1))
    lock = task.read_file(built.environment.requirements_lock)
    return Prepared(mined, source, built.environment, built.image, fix_patch, test_patch, lock)


def new_tests(tar: bytes, test_patch: bytes) -> dict[str, bytes]:
    """The files that the test patch adds or changes, as they are afterwards.

    Nothing when they cannot be told here (links, submodules); whether the patch applies is for git
    to say, in the container.
    """
    kept = [path for path, change in touched_files(test_patch).items() if change != "deleted"]
    try:
        tree = apply_diff(tree_of(tar, limit=2**26), test_patch)
    except Malformed:
        return {}
    return {path: tree[path] for path in kept if path in tree}


def validate_task(desk: Desk, prepared: Prepared, previous: Validated | None) -> Validated:
    """Run all that validation runs. `previous` is a record of the same inputs, or None."""
    started = time.monotonic()
    settings = desk.store.settings.validate_
    subject = subject_of(prepared, settings)
    ran = _matrix(desk, prepared, subject, settings, previous)
    found = explained(classify(ran.outcomes()), ran, touched_files(prepared.test_patch))
    if previous is not None:
        found = remembered(found, previous.dropped)
    keep_matrix(desk.task, ran)
    work = _work(desk, prepared, subject, ran, found.fail_to_pass, previous)
    found = _confirmed(work, found)
    repeated = None
    if found.accepted:
        found, repeated = _bounded(work, found)
        desk.note(repeats=repeated.ledger())
    if found.accepted:
        found = _steady(work, found, ran)
    listed = [*found.fail_to_pass, *found.regressions, *(drop.id for drop in found.dropped)]
    keep_excerpts(desk.task, ran, listed)
    desk.note(
        seconds=round(time.monotonic() - started, 1),
        pytest_seconds=round(
            ran.measuring_seconds + sum(seen.seconds for row in ran.cells.values() for seen in row), 2
        ),
        image=prepared.image.id,
        image_size=prepared.image.size,
    )
    failures = failures_of(ran, repeated)
    return Validated(
        instance_id=desk.task.id,
        accepted=found.accepted,
        findings=(*found.findings, *uncollectable(ran)),
        runs=settings.runs,
        source=prepared.source,
        environment=prepared.environment,
        suite=ran.suite,
        fail_to_pass=found.fail_to_pass,
        pass_to_pass=found.pass_to_pass,
        dropped=(*found.dropped, *_deselected(prepared.environment)),
        regressions=found.regressions,
        failures=observed(found.fail_to_pass, failures, previous.failures if previous else {}),
        reliability=repeated.bounds if repeated is not None and found.accepted else None,
    )


def subject_of(prepared: Prepared, settings: ValidateSection) -> Subject:
    """How this task's tests are run."""
    arguments = [word for pattern in prepared.environment.deselect for word in ("--deselect", pattern)]
    return Subject(
        image=prepared.image.id,
        fix_patch=prepared.fix_patch,
        test_patch=prepared.test_patch,
        limits=Limits(memory_mb=settings.memory_mb, cpus=settings.cpus, pids=settings.pids),
        environment=prepared.environment.environment,
        arguments=tuple(arguments),
        test_seconds=settings.test_seconds,
        run_seconds=settings.run_seconds,
        output_bytes=min(settings.output_mb, 16) * 2**20 // 64,
    )


def _matrix(
    desk: Desk,
    prepared: Prepared,
    subject: Subject,
    settings: ValidateSection,
    previous: Validated | None,
) -> MatrixRuns:
    started = time.monotonic()
    touched = touched_suite(prepared.test_patch)
    settled = previous.suite if previous is not None else None
    if not touched.paths:
        settled = Suite(width="whole", paths=(), why="the change touches no test module by itself")
    ran = run_matrix(
        desk.bench.engine,
        subject,
        touched,
        whole_suite(touched),
        touched_files(prepared.test_patch),
        runs=settings.runs,
        suite_seconds=settings.suite_seconds,
        say=desk.say,
        settled=settled,
    )
    desk.note(matrix_seconds=round(time.monotonic() - started, 2))
    return ran


def _work(
    desk: Desk,
    prepared: Prepared,
    subject: Subject,
    ran: MatrixRuns,
    ids: Sequence[str],
    previous: Validated | None,
) -> Work:
    """The repeats to make. Which tests are left to the matrix is kept from an earlier record."""
    settings = desk.store.settings.validate_.reliability
    some = spread(ids, settings.most_ids)
    took = durations(ran)
    bounded = previous.reliability if previous is not None else None
    earlier = bounded.not_repeated if bounded is not None else None
    slow_ids = slow(some, took.without, settings.hang_seconds, earlier)

    def limit(tests: Sequence[str]) -> float:
        a_pass = max((took.passes.get(i, 0.0) for i in some), default=0.0)
        an_end = max((took.ends.get(i, 0.0) for i in tests), default=0.0)
        return limit_without(subject.test_seconds, settings.hang_seconds, a_pass, an_end)

    variants = variants_for(len(some), uvloop=b"uvloop==" in prepared.lock)
    return Work(
        engine=desk.bench.engine,
        subject=subject,
        instance_id=desk.task.id,
        settings=settings,
        variants=variants if settings.perturb else (),
        slow_ids=frozenset(slow_ids),
        slow_seconds=limit(some),
        empty_seconds=limit([i for i in some if i not in slow_ids]),
        left_out=tuple(test_id for test_id in ids if test_id not in some),
        say=desk.say,
    )


def _confirmed(work: Work, found: Sorted) -> Sorted:
    """Regressions that do not hold when looked at alone are flaky tests; those that hold reject."""
    if not found.regressions or len(found.regressions) > 50:
        return found
    work.say(f"looking again at {len(found.regressions)} regressions")
    return without(found, wobbling(dict.fromkeys(unsteady(work, found.regressions), "flaky")))


def _bounded(work: Work, found: Sorted) -> tuple[Sorted, Repeated]:
    """The lists after the repeats: without what wobbles, rejected when no bound could be had."""
    repeated = repeat(work, [i for i in found.fail_to_pass if i not in work.left_out])
    found = without(found, wobbling(repeated.out))
    if found.accepted and repeated.bounds is None:
        lost = nothing_left("unreliable", sorted(repeated.out))
        found = replace(found, findings=(*found.findings, lost))
    return found, repeated


def _steady(work: Work, found: Sorted, ran: MatrixRuns) -> Sorted:
    """The lists without pass-to-pass tests that fail with the fix on a busy machine."""
    if not work.settings.perturb:
        return found
    seconds = max((seen.seconds for seen in ran.cells["new-with"]), default=0.0)
    out = unsteady_under_load(work, found.pass_to_pass, seconds)
    return without(found, wobbling(dict.fromkeys(out, "flaky")))


def _deselected(environment: Environment) -> list[Dropped]:
    return [Dropped(id=pattern, reason="deselected") for pattern in environment.deselect]
