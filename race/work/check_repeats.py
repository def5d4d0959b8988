"""Runs of the fail-to-pass tests that a release check adds, on the environment that it has rebuilt."""

from __future__ import annotations

from race.core.records import Finding
from race.errors import Missing
from race.ports import Image, Limits
from race.settings import ReliabilitySection
from race.work.cells import Subject
from race.work.repeating import repeat
from race.work.sealing import Materials
from race.work.stage import Desk
from race.work.trials import Work


def unreliable(desk: Desk, made: Materials, env: Image, repeats: int) -> list[Finding]:
    """Fail-to-pass tests that further runs on the rebuilt environment saw go wrong."""
    environment = made.validated.environment
    if environment is None:
        raise Missing(f"{desk.task.id} has no validated environment")
    settings = desk.store.settings.validate_
    tried = made.fail_to_pass[: settings.reliability.most_ids]
    hangs = [i for i in tried if (f := made.validated.failures.get(i)) and f.outcome == "hang"]
    if made.validated.reliability is not None and tried == made.fail_to_pass:
        hangs += made.validated.reliability.not_repeated
    plan = ReliabilitySection(
        limit=1.0 - 0.05 ** (1.0 / repeats) + 1e-9,
        repeats=repeats,
        seed=settings.reliability.seed + 1,
        perturb=False,
        hang_seconds=settings.reliability.hang_seconds,
    )
    desk.say(f"repeating the fail-to-pass tests {repeats} times each way")
    done = repeat(
        Work(
            engine=desk.bench.engine,
            subject=Subject(
                image=env.id,
                fix_patch=made.fix,
                test_patch=made.tests,
                limits=Limits(settings.memory_mb, settings.cpus, settings.pids),
                environment=environment.environment,
                arguments=tuple(w for p in environment.deselect for w in ("--deselect", p)),
                test_seconds=settings.test_seconds,
                run_seconds=settings.run_seconds,
            ),
            instance_id=desk.task.id,
            settings=plan,
            slow_ids=frozenset(hangs),
            slow_seconds=settings.reliability.hang_seconds,
        ),
        tried,
    )
    desk.note(repeats=done.ledger())
    words = {"unreliable": "does not always fail without the fix", "flaky": "fails with the fix"}
    return [
        Finding(rule="unreliable", message=f"{test_id} {words.get(why, why)}", place=test_id)
        for test_id, why in sorted(done.out.items())
    ]
