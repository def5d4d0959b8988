"""A project that is only on its server: mined through the API and validated, and no clone anywhere."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from race.adapters.git_history import GitHistory
from race.cli import run
from race.core.validated import Validated
from race.store import Store
from race.workbench import Workbench

REPO = "sample/alone"
RELEASE = """
[release]
name = "tests-alone"
canary = "00000000-0000-4000-8000-00000000000b"
[validate.reliability]
limit = 0.3
repeats = 9
perturb = false
"""
RACY = """\
import asyncio


class Counter:
    def __init__(self):
        self.value = 0
        self._lock = asyncio.Lock()

    async def add(self):
        value = self.value
        await asyncio.sleep(0)
        self.value = value + 1
"""
FIXED = RACY.replace(
    """        value = self.value
        await asyncio.sleep(0)
        self.value = value + 1
""",
    """        async with self._lock:
            value = self.value
            await asyncio.sleep(0)
            self.value = value + 1
""",
)
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "alone"
version = "1.0"
requires-python = ">=3.10"
[project.optional-dependencies]
test = ["pytest"]
[tool.setuptools]
packages = ["alone"]
"""
OLD_TEST = """\
import asyncio

from alone.counter import Counter


def test_one_add_counts():
    counter = Counter()
    asyncio.run(counter.add())
    assert counter.value == 1
"""
RACE_TEST = """

def test_concurrent_adds_do_not_race():
    async def main():
        counter = Counter()
        await asyncio.wait_for(asyncio.gather(*(counter.add() for _ in range(9))), 5)
        return counter.value

    assert asyncio.run(main()) == 9
"""


@pytest.fixture
def alone(repository: Any, licence_text: str) -> Path:
    """A project with one pull request that fixes a race."""
    repository._clock = 1_750_000_000
    repository.commit(
        "start",
        {
            "LICENSE": licence_text,
            "pyproject.toml": PROJECT,
            "alone/__init__.py": "",
            "alone/counter.py": RACY,
            "tests/test_counter.py": OLD_TEST,
        },
    )
    change = {"alone/counter.py": FIXED, "tests/test_counter.py": OLD_TEST + RACE_TEST}
    repository.merge(1, "Fix race condition when tasks add at the same time", change)
    path: Path = repository.path
    return path


@pytest.fixture
def images(bench: Workbench) -> Iterator[None]:
    """Take away what the test leaves on the engine."""
    yield
    for image in bench.engine.images("race.release=tests-alone"):
        for name in image.tags:
            bench.engine.remove_image(name)


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.usefixtures("images")
def test_a_project_that_is_only_on_its_server_is_mined_and_validated(
    alone: Path, github: Callable[..., Any], tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """From the API to a validated task: the environment is built from the tree that the server gave."""
    server = github(alone, REPO)
    release = tmp_path / "release"
    release.mkdir()
    (release / "release.toml").write_text(RELEASE)
    monkeypatch.setenv("GITHUB_TOKEN", "")
    assert run(["mine", str(release), "--github", REPO, "--api-url", server.url, "--json"]) == 0
    assert [row["pr"] for row in json.loads(capsys.readouterr().out)["candidates"]] == [1]
    store = Store(release)
    assert REPO not in store.read_local("clones.json")
    before = len(server.served)
    code = run(["validate", str(release), "sample__alone-1"])
    assert code == 0, capsys.readouterr().err
    record = store.task("sample__alone-1").read(Validated)
    assert record is not None
    assert record.accepted, record.findings
    assert record.fail_to_pass == ("tests/test_counter.py::test_concurrent_adds_do_not_race",)
    assert record.pass_to_pass == ("tests/test_counter.py::test_one_add_counts",)
    assert record.source is not None
    assert record.environment is not None
    assert record.environment.project == "alone"
    assert any("/git/blobs/" in path for _, path in server.served[before:]), "the server had to be asked"
    history = GitHistory(alone, REPO)
    base = next(iter(history.pull_requests())).base_commit
    tar = lzma.decompress(store.task("sample__alone-1").read_file(record.source))
    assert tar == history.archive(base)
