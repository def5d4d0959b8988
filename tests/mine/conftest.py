"""Repositories for the tests of mining: real git."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RELEASE = """
[release]
name = "try"
canary = "00000000-0000-4000-8000-00000000000a"
"""


class Repository:
    """A git repository that a test writes step by step, with fixed dates and names."""

    def __init__(self, path: Path) -> None:
        self.path, self._clock = path, 1_700_000_000
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def copy(self, path: Path) -> Repository:
        """Another repository with the same past."""
        shutil.copytree(self.path, path, symlinks=True)
        other = Repository.__new__(Repository)
        other.path, other._clock = path, self._clock
        return other

    def git(self, *arguments: str, stdin: bytes | None = None) -> str:
        stamp = f"{self._clock} +0000"
        person = {"NAME": "Sample Author", "EMAIL": "sample@example.invalid", "DATE": stamp}
        environment = {f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in person.items()}
        done = subprocess.run(
            ["git", "-c", "core.autocrlf=false", *arguments],
            cwd=self.path,
            input=stdin,
            capture_output=True,
            check=True,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": "/nonexistent",
                "GIT_CONFIG_NOSYSTEM": "1",
                **environment,
            },
        )
        return done.stdout.decode().strip()

    def write(self, files: dict[str, bytes | str | None]) -> None:
        for name, data in files.items():
            file = self.path / name
            if data is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data.encode() if isinstance(data, str) else data)

    def commit(self, message: str, files: dict[str, bytes | str | None] | None = None) -> str:
        self._clock += 86_400
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def merge(self, number: int, title: str, files: dict[str, bytes | str | None]) -> str:
        """A pull request as a merge commit: its commit on a branch of its own, then the merge."""
        self.git("checkout", "-q", "-b", f"branch-{number}")
        self.commit(f"work on {number}", files)
        self.git("checkout", "-q", "main")
        self._clock += 86_400
        message = f"Merge pull request #{number} from someone/branch-{number}\n\n{title}"
        self.git("merge", "-q", "--no-ff", "-m", message, f"branch-{number}")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty repository."""
    return Repository(tmp_path / "project")


RACY = """
class Counter:
    def __init__(self):
        self.value = 0

    async def add(self):
        value = self.value
        await pause()
        self.value = value + 1
"""
FIXED = RACY.replace("        value = self", "        async with self._lock:\n            value = self")
RACE_TEST = """
import asyncio


async def test_concurrent_adds_do_not_race():
    counter = Counter()
    await asyncio.wait_for(asyncio.gather(*(counter.add() for _ in range(9))), 5)
    assert counter.value == 9
"""


@pytest.fixture(scope="session")
def licence_text() -> str:
    """A licence text that is recognised."""
    return (Path(__file__).parents[2] / "LICENSE").read_text()


@pytest.fixture
def small(three: Repository, tmp_path: Path) -> Repository:
    """Three pull requests: a fix of a race (merge commit), a feature (squash), documentation."""
    return three.copy(tmp_path / "project")


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory, licence_text: str) -> Repository:
    """What `small` is a copy of."""
    repository = Repository(tmp_path_factory.mktemp("three") / "project")
    repository.commit("start", {"LICENSE": licence_text, "pkg/__init__.py": "", "pkg/counter.py": RACY,
                                "tests/test_counter.py": "def test_nothing(): pass\n"})  # fmt: skip
    fix: dict[str, bytes | str | None] = {
        "pkg/counter.py": FIXED.replace("        await", "            await").replace(
            "        self.value = value", "            self.value = value"
        ),
        "tests/test_counter.py": RACE_TEST,
    }
    repository.merge(1, "Fix race condition when tasks add at the same time", fix)
    repository.commit("Add Counter.reset (#2)", {
        "pkg/counter.py": RACY + "\n    def reset(self):\n        self.value = 0\n",
        "tests/test_counter.py": RACE_TEST + "\n\ndef test_reset():\n    Counter().reset()\n",
    })  # fmt: skip
    repository.commit("Explain locks (#3)", {"README.md": "Locks.\n"})
    return repository


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """An empty release folder."""
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "release.toml").write_text(RELEASE)
    return folder


@pytest.fixture
def github() -> Iterator[Callable[..., Any]]:
    """Starts servers that speak GitHub's API from a clone: `github(clone, repo, **settings)`."""
    running = []

    def start(clone: Path, repo: str, **settings: Any) -> Any:
        server = _load("github_server").GithubServer(clone, repo, **settings)
        server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


def _load(name: str) -> ModuleType:
    """A module of this folder that is no test."""
    known = sys.modules.get(f"mine_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"mine_{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"mine_{name}"] = module
    spec.loader.exec_module(module)
    return module
