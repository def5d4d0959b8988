"""Grades a submission by the steps of a SOMA validator: apply it, run `run_tests`, read the report.

A validator knows nothing of race. It applies the patch as the image's default user, with GNU patch and
fuzz as its last resort, restores nothing, refuses nothing, and believes the report.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from race.core.grading import Graded, GraderBroke, read_report, soma_resolved, without_container
from race.core.records import sha256
from race.errors import Accident, Missing
from race.ports import ContainerSpec, Engine, Limits
from race.work.test_image import REPORT, ROOT, RUN_TESTS, SUBMISSION

APPLY = (
    f"git apply --verbose --whitespace=nowarn /tmp/{SUBMISSION}",
    f"git apply --3way --whitespace=nowarn /tmp/{SUBMISSION}",
    f"patch --batch --fuzz=5 -p1 -i /tmp/{SUBMISSION}",
)
CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
"""What a container has when nobody says otherwise, as a validator does not."""
LIMIT = 1800.0


def grade_by_soma(
    engine: Engine,
    image_ref: str,
    patch: bytes,
    *,
    instance_id: str,
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
) -> Graded:
    """The verdict of the report that is left, which has to say the same as its list of tests.

    A patch that none of the three ways applies is unresolved. Raises Missing, EngineDown, and Accident
    when no report is left, which a validator takes for an error of the infrastructure.
    """
    image = engine.image(image_ref)
    if image is None:
        raise Missing(f"there is no image {image_ref}; `race seal` builds it")
    trivial = without_container(instance_id, patch, fail_to_pass, pass_to_pass, image.id)
    if trivial is not None:
        return trivial
    started = time.monotonic()
    spec = ContainerSpec(
        image=image.id,
        workdir=ROOT,
        capabilities=CAPABILITIES,
        limits=Limits(4096, cpus=2.0, pids=4096),
        lifetime=LIMIT + 120,
    )
    chain = " || ".join(APPLY)
    with engine.container(spec) as container:
        container.put("/tmp", {SUBMISSION: patch})
        applied = container.run(
            ["sh", "-lc", f"git config --global --add safe.directory {ROOT}; {chain}"], timeout=120
        )
        if applied.exit_code == 0:
            container.run(["sh", "-lc", RUN_TESTS], timeout=LIMIT)
            text = container.get(REPORT)
    seconds = time.monotonic() - started
    if applied.exit_code != 0:
        said = applied.output.decode(errors="replace").strip().splitlines()[-1:]
        return Graded(
            instance_id=instance_id,
            verdict="unresolved",
            reasons=(f"the patch does not apply: {''.join(said)[:200]}",),
            fail_to_pass=dict.fromkeys(fail_to_pass, "missing"),
            pass_to_pass=dict.fromkeys(pass_to_pass, "missing"),
            image=image.id,
            patch=sha256(patch),
            seconds=seconds,
        )
    if text is None:
        raise Accident(f"{instance_id}: run_tests left no report")
    return _believed(text, instance_id, fail_to_pass, pass_to_pass, image.id, patch, seconds)


def _believed(
    text: bytes,
    instance_id: str,
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    image: str,
    patch: bytes,
    seconds: float,
) -> Graded:
    """The report as a validator takes it; the grader's own words beside it, which have to agree."""
    try:
        graded = read_report(
            text, instance_id, fail_to_pass, pass_to_pass, image=image, patch=patch, seconds=seconds
        )
    except GraderBroke as error:
        raise Accident(f"{instance_id}: {error}") from error
    if soma_resolved(json.loads(text), [*fail_to_pass, *pass_to_pass]) != graded.resolved:
        raise Accident(f"{instance_id}: the report's tests and its verdict do not agree")
    return graded
