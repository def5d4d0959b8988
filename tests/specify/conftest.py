"""Small projects with a bug, its fix and its hidden tests; patches are made by git."""

from __future__ import annotations

import importlib.util
import io
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from race.core.failure_text import ObservedFailure
from race.core.interface.applying import apply_diff
from race.core.interface.extract import Interface
from race.core.records import FileRef, Mined
from race.core.statement.behaviour import behaviour_of
from race.core.statement.writer import Facts
from race.core.statement_audit.case import Case
from race.core.validated import Validated
from race.store import Store, TaskFolder
from race.work.stage import stage_named

HERE = Path(__file__).parent
collect_ignore_glob = ["projects/*"]
PROJECTS = HERE / "projects"
_GIT = {
    "GIT_AUTHOR_NAME": "Sample Author", "GIT_AUTHOR_EMAIL": "sample@example.invalid",
    "GIT_COMMITTER_NAME": "Sample Author", "GIT_COMMITTER_EMAIL": "sample@example.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
}  # fmt: skip

POOL = "tests/test_pool.py::"
FAILURES: dict[str, dict[str, ObservedFailure]] = {
    "harbour": {
        f"{POOL}test_cancelled_taker_does_not_swallow_the_connection": ObservedFailure(
            outcome="failed", phase="call", error_type="InvalidStateError", message="invalid state"
        ),
        f"{POOL}test_closing_wakes_the_waiting_takers": ObservedFailure(
            outcome="failed", phase="call", error_type="TimeoutError", message=""
        ),
        f"{POOL}test_acquire_gives_up_after_its_timeout": ObservedFailure(
            outcome="failed",
            phase="call",
            error_type="TypeError",
            message="Pool.acquire() got an unexpected keyword argument 'timeout'",
        ),
    },
    "relay": {
        "relay/tests/test_counter.py::test_no_report_is_lost_between_threads": ObservedFailure(
            outcome="failed",
            phase="call",
            error_type="AssertionError",
            message="assert N == N\n +  where N = total('hits')",
            varies=True,
        )
    },
}
PASSING = {
    "harbour": (f"{POOL}test_gives_back",),
    "relay": ("relay/tests/test_counter.py::test_counts",),
}
TITLES = {
    "harbour": "Do not lose connections when a waiting taker is cancelled",
    "relay": "Hold the mutex while a report is added",
}
TOLD = {
    "harbour": (
        "A connection was lost when its taker was cancelled in the same turn of the loop.\n\n"
        "Release now skips takers that are done already and hands the connection to the first live "
        "one. On close every one of them is told before the idle connections go away. With "
        "`asyncio.shield` the handover stays whole.",
        "1482.bugfix.md\nTakers which nobody waits for any longer are skipped when a connection comes "
        "back to the pool.",
    ),
    "relay": (
        "Reading the old total and writing the new one is a single step now: `_mutex` is taken "
        "around both.",
        "``EventCounter.report`` updates its totals under the mutex, so that threads do not overwrite "
        "each other's numbers.",
    ),
}
"""What pull request and changelog say of each fix."""


@dataclass(frozen=True)
class Project:
    """A project's base tree, its two patches and what was observed."""

    name: str
    base: dict[str, bytes]
    fix_patch: bytes
    test_patch: bytes
    facts: Facts
    case: Case


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their paths in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def git(folder: Path, *arguments: str) -> bytes:
    """A real git command."""
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **_GIT}, capture_output=True, check=True
    )
    return done.stdout


def difference(folder: Path, before: dict[str, bytes], after: dict[str, bytes]) -> bytes:
    """The git diff from one tree to another."""
    for tree in (before, after):
        for path, data in tree.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        for path in read_files(folder):
            if not path.startswith(".git/") and path not in tree:
                (folder / path).unlink()
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "--allow-empty", "-m", "state")
    return git(folder, "diff", "--binary", "--full-index", "--no-renames", "HEAD~1", "HEAD")


@pytest.fixture(scope="session")
def patch_between(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """`patch_between(before, after)`: a real git diff."""
    folder = tmp_path_factory.mktemp("git")
    git(folder, "init", "-q")
    return lambda before, after: difference(folder, before, after)


@pytest.fixture(scope="session")
def project(patch_between: Callable[..., bytes]) -> Callable[[str], Project]:
    """`project(name)`: one of the projects, made once."""
    made: dict[str, Project] = {}

    def get(name: str) -> Project:
        if name not in made:
            made[name] = make(name, patch_between)
        return made[name]

    return get


def make(name: str, patch_between: Callable[..., bytes]) -> Project:
    """Everything about a project, through real git and the real analysis."""
    base = read_files(PROJECTS / name / "base")
    tests = read_files(PROJECTS / name / "tests")
    fix = read_files(PROJECTS / name / "fix")
    test_patch, fix_patch = patch_between(base, base | tests), patch_between(base, base | fix)
    before = apply_diff(base, test_patch)
    trees = Interface(before, apply_diff(before, fix_patch))
    failures = FAILURES[name]
    behaviours = {test: behaviour_of(trees, test) for test in failures}
    interface = tuple(trees.items(failures))
    facts = Facts(name, "race", behaviours, failures, interface)
    case = Case(
        statement="",
        fix_patch=fix_patch,
        test_patch=test_patch,
        interface=interface,
        behaviours=behaviours,
        failures=failures,
        hidden_ids=[*failures, *PASSING[name]],
        trees=trees,
        title=TITLES[name],
        told=TOLD[name],
        numbers=[1482],
        commits=["8c0ffee1d2b3a4958677869504132231404f5e6d", "77aa31bc90de12f4a5b6c7d8e9f0a1b2c3d4e5f6"],
        repo=f"owner/{name}",
    )
    return Project(name, base, fix_patch, test_patch, facts, case)


def archive(files: dict[str, bytes]) -> bytes:
    """Files as source.tar.xz holds them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, data in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return lzma.compress(stream.getvalue(), preset=1)


def as_task(folder: Path, project: Project, settings: str = "") -> TaskFolder:
    """A release folder with this project as its one task, mined and validated."""
    folder.mkdir(exist_ok=True)
    (folder / "release.toml").write_text(
        f'[release]\nname = "try"\ncanary = "6f2f3c1e-0d8c-4f4e-9a63-0f5d3b1c2a10"\n{settings}'
    )
    task = Store(folder).task(f"owner__{project.name}-1482")

    def stored(name: str, data: bytes) -> FileRef:
        return task.write_file(name, data)

    task.write(
        Mined(
            instance_id=task.id,
            accepted=True,
            repo=f"owner/{project.name}",
            pr=1482,
            title=TITLES[project.name],
            told=TOLD[project.name],
            merged_at="2026-02-03T04:05:06Z",
            authored_at="2026-02-03T04:05:06Z",
            base_commit=project.case.commits[0],
            merge_commit=project.case.commits[1],
            merge_style="squash",
            licence="MIT",
            kind="race",
            fix_patch=stored("fix.patch", project.fix_patch),
            test_patch=stored("test.patch", project.test_patch),
        )
    )
    task.write(
        Validated(
            instance_id=task.id,
            accepted=True,
            source=stored("source.tar.xz", archive(project.base)),
            fail_to_pass=tuple(sorted(FAILURES[project.name])),
            pass_to_pass=PASSING[project.name],
            failures=FAILURES[project.name],
            inputs=stage_named("validate").inputs(task, Store(folder)),
        )
    )
    return task


@pytest.fixture
def task_of(tmp_path: Path, project: Callable[[str], Project]) -> Callable[..., TaskFolder]:
    """`task_of(name, settings)`: the project as a task of a release in a temporary folder."""
    return lambda name, settings="": as_task(tmp_path / "release", project(name), settings)


@pytest.fixture(scope="session")
def chat() -> ModuleType:
    """The chat-completions test server's module."""
    return load("chat_server")


def load(name: str) -> ModuleType:
    """A helper module of this folder."""
    known = sys.modules.get(f"specify_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"specify_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"specify_{name}"] = module
    spec.loader.exec_module(module)
    return module
