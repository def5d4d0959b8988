"""Grades a submission in a clean container of the task's test image."""

from __future__ import annotations

import time
from collections.abc import Sequence

from race.core.grading import Graded, GraderBroke, read_report, without_container
from race.errors import Accident, Missing
from race.ports import ContainerSpec, Engine, Limits
from race.work.observing import CAPABILITIES
from race.work.test_image import REPORT, ROOT, RUN_TESTS, SUBMISSION

LIMIT = 1800.0
MARK = b"\x1erace-report\x1e"
GRADE = rf"sh {RUN_TESTS}; printf '\036race-report\036'; cat {REPORT}"
"""The report comes with the end of the command: to copy it out afterwards costs as much as a check."""


def grade(
    engine: Engine,
    image_ref: str,
    patch: bytes,
    *,
    instance_id: str,
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    limits: Limits | None = None,
    run_empty: bool = False,
) -> Graded:
    """Grade one patch in a fresh container that runs nothing else.

    An empty patch is unresolved without a container, unless `run_empty` asks what the tests say about
    the untouched base (then `resolved` means that the task is broken). Raises Missing when the engine
    has no such image, EngineDown, and Accident when the grader itself did not come to a verdict.
    """
    image = engine.image(image_ref)
    if image is None:
        raise Missing(f"there is no image {image_ref}; `race seal` builds it")
    trivial = without_container(instance_id, patch, fail_to_pass, pass_to_pass, image.id)
    if trivial is not None and not (run_empty and not patch.strip()):
        return trivial
    started = time.monotonic()
    spec = ContainerSpec(
        image=image.id,
        user="root",
        workdir=ROOT,
        capabilities=CAPABILITIES,
        limits=limits or Limits(memory_mb=4096, cpus=2.0, pids=1024),
        lifetime=LIMIT + 120,
    )
    with engine.container(spec) as container:
        if patch.strip():
            container.put("/tmp", {SUBMISSION: patch}, mode=0o600)
        result = container.run(
            ["sh", "-c", GRADE], timeout=LIMIT, user="root", workdir=ROOT, output_limit=2**26
        )
    text = result.output.partition(MARK)[2]
    seconds = time.monotonic() - started
    if not text:
        tail = result.output[-500:].decode(errors="replace").strip()
        raise Accident(f"{instance_id}: the grader left no report (exit {result.exit_code}): {tail}")
    try:
        return read_report(
            text, instance_id, fail_to_pass, pass_to_pass, image=image.id, patch=patch, seconds=seconds
        )
    except GraderBroke as error:
        raise Accident(f"{instance_id}: {error}") from error
