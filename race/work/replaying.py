"""Runs one recorded repeat again: the same side, perturbation and seed, as often as asked."""

from __future__ import annotations

from typing import Any

from race.core.hangs import repeated_without
from race.core.matrix import Cell
from race.core.records import Mined
from race.core.reliability import PLAIN, parse_trial
from race.core.standing import WOBBLY
from race.core.validated import Validated
from race.errors import Missing, UsageError
from race.store import Store, TaskFolder
from race.work.cells import open_cell
from race.work.environments import rebuild_env
from race.work.source import read_source
from race.work.trials import QUOTA, TrialResult, Work, run_trials
from race.work.validating import Prepared, subject_of
from race.workbench import Workbench


def replay(
    bench: Workbench, store: Store, task: TaskFolder, record: Validated, key: str, times: int
) -> dict[str, Any]:
    """What the fail-to-pass tests and the ones dropped for wobbling do in that repeat.

    A race stays a race: the seed fixes what we do to it, not what the machine does.
    """
    settings = store.settings.validate_
    try:
        one = parse_trial(key, settings.reliability.seed, task.id)
    except ValueError as error:
        raise UsageError(f"--replay {key}: {error}") from error
    ids = sorted((*record.fail_to_pass, *(drop.id for drop in record.dropped if drop.reason in WOBBLY)))
    if not ids or record.source is None or record.environment is None:
        raise Missing(f"{task.id} has no test to repeat; `race explain` without --replay says why")
    if one.side == "without" and record.reliability is not None:
        ids = [*repeated_without(ids, record.reliability.not_repeated)]
    prepared = prepared_again(bench, store, task, record)
    work = Work(bench.engine, subject_of(prepared, settings), task.id, settings.reliability)
    runs: list[dict[str, str]] = []

    def take(result: TrialResult) -> None:
        other = "not reached" if result.cut else "missing"
        runs.append({test_id: result.outcomes.get(test_id, other) for test_id in ids})

    cell: Cell = "new-with" if one.side == "with" else "new-without"
    cpus = QUOTA if one.variant == "cpu-quota" else None
    bench.engine.sweep()
    with open_cell(bench.engine, work.subject, cell, cpus=cpus) as container:
        run_trials(container, work, ids, [one] * times, take)
    passes = [set(run.values()) == {"passed"} for run in runs]
    return {
        "instance_id": task.id,
        "key": one.key,
        "side": one.side,
        "variant": one.variant,
        "plain": one.variant == PLAIN,
        "seed": one.seed,
        "image": prepared.image.id,
        "runs": runs,
        "bad": sum(passes) if one.side == "without" else len(passes) - sum(passes),
    }


def prepared_again(bench: Workbench, store: Store, task: TaskFolder, record: Validated) -> Prepared:
    """What the recorded validation ran on, from the release folder alone."""
    mined = task.read(Mined)
    assert mined is not None
    assert mined.fix_patch is not None
    assert mined.test_patch is not None
    assert record.source is not None
    assert record.environment is not None
    image = rebuild_env(bench, store, task, record.environment, read_source(task, record.source))
    return Prepared(
        mined,
        record.source,
        record.environment,
        image,
        task.read_file(mined.fix_patch),
        task.read_file(mined.test_patch),
        task.read_file(record.environment.requirements_lock),
    )
