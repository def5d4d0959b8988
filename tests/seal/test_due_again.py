"""When a sealed task is due again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from race.core import leaks
from race.store import STAGE_ORDER, Store
from race.work.stage import stage_named
from race.work.standing import stands

SAMPLE = Path(__file__).parent.parent.parent / "tasks" / "sample"
TASK = "sample__brook-3"


@pytest.fixture
def current(tmp_path: Path) -> Store:
    """A release of one task of the sample, every record as if made by the code of today."""
    for name in ("release.toml", TASK):
        source = SAMPLE / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    store = Store(tmp_path)
    task = store.task(TASK)
    for name in STAGE_ORDER[1:]:
        stage = stage_named(name)
        record = task.read(stage.record)
        assert record is not None
        task.write(record.model_copy(update={"inputs": stage.inputs(task, store)}))
    assert stands(store, TASK)["state"] == "verified"
    return store


def test_a_better_audit_makes_sealed_tasks_due(current: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an older audit let pass is looked at again: the seal is due, and all that follows it."""
    monkeypatch.setattr(leaks, "METHOD", f"{leaks.METHOD}+")
    standing = stands(current, TASK)
    assert standing["verdict"] == "seal is due again: what it read has changed"
    assert [name for name, state in standing["stages"].items() if state == "stale"] == [
        "seal", "tier", "verify",
    ]  # fmt: skip
    assert standing["stages"]["specify"] == "accepted"
