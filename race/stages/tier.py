"""`race tier`: measure difficulty and effort with calibration agents."""

from __future__ import annotations

from race.core.attempts import Attempt, contestant
from race.core.records import Finding, Mined, digest
from race.core.scripted import PREFIX
from race.core.tiered import Tiered
from race.core.tiering import bounds, by_agent, complexity, effort, tier
from race.errors import Malformed, UsageError
from race.stages._loop import stage_command
from race.store import Store, TaskFolder
from race.work.attempt import Given, attempt, given, protocol
from race.work.run_log import RunLog, due
from race.work.stage import Desk, Stage


def inputs(task: TaskFolder, store: Store) -> dict[str, str]:
    """The statement, the images, the protocol, and the release's calibration settings."""
    mined = task.read(Mined)
    fix = task.read_file(mined.fix_patch) if mined is not None and mined.fix_patch else b""
    return protocol(store, task, fix) | {"settings": store.settings.slice_digest("tier")}


def agents(store: Store) -> list[tuple[str, str]]:
    """The calibration agents and their models. Malformed or UsageError when one cannot take part."""
    found = []
    for name in store.settings.tier.agents:
        try:
            found.append(contestant(name))
        except UsageError as error:
            raise Malformed(store.folder / "release.toml", "tier.agents", str(error)) from error
    if any(agent.startswith(PREFIX) for agent, _ in found) and not store.settings.release.sample:
        raise UsageError(
            "tier.agents: scripted agents know the fix; they calibrate sample releases only"
        )
    return found


def work(desk: Desk) -> Tiered:
    """All planned attempts that have not been made yet, then the labels.

    Attempts are kept one by one: a killed run goes on where it stopped, and `--force` works out the
    labels again without paying for the attempts again.
    """
    settings = desk.store.settings.tier
    calibrating = agents(desk.store)
    if not calibrating:
        finding = Finding(
            rule="no-calibration",
            message="not calibrated: release.toml names no agents under [tier]",
            severity="warning",
        )
        return Tiered(instance_id=desk.task.id, accepted=True, findings=(finding,))
    what = given(desk.store, desk.task)
    rows: list[Attempt] = []
    for agent, model in calibrating:
        rows += _attempts(desk, what, agent, model, settings.attempts)
    resolved = sum(row.resolved for row in rows)
    low, high = bounds(len(rows), resolved)
    steps = effort(rows)
    desk.note(runs=[digest(row.model_dump(mode="json"))[:16] for row in rows])
    return Tiered(
        instance_id=desk.task.id,
        accepted=True,
        tier=tier(len(rows), resolved),
        complexity=complexity(steps, settings.short_steps, settings.medium_steps),
        attempts=len(rows),
        resolved=resolved,
        low=low,
        high=high,
        effort_steps=steps,
        scripted=any(row.scripted for row in rows),
        agents=by_agent(rows),
    )


def _attempts(desk: Desk, what: Given, agent: str, model: str, planned: int) -> list[Attempt]:
    made = RunLog(desk.store).made(what.digest, desk.task.id, agent, model)
    for number in due(made, planned):
        made[number] = attempt(desk.bench, desk.store, what, agent, model, number, desk.say)
    return [made[number] for number in range(1, planned + 1)]


STAGE = Stage("tier", Tiered, inputs, work, engine=True)
command = stage_command(
    STAGE,
    "Measure difficulty and effort: the agents of release.toml attempt every task under the protocol, "
    "and the results sort it into clean, split or hard, and short, medium or long.",
    ("race tier tasks/sample -j 2", "race tier tasks/2026-q1 agronholm__anyio-1145 -v"),
)
