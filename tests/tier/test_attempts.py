"""Attempts on a sealed task: real containers, real grading, accidents and kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from race.cli import run
from race.core.attempts import Attempt
from race.core.tiered import Tiered
from race.errors import EngineDown, UsageError
from race.ports import Container, ContainerSpec, Engine
from race.progress import Progress
from race.settings import Workspace
from race.stages.tier import agents
from race.store import Store
from race.work.attempt import attempt, given
from race.work.mining_run import mine_release
from race.work.run_log import RunLog
from race.work.submission import take_submission
from race.workbench import Workbench

TASK = "sample__brook-3"
HEAD = '[release]\nname = "x"\nsample = {}\ncanary = "00000000-0000-4000-8000-000000000000"\n'


@pytest.fixture
def release(sealed_release: Path, tmp_path: Path) -> Path:
    """A copy of the sealed release that a test may change."""
    return Path(shutil.copytree(sealed_release, tmp_path / "release"))


def rows(release: Path) -> list[Attempt]:
    return RunLog(Store(release)).rows()


def test_scripted_agents_do_not_calibrate_real_releases(tmp_path: Path) -> None:
    """Outside a sample, a release that names a scripted agent is refused, with the reason."""
    (tmp_path / "release.toml").write_text(HEAD.format("false") + '[tier]\nagents = ["scripted/half"]\n')
    with pytest.raises(UsageError, match="calibrate sample releases only"):
        agents(Store(tmp_path))


def test_a_wrong_agent_is_named_with_its_place(tmp_path: Path) -> None:
    """An agent that is none is malformed settings, with file and key."""
    (tmp_path / "release.toml").write_text(HEAD.format("true") + '[tier]\nagents = ["gpt"]\n')
    with pytest.raises(UsageError, match=r"release\.toml: tier\.agents: no agent 'gpt'"):
        agents(Store(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--agent", "gpt"], "no agent 'gpt'"),
        (["--agent", "mini-swe-agent"], "needs a model"),
        (["--agent", "scripted/half", "--attempts", "0"], "--attempts"),
        (["--agent", "scripted/half", "sample__brok-3"], "has no task 'sample__brok-3'"),
        ([], "--agent"),
    ],
)
def test_bad_calls_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """What is wrong with a call is said in one line, with exit code 2."""
    (tmp_path / "release.toml").write_text(HEAD.format("true"))
    assert run(["run", str(tmp_path), *arguments]) == 2
    assert says in capsys.readouterr().err


def test_a_task_that_is_not_sealed_is_no_success(
    tmp_path: Path, sample_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What could not be run is pending, says what to do first, and is not exit 0."""
    (tmp_path / "release.toml").write_text(HEAD.format("true"))
    bench = Workbench(Workspace())
    clones = {"sample/brook": sample_project}
    mine_release(Store(tmp_path), bench, clones, progress=Progress("mine", 1, quiet=True))

    class Idle:
        def sweep(self) -> int:
            return 0

    bench.engine = Idle()  # type: ignore[assignment]
    assert run(["run", str(tmp_path), TASK, "--agent", "scripted/half"], workbench=bench) == 3
    assert "waits for validate; run `race validate` first" in capsys.readouterr().err


@pytest.mark.engine
@pytest.mark.network
def test_tiering_a_task_and_again(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every planned attempt is made and graded once; the label says what it rests on."""
    assert run(["tier", str(release), TASK, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == [TASK]
    record = Store(release).task(TASK).read(Tiered)
    assert record is not None
    assert (record.tier, record.attempts, record.resolved, record.complexity) == ("clean", 4, 4, "short")
    assert (record.scripted, record.sample) == (True, True)
    assert [summary.agent for summary in record.agents] == ["scripted/half", "scripted/steady"]
    made = rows(release)
    assert [(row.agent, row.attempt) for row in made] == [
        ("scripted/steady", 1), ("scripted/steady", 2), ("scripted/half", 1), ("scripted/half", 2),
    ]  # fmt: skip
    assert all(row.scripted and row.sample and row.verdict == "resolved" for row in made)
    kept = release / "local" / TASK / "runs" / "scripted-steady" / "scripted"
    assert b"+        self._lock = asyncio.Lock()" in (kept / "1.patch").read_bytes()
    assert json.loads((kept / "1.trajectory.json").read_bytes())["messages"][-1]["role"] == "exit"
    before = (release / TASK / "tier.json").read_bytes()
    assert run(["tier", str(release), TASK, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == [TASK]
    (release / TASK / "tier.json").unlink()
    assert run(["tier", str(release), TASK]) == 0
    assert (release / TASK / "tier.json").read_bytes() == before
    assert rows(release) == made


class Interrupted(Workbench):
    """The real tools, but the engine is gone when a container of the test image is asked for."""

    def __init__(self, real: Workbench, lost: str) -> None:
        super().__init__(real.workspace)
        self.__dict__["engine"] = _Gone(real.engine, lost)
        self.solved = 0

    def agent(self, model: str, script: Any = None) -> Any:
        self.solved += 1
        return super().agent(model, script)


class _Gone:
    def __init__(self, real: Engine, lost: str) -> None:
        self._real, self.lost = real, lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    @contextmanager
    def container(self, spec: ContainerSpec) -> Iterator[Container]:
        image = self._real.image(self.lost) if self.lost else None
        if image is not None and spec.image in (self.lost, image.id):
            raise EngineDown("the engine is gone")
        with self._real.container(spec) as container:
            yield container


@pytest.mark.engine
@pytest.mark.network
def test_an_accident_is_no_failure_and_loses_no_work(release: Path, bench: Workbench) -> None:
    """When the engine goes while grading, the row says accident; later the same work is graded."""
    tools = Interrupted(bench, f"race-tests-tier:{TASK}.test")
    code = run(
        ["run", str(release), "--agent", "scripted/half", "--attempts", "1", TASK], workbench=tools
    )
    assert code == 4
    (row,) = rows(release)
    assert (row.ended, row.resolved, row.note) == ("accident", False, "the engine is gone")
    assert tools.solved == 1
    tools.engine.lost = ""  # type: ignore[attr-defined]
    code = run(
        ["run", str(release), "--agent", "scripted/half", "--attempts", "1", TASK], workbench=tools
    )
    assert code == 0
    (row,) = rows(release)
    assert (row.ended, row.resolved, row.verdict) == ("submitted", True, "resolved")
    assert tools.solved == 1


@pytest.mark.engine
@pytest.mark.network
def test_a_killed_run_goes_on_where_it_stopped(release: Path, engine: Engine) -> None:
    """SIGKILL in the middle: rows stay whole, the next run makes the rest and sweeps the container."""
    command = [sys.executable, "-m", "race", "run", str(release), "--agent", "scripted/idle"]
    command += ["--attempts", "2", TASK]
    log = release / "local" / "runs.jsonl"
    before = set(engine.containers())
    process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not log.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    first = rows(release)
    assert [row.attempt for row in first] in ([1], [1, 2])
    assert run(["run", str(release), "--agent", "scripted/idle", "--attempts", "2", TASK]) == 0
    made = rows(release)
    assert [row.attempt for row in made] == [1, 2]
    assert made[0] == first[0]
    assert all(
        (row.resolved, row.verdict, row.ended) == (False, "unresolved", "submitted") for row in made
    )
    ours = {owner for owner in set(engine.containers()) - before if _is_ours(engine, owner, process.pid)}
    assert ours == set()


def _is_ours(engine: Engine, container: str, pid: int) -> bool:
    shown = subprocess.run(
        ["docker", "inspect", "--format", "{{json .Config.Labels}}", container],
        capture_output=True,
        text=True,
        check=False,
    )
    return f":{pid}:" in shown.stdout


HOSTILE = """\
set -e
git config --global user.email a@example.invalid; git config --global user.name a
echo 'print(1)' > src/brook/extra.py
sed -i 's/Adds up amounts by key/Adds up/' src/brook/tally.py
git add -A; git commit -qm 'my own history'
mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch /tmp/hooked\\n' > .git/hooks/pre-commit
chmod +x .git/hooks/*
git config core.fsmonitor 'touch /tmp/hooked'
git config filter.evil.clean 'touch /tmp/hooked; cat'
echo '*.py filter=evil diff=evil' > .gitattributes
git config diff.evil.textconv 'touch /tmp/hooked; cat'
rm tests/test_status.py
ln -s /etc/passwd link
mkdir -p inner && (cd inner && git init -q && echo x > y && git add -A && git commit -qm x)
mkdir -p src/brook/__pycache__ && echo junk > src/brook/__pycache__/tally.cpython-311.pyc
chmod 000 README.md || true
(sleep 300 &) > /dev/null 2>&1
rm -rf .git/objects
"""


@pytest.mark.engine
@pytest.mark.network
def test_the_work_is_taken_whatever_became_of_git(sealed_release: Path, bench: Workbench) -> None:
    """Own commits, hooks, filters, a broken repository, links: the difference of the files is taken."""
    spec = ContainerSpec(image=given(Store(sealed_release), Store(sealed_release).task(TASK)).env.ref)
    with bench.engine.container(spec) as container:
        done = container.run(["bash", "-c", HOSTILE], timeout=60)
        assert done.exit_code == 0, done.output
        taken = take_submission(bench.engine, container, spec)
    assert taken.note == ""
    changed = {
        line.split()[2][2:] for line in taken.patch.decode().splitlines() if line.startswith("diff ")
    }
    assert changed >= {
        ".gitattributes", "inner/y", "link", "src/brook/extra.py", "src/brook/tally.py",
        "tests/test_status.py",
    }  # fmt: skip
    assert not any("pycache" in name or ".git/" in name for name in changed)
    assert b"new file mode 120000" in taken.patch


@pytest.mark.engine
@pytest.mark.network
def test_a_repository_that_is_gone_is_an_empty_submission(
    sealed_release: Path, bench: Workbench
) -> None:
    """An agent that destroys everything has submitted nothing usable; that is its work, no accident."""
    spec = ContainerSpec(image=given(Store(sealed_release), Store(sealed_release).task(TASK)).env.ref)
    with bench.engine.container(spec) as container:
        container.run(["bash", "-c", "rm -rf /repo/* /repo/.[a-z]*; chmod 000 /repo"], timeout=60)
        taken = take_submission(bench.engine, container, spec)
    assert taken.patch == b""
    assert taken.note


@pytest.mark.engine
@pytest.mark.network
def test_an_image_of_another_recipe_is_not_used(release: Path, bench: Workbench) -> None:
    """An image that is not the sealed one is never attempted: exit 3 says what to do."""
    path = release / TASK / "seal.json"
    record = json.loads(path.read_bytes())
    record["env_image"]["recipe"] = "0" * 64
    path.write_text(json.dumps(record))
    store = Store(release)
    with pytest.raises(Exception, match="is not here as sealed; run `race seal"):
        attempt(bench, store, given(store, store.task(TASK)), "scripted/idle", "scripted", 1, print)
    assert rows(release) == []
