"""The stage loop: what is due, what an accident leaves behind, and a tally that adds up."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from race.core.records import Finding, Mined, StageRecord
from race.errors import Accident, BuildFailed, EngineDown, Missing, Rejection
from race.progress import Progress
from race.settings import Workspace
from race.stages._loop import run_stage
from race.store import Store, TaskFolder
from race.work.stage import Desk, Stage
from race.work.tally import Tally
from race.workbench import Workbench

RELEASE = """
[release]
name = "little"
canary = "00000000-0000-4000-8000-000000000000"
sample = true
"""
IDS = [f"a__b-{number}" for number in range(1, 6)]


class Validated(StageRecord):
    """A stand-in with the name of the second stage."""

    stage = "validate"
    text: str = ""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "release.toml").write_text(RELEASE)
    store = Store(tmp_path)
    for instance_id in IDS:
        store.task(instance_id).write(
            Mined(
                instance_id=instance_id,
                accepted=True,
                repo="a/b",
                pr=1,
                title="t",
                merged_at="2026-01-01T00:00:00+00:00",
                authored_at="2026-01-01T00:00:00+00:00",
                base_commit="0" * 40,
                merge_commit="1" * 40,
                merge_style="squash",
                licence="MIT",
            )
        )
    return store


def inputs(task: TaskFolder, store: Store) -> dict[str, str]:
    return {"mine": task.record_digest("mine"), "settings": store.settings.slice_digest("validate")}


def run(store: Store, work: object, *, jobs: int = 1, ids: list[str] = IDS, **options: bool) -> Tally:
    stage = Stage("validate", Validated, inputs, work)  # type: ignore[arg-type]
    progress = Progress("validate", len(ids), quiet=True)
    return run_stage(stage, store, Workbench(Workspace()), ids, jobs=jobs, progress=progress, **options)


def accept(desk: Desk) -> StageRecord:
    return Validated(instance_id=desk.task.id, accepted=True)


def total(tally: Tally) -> int:
    return len(tally.done) + len(tally.skipped) + len(tally.rejected) + len(tally.pending)


def test_a_second_run_finds_nothing_due(store: Store) -> None:
    """A stage runs once per input, not once per command; --force runs it again."""
    assert run(store, accept).done == IDS
    assert run(store, accept).skipped == IDS
    assert run(store, accept, force=True).done == IDS


def test_a_changed_input_makes_a_stage_due(store: Store) -> None:
    """Skipping goes by digest, not by existence."""
    run(store, accept)
    mined = store.task(IDS[0]).read(Mined)
    assert mined is not None
    store.task(IDS[0]).write(mined.model_copy(update={"title": "another"}))
    tally = run(store, accept)
    assert (tally.done, len(tally.skipped)) == (IDS[:1], 4)


def test_here_runs_what_this_machine_has_not_run(store: Store) -> None:
    """--here repeats what another machine did, and leaves the record's bytes as they are."""
    run(store, accept)
    before = (store.task(IDS[0]).path / "validate.json").read_bytes()
    (store.folder / "local" / IDS[0] / "validate.json").unlink()
    tally = run(store, accept, here=True)
    assert (tally.done, len(tally.skipped)) == (IDS[:1], 4)
    assert (store.task(IDS[0]).path / "validate.json").read_bytes() == before


def test_a_rejection_is_recorded_and_the_rest_goes_on(store: Store) -> None:
    """A verdict against one task is a record with its reason, marked as a sample here."""

    def work(desk: Desk) -> StageRecord:
        if desk.task.id == IDS[1]:
            raise Rejection("does-not-build", "no wheel", "setup.py")
        return accept(desk)

    tally = run(store, work, jobs=2)
    assert tally.rejected == [IDS[1]]
    assert total(tally) == 5
    record = store.task(IDS[1]).read(Validated)
    assert record is not None
    assert record.findings == (Finding(rule="does-not-build", message="no wheel", place="setup.py"),)
    assert record.sample
    assert run(store, work).rejected == [IDS[1]]


def test_a_failed_build_keeps_its_log_out_of_the_record(store: Store) -> None:
    """What a build printed differs each time: it is kept in the ledger, the record stays the same."""

    def work(desk: Desk) -> StageRecord:
        raise BuildFailed("RUN pip install", 1, "Running in e6d298fbe0cc\nno such module")

    run(store, work, ids=IDS[:1])
    task = store.task(IDS[0])
    record = task.read(Validated)
    assert record is not None
    assert record.findings == (Finding(rule="build-failed", message="RUN pip install: exit 1"),)
    assert b"no such module" in task.evidence_path("validate/build.log").read_bytes()


def test_an_accident_records_nothing(store: Store) -> None:
    """An accident of ours leaves the task pending, keeps the old record, and the rest goes on."""

    def work(desk: Desk) -> StageRecord:
        if desk.task.id == IDS[0]:
            raise Accident("registry does not answer")
        return accept(desk)

    tally = run(store, work)
    assert tally.pending == [IDS[0]]
    assert tally.accidents == {IDS[0]: "registry does not answer"}
    assert store.task(IDS[0]).read(Validated) is None
    assert total(tally) == 5
    assert run(store, accept).done == [IDS[0]]


def test_what_only_the_user_can_provide_stops_no_other_task(store: Store) -> None:
    """One task without its clone leaves itself pending: the others go on, the exit code says 3."""

    def work(desk: Desk) -> StageRecord:
        if desk.task.id == IDS[0]:
            raise Missing("needs a clone")
        return accept(desk)

    tally = run(store, work)
    assert (tally.pending, tally.done) == (IDS[:1], IDS[1:])
    assert (tally.accidents, tally.exit_code) == ({IDS[0]: "needs a clone"}, 3)
    assert run(store, accept).exit_code == 0


def test_a_dead_engine_starts_no_further_task(store: Store) -> None:
    """When the engine is gone the remaining tasks are pending, not failed one by one."""
    started = []

    def work(desk: Desk) -> StageRecord:
        started.append(desk.task.id)
        raise EngineDown("engine is gone")

    tally = run(store, work)
    assert started == IDS[:1]
    assert tally.pending == IDS
    assert all("engine is gone" in text for text in tally.accidents.values())


def test_jobs_run_at_once(store: Store) -> None:
    """With -j 2 two tasks really are at work at the same time."""
    both = threading.Barrier(2, timeout=10)

    def work(desk: Desk) -> StageRecord:
        both.wait()
        return accept(desk)

    assert sorted(run(store, work, jobs=2, ids=IDS[:4]).done) == IDS[:4]


def test_a_bug_is_not_swallowed(store: Store) -> None:
    """An unexpected exception goes up; what other tasks had finished is kept."""

    def work(desk: Desk) -> StageRecord:
        if desk.task.id == IDS[2]:
            raise ZeroDivisionError
        return accept(desk)

    with pytest.raises(ZeroDivisionError):
        run(store, work)
    assert store.task(IDS[1]).read(Validated) is not None
    assert store.task(IDS[2]).read(Validated) is None


def test_what_was_rejected_earlier_is_counted(store: Store) -> None:
    """A task that an earlier stage turned down counts as rejected; one that waits as pending."""
    mined = store.task(IDS[0]).read(Mined)
    assert mined is not None
    store.task(IDS[0]).write(mined.model_copy(update={"accepted": False}))
    tally = run(store, accept)
    assert tally.rejected == [IDS[0]]
    assert tally.line("validate") == "validate: 4 done + 0 skipped + 1 rejected + 0 pending = 5"


def test_what_waits_for_an_earlier_stage_is_no_success(store: Store) -> None:
    """A stage that could not look at a task does not end as if nothing was left to do."""
    (store.task(IDS[0]).path / "mine.json").unlink()
    tally = run(store, accept)
    assert tally.pending == [IDS[0]]
    assert tally.accidents == {IDS[0]: "waits for mine"}
    assert tally.exit_code == Missing.exit_code


class Engineless:
    """An engine that has stopped answering."""

    def sweep(self) -> int:
        raise EngineDown("nothing answers")


class Swept:
    """An engine that counts how often it was asked to remove what dead commands left."""

    def __init__(self) -> None:
        self.times = 0

    def sweep(self) -> int:
        self.times += 1
        return 0


@pytest.mark.parametrize("due", [True, False])
def test_a_stage_with_an_engine_first_removes_what_was_left(store: Store, due: bool) -> None:
    """What a killed command left is removed by the next one, whether or not anything is due."""
    if not due:
        run(store, accept)
    bench, progress = Workbench(Workspace()), Progress("validate", len(IDS), quiet=True)
    engine = Swept()
    bench.engine = engine  # type: ignore[assignment]
    stage = Stage("validate", Validated, inputs, accept, engine=True)
    run_stage(stage, store, bench, IDS, progress=progress)
    assert engine.times == 1
    bench.engine = Engineless()  # type: ignore[assignment]
    assert total(run_stage(stage, store, bench, IDS, progress=progress)) == len(IDS)
