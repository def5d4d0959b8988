"""Clean images stay without findings: the base tree of every task that the sample project gives."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from race.cli import run
from race.core.leaks.fragments import wanted_from
from race.core.leaks.patchtext import read_patch
from race.core.records import Mined
from race.ports import Engine
from race.store import Store
from race.work.leak_scan import AuditRequest, audit_image
from race.workbench import Workbench

TOML = '[release]\nname = "clean"\nsample = true\ncanary = "5d0c8f0e-3a52-4b9e-9b43-6a1f2c7d8e90"\n'


@pytest.fixture(scope="module")
def mined(sample_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The sample project's history, mined."""
    folder = tmp_path_factory.mktemp("mined")
    (folder / "release.toml").write_text(TOML)
    command = ["mine", str(folder), "--clone", str(sample_project), "--repo", "sample/brook"]
    assert run(command) == 0
    return Store(folder)


@pytest.mark.engine
def test_base_trees_of_the_sample_are_clean_for_every_other_task_too(
    mined: Store, bench: Workbench, engine: Engine, sample_project: Path, tmp_path: Path,
    tar_of: Callable[[Path, Path], Path], in_one_commit: Callable[[Path], None],
) -> None:  # fmt: skip
    """At least twelve clean images: no finding, with the base tree given and without it."""
    history = bench.clone(sample_project, "sample/brook")
    tasks = [(i, m) for i in mined.ids() if (m := mined.task(i).read(Mined)) and not m.members]
    assert len(tasks) >= 12
    for instance_id, record in tasks:
        assert record.fix_patch
        assert record.test_patch
        root, task = tmp_path / instance_id, mined.task(instance_id)
        archive = history.archive(record.base_commit)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
            tree.extractall(root / "repo", filter="data")
            base = [tree.extractfile(m).read() for m in tree if m.isreg()]  # type: ignore[union-attr]
        in_one_commit(root / "repo")
        tag = f"race-tests-seal:{instance_id}"
        engine.import_image(tar_of(root, tmp_path / "root.tar"), tag)
        try:
            patches = (
                read_patch(task.read_file(record.fix_patch)),
                read_patch(task.read_file(record.test_patch)),
            )
            for known in (base, None):
                wanted = wanted_from(*patches, known)
                audit = audit_image(engine, AuditRequest(image=tag, wanted=wanted, live=False))
                assert audit.clean, [
                    (instance_id, p.name, p.findings) for p in audit.probes if p.findings
                ]
                assert audit.fragments.fix > 0
        finally:
            engine.remove_image(tag)
