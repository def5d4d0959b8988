"""A container without an engine, and a small sealed release with one."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from race.core.records import FileRef, Mined
from race.core.sealed import ImageRecipe, Sealed
from race.core.specified import Specified
from race.core.validated import Validated
from race.ports import ExecResult
from race.progress import Progress
from race.stages.seal import STAGE as SEAL
from race.stages.specify import STAGE as SPECIFY
from race.stages.validate import STAGE as VALIDATE
from race.store import Store, TaskFolder
from race.work.environments import build_env, env_ref
from race.work.mining_run import mine_release
from race.work.test_image import TestImage, build_test
from race.workbench import Workbench

RELEASE = """\
[release]
name = "tier"
sample = true
repository = "race-tests-tier"
canary = "00000000-0000-4000-8000-000000000000"

[tier]
agents = ["scripted/steady", "scripted/half"]
attempts = 2
short_steps = 5
medium_steps = 9
"""
STATEMENT = "Additions made at the same time get lost: `Tally.add` must count every one of them.\n"
FAIL_TO_PASS = (
    "tests/test_tally.py::test_an_add_that_fails_blocks_nobody",
    "tests/test_tally.py::test_concurrent_adds_all_count",
)
PASS_TO_PASS = (
    "tests/test_ledger.py::test_moves_the_amount",
    "tests/test_tally.py::test_adds_up",
    "tests/test_tally.py::test_keys_are_apart",
    "tests/test_tally.py::test_starts_at_nothing",
)
TASK = "sample__brook-3"


@dataclass
class LocalContainer:
    """The Container port over a folder of this machine: commands see `/repo` as their folder."""

    root: Path
    id: str = "local"
    ran: list[str] = field(default_factory=list)

    def put(self, path: str, files: Mapping[str, bytes], *, mode: int = 0o644, uid: int = 0) -> None:
        for name, data in files.items():
            target = self.root / path.strip("/") / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def put_tar(self, path: str, tar: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(self.root / path.strip("/"), filter="data")

    def get(self, path: str, *, limit: int = 64 * 2**20) -> bytes | None:
        target = self.root / path.strip("/")
        return target.read_bytes() if target.is_file() else None

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        user: str = "",
        workdir: str = "",
        env: Mapping[str, str] | None = None,
        output_limit: int = 2**20,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        argv = [
            str(self.root / word.strip("/")) if word == "/tmp/long-command" else word for word in argv
        ]
        self.ran.append(argv[-1])
        started = time.monotonic()
        try:
            done = subprocess.run(
                list(argv),
                cwd=self.root / workdir.strip("/"),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return ExecResult(None, error.output or b"", False, True, time.monotonic() - started)
        shown = done.stdout[:output_limit]
        seconds = time.monotonic() - started
        return ExecResult(done.returncode, shown, len(done.stdout) > output_limit, False, seconds)


@pytest.fixture
def local_container(tmp_path: Path) -> LocalContainer:
    """A container double whose /repo and /tmp are folders of this test."""
    for name in ("repo", "tmp"):
        (tmp_path / "inside" / name).mkdir(parents=True)
    return LocalContainer(tmp_path / "inside")


@pytest.fixture(scope="session")
def chat_server() -> ModuleType:
    """The module of the scripted chat-completions server."""
    path = Path(__file__).parent.parent / "specify" / "chat_server.py"
    spec = importlib.util.spec_from_file_location("race_chat_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def sealed_release(
    bench: Workbench, sample_project: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A release with one sealed task: real images of the sample's #3, lists and statement by hand."""
    folder = tmp_path_factory.mktemp("tier") / "release"
    folder.mkdir()
    (folder / "release.toml").write_text(RELEASE)
    store = Store(folder)
    mine_release(store, bench, {"sample/brook": sample_project}, progress=Progress("mine", 1))
    task = store.task(TASK)
    mined = task.read(Mined)
    assert mined is not None
    history = bench.clone(sample_project, "sample/brook")
    built = build_env(
        bench,
        store,
        task,
        history.archive(mined.base_commit),
        repo=mined.repo,
        merged_at=mined.merged_at,
        tests={name: history.read(mined.merge_commit, name) or b"" for name in mined.test_files},
    )
    validated = Validated(
        instance_id=TASK,
        accepted=True,
        environment=built.environment,
        fail_to_pass=FAIL_TO_PASS,
        pass_to_pass=PASS_TO_PASS,
        sample=True,
        inputs=VALIDATE.inputs(task, store),
    )
    task.write(validated)
    statement = task.write_file("statement.md", STATEMENT.encode())
    specified = Specified(instance_id=TASK, accepted=True, statement=statement, sample=True)
    task.write(specified)
    task.write(specified.model_copy(update={"inputs": SPECIFY.inputs(task, store)}))
    wanted = TestImage(
        instance_id=TASK,
        env_image=env_ref(store, TASK),
        env_recipe=built.image.labels["race.recipe"],
        fail_to_pass=FAIL_TO_PASS,
        pass_to_pass=PASS_TO_PASS,
        test_patch=_file(task, mined.test_patch),
        fix_patch=_file(task, mined.fix_patch),
        canary=store.settings.release.canary,
    )
    tag = f"race-tests-tier:{TASK}.test"
    build_test(bench.engine, wanted, tag, b"a secret of this test")
    sealed = Sealed(
        instance_id=TASK,
        accepted=True,
        env_image=ImageRecipe(ref=env_ref(store, TASK), recipe=wanted.env_recipe),
        test_image=ImageRecipe(ref=tag, recipe=wanted.recipe()),
        sample=True,
    )
    task.write(sealed.model_copy(update={"inputs": SEAL.inputs(task, store)}))
    return folder


def _file(task: TaskFolder, ref: FileRef | None) -> bytes:
    assert ref is not None
    return task.read_file(ref)
