"""What all tests share: a container engine that answers, the sample project, a built sample release."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from distribution import group_of, place_of

from race.cli import run
from race.ports import Engine
from race.sample import write_sample
from race.settings import read_workspace
from race.workbench import Workbench

ROOT = Path(__file__).parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Tests chosen to need no engine find none, so that a missing mark shows on every machine.

    The main thread has no event loop unless it makes one, as from Python 3.14 on: a model library that
    asks for one would get one that nobody closes, and a later test would be blamed.
    """
    asyncio.set_event_loop(None)
    if "not engine" in config.getoption("markexpr"):
        os.environ["DOCKER_HOST"] = "unix:///nonexistent/no-engine-in-these-tests.sock"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several workers share the tests, what takes longest begins first."""
    if hasattr(config, "workerinput"):
        items.sort(key=place_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker gets whole modules, and those that share something costly together."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)


@pytest.fixture(scope="session")
def bench() -> Workbench:
    """The tools of a command on this machine."""
    return Workbench(read_workspace(ROOT, dict(os.environ)))


@pytest.fixture(scope="session")
def engine(bench: Workbench) -> Engine:
    """A container engine that answers; the test errors, not skips, when there is none."""
    bench.engine.version()
    return bench.engine


@pytest.fixture(scope="session")
def sample_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample project's repository, written once."""
    folder = tmp_path_factory.mktemp("sample") / "brook"
    write_sample(folder)
    return folder


@pytest.fixture(scope="session")
def built_sample(tmp_path_factory: pytest.TempPathFactory, sample_project: Path, engine: Engine) -> Path:
    """The sample release, built through all six stages from an empty folder. Copy before changing.

    RACE_BUILT_SAMPLE names one that `make run` has built on this machine, to save the minutes.
    """
    folder = tmp_path_factory.mktemp("built") / "sample"
    ready = os.environ.get("RACE_BUILT_SAMPLE")
    if ready:
        return Path(shutil.copytree(ready, folder))
    folder.mkdir()
    shutil.copy(ROOT / "tasks" / "sample" / "release.toml", folder)
    code = run(
        ["build", str(folder), "--clone", str(sample_project), "--repo", "sample/brook", "-j", "2"]
    )
    assert code == 0
    return folder
