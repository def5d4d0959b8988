"""Faults of ours: killed commands, an engine that stops, and what they must not leave behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from race.ports import Engine
from race.store import STAGE_ORDER, Store

KILLS = 20
LONGEST = {"validate": 20.0, "specify": 1.0, "seal": 6.0, "tier": 6.0, "verify": 25.0}
"""Seconds within which a stage is killed: about what it takes, so that any of its steps can be hit."""


def _hear_interrupts() -> None:
    """What is started in the background of a shell ignores interrupts, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def race(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A race command as a process of its own, which an interrupt reaches, whoever started the tests."""
    return subprocess.Popen(
        [sys.executable, "-m", "race", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
        preexec_fn=_hear_interrupts,
    )


def accepted_id(release: Path) -> str:
    """A task of a built release that passed every stage."""
    store = Store(release)
    for instance_id in store.ids():
        if '"accepted": true' in (store.task(instance_id).path / "verify.json").read_text():
            return instance_id
    raise AssertionError("the sample has no verified task")


def containers_of(instance_id: str) -> list[str]:
    """Ids of all containers, running or not, that were made of this task's images."""
    listing = ["docker", "ps", "-aq", "--filter", f"label=race.instance={instance_id}"]
    return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()


def records(task: Path) -> dict[str, bytes]:
    """Everything in a task's folder, as bytes."""
    return {str(path.relative_to(task)): path.read_bytes() for path in task.rglob("*") if path.is_file()}


def only_mined(built: Path, target: Path, instance_id: str, project: Path) -> Path:
    """A release with one task of the built one, mined and nothing more."""
    (target / instance_id).mkdir(parents=True)
    shutil.copy(built / "release.toml", target)
    for name in ("mine.json", "fix.patch", "test.patch"):
        shutil.copy(built / instance_id / name, target / instance_id)
    Store(target).write_local("clones.json", {"sample/brook": str(project)})
    return target


@pytest.mark.engine
def test_an_interrupt_need_not_wait(built_sample: Path, sample_project: Path, tmp_path: Path) -> None:
    """Ctrl-C in a run of many repeats: exit 130 within seconds, nothing recorded, nothing left."""
    instance_id = accepted_id(built_sample)
    release = only_mined(built_sample, tmp_path / "sample", instance_id, sample_project)
    process = race("validate", str(release), instance_id)
    deadline = time.monotonic() + 120
    while not containers_of(instance_id) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(3)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert time.monotonic() - began < 15
    assert "interrupted: ending 1 running" in said
    assert not (release / instance_id / "validate.json").exists()
    assert containers_of(instance_id) == []


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_twenty_kills_change_nothing(built_sample: Path, sample_project: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments, twenty times, then a finish: the records of an undisturbed run."""
    instance_id = accepted_id(built_sample)
    release = only_mined(built_sample, tmp_path / "sample", instance_id, sample_project)
    chance = random.Random(20260101)
    killed = dict.fromkeys(STAGE_ORDER[1:], 0)
    for stage in killed:
        for attempt in range(KILLS // len(killed)):
            process = race(stage, str(release), instance_id, *(["--force"] if attempt % 2 else []))
            time.sleep(chance.uniform(0.2, LONGEST[stage]))
            killed[stage] += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.communicate()
        process = race(stage, str(release), instance_id)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
    assert sum(killed.values()) >= KILLS // 2, killed
    assert records(release / instance_id) == records(built_sample / instance_id)
    assert containers_of(instance_id) == []
    assert not list(release.rglob(".writing-*"))


@pytest.fixture
def private_engine(tmp_path: Path, built_sample: Path, engine: Engine) -> object:
    """A second engine in a network namespace of its own, with one task's images, that may be killed."""
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.fail("this test starts an engine of its own: it needs dockerd and root")
    folder = Path("/tmp") / f"race-engine-{os.getpid()}"
    folder.mkdir()
    command = [
        "unshare", "--net", "dockerd", "--bridge=none", "--iptables=false",
        "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec"),
        "--host", f"unix://{folder}/sock", "--pidfile", str(folder / "pid"),
    ]  # fmt: skip
    daemon = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    host = f"unix://{folder}/sock"
    try:
        deadline = time.monotonic() + 30
        while subprocess.run(["docker", "-H", host, "version"], capture_output=True).returncode:
            assert time.monotonic() < deadline, "the private engine does not start"
            time.sleep(0.2)
        instance_id = accepted_id(built_sample)
        repository = Store(built_sample).settings.repository
        names = [f"{repository}:{instance_id}.{kind}" for kind in ("env", "test")]
        save = subprocess.Popen(["docker", "save", *names], stdout=subprocess.PIPE)
        subprocess.run(
            ["docker", "-H", host, "load"], stdin=save.stdout, check=True, capture_output=True
        )
        assert save.stdout is not None
        save.stdout.close()
        assert save.wait() == 0
        yield host, daemon, instance_id
    finally:
        for pid in _below(daemon.pid):
            os.kill(pid, signal.SIGKILL)
        daemon.kill()
        daemon.wait()
        time.sleep(0.5)
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(str(folder)):
                subprocess.run(["umount", "-l", line.split()[1]], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _below(pid: int) -> list[int]:
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(stat.parent.name)
            children += [*_below(child), child]
    return children


@pytest.mark.engine
def test_an_engine_that_stops_is_an_accident(
    private_engine: tuple[str, subprocess.Popen[bytes], str], built_sample: Path, tmp_path: Path
) -> None:
    """When the engine dies in the middle of a grading: exit 4, one line, and no verdict."""
    host, _daemon, instance_id = private_engine
    release = tmp_path / "sample"
    shutil.copytree(built_sample, release)
    patch = release / instance_id / "fix.patch"
    environment = {"DOCKER_HOST": host}
    whole = race("grade", str(release), instance_id, "--patch", str(patch), environment=environment)
    started = time.monotonic()
    _, said = whole.communicate(timeout=120)
    assert whole.returncode == 0, said
    length = time.monotonic() - started

    cut = race("grade", str(release), instance_id, "--patch", str(patch), environment=environment)
    deadline = time.monotonic() + 60
    listing = ["docker", "-H", host, "ps", "-q"]
    while not subprocess.run(listing, capture_output=True, text=True).stdout.strip():
        assert time.monotonic() < deadline, f"no container within {length} s"
    daemon_pid = int(Path(host.removeprefix("unix://")).with_name("pid").read_text())
    os.kill(daemon_pid, signal.SIGKILL)
    _, said = cut.communicate(timeout=120)
    assert cut.returncode == 4, said
    assert len([line for line in said.splitlines() if line.startswith("race:")]) == 1

    before = records(release / instance_id)
    stage = race("verify", str(release), instance_id, "--force", environment=environment)
    _, said = stage.communicate(timeout=120)
    assert stage.returncode == 4, said
    assert records(release / instance_id) == before


@pytest.mark.engine
def test_without_an_engine_a_command_says_what_to_do(built_sample: Path, tmp_path: Path) -> None:
    """No engine at all: one line that says so, exit 4, nothing recorded."""
    instance_id = accepted_id(built_sample)
    process = race(
        "grade", str(built_sample), instance_id,
        "--patch", str(built_sample / instance_id / "fix.patch"),
        environment={"DOCKER_HOST": f"unix://{tmp_path}/nothing"},
    )  # fmt: skip
    _, said = process.communicate(timeout=60)
    assert process.returncode in (3, 4), said
    assert "engine" in said
    assert "Traceback" not in said
