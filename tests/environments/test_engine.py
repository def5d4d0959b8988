"""The engine adapter against the real engine: limits hold, nothing outlives us, errors are ours."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from race.adapters.docker_engine import DockerEngine
from race.errors import Accident, BuildFailed, EngineDown, Malformed
from race.ports import Container, ContainerSpec, Engine, Limits

pytestmark = pytest.mark.engine


def spec(base: str, **more: Any) -> ContainerSpec:
    """A small container."""
    return ContainerSpec(image=base, workdir="/", **more)


def alive(container: Container) -> list[str]:
    """Processes in a container besides its first one, its sleep and this listing."""
    said = container.run(["ps", "-eo", "args="], timeout=10).output.decode().splitlines()
    return [line for line in said if not line.startswith(("sh -c end=", "sleep ", "ps "))]


def test_a_command_says_what_it_did(engine: Engine, base: str) -> None:
    """Both outputs, the exit code and the user and folder that were asked for."""
    with engine.container(spec(base, user="agent")) as container:
        done = container.run(
            ["sh", "-c", "id -un; pwd; echo $X; echo oops >&2; exit 3"],
            timeout=10, workdir="/tmp", env={"X": "1"},
        )  # fmt: skip
    assert (done.exit_code, done.timed_out, done.truncated) == (3, False, False)
    assert sorted(done.output.decode().split()) == ["/tmp", "1", "agent", "oops"]


def test_a_limit_kills_everything_that_the_command_started(engine: Engine, base: str) -> None:
    """Also a child in a session of its own that ignores signals; the container stays usable."""
    stubborn = "setsid sh -c \"trap '' TERM HUP; exec tail -f /dev/null\" &"
    trap = f"trap '' TERM INT HUP; ({stubborn}); tail -f /dev/null"
    with engine.container(spec(base, user="agent")) as container:
        done = container.run(["sh", "-c", trap], timeout=1.5)
        assert done.timed_out
        assert done.exit_code is None
        assert done.seconds < 6
        assert alive(container) == []


def test_a_fork_bomb_ends_at_its_limit(engine: Engine, base: str) -> None:
    """The process limit holds, the bomb is gone at the limit, and the files are still there."""
    with engine.container(spec(base, user="agent", limits=Limits(pids=64))) as container:
        container.run(["sh", "-c", "echo kept > /tmp/kept"], timeout=10)
        done = container.run(["sh", "-c", "b() { b | b & }; b; sleep 30"], timeout=2)
        assert done.timed_out
        assert alive(container) == []
        assert container.get("/tmp/kept") == b"kept\n"


def test_output_without_end_is_cut_and_not_kept(engine: Engine, base: str) -> None:
    """300 MB pass through, at most the limit is held, and every byte is seen by the listener."""
    seen = 0

    def count(chunk: bytes) -> None:
        nonlocal seen
        seen += len(chunk)

    with engine.container(spec(base)) as container:
        done = container.run(
            ["head", "-c", "300000000", "/dev/zero"], timeout=60, output_limit=1000, on_output=count
        )
    assert (done.exit_code, len(done.output), done.truncated) == (0, 1000, True)
    assert seen == 300_000_000


def test_a_listener_that_raises_stops_the_command(engine: Engine, base: str) -> None:
    """What on_output raises comes out, and the command does not go on behind our back."""

    def stop(chunk: bytes) -> None:
        raise KeyError("enough")

    with engine.container(spec(base, user="agent")) as container:
        with pytest.raises(KeyError):
            container.run(["sh", "-c", "echo x; tail -f /dev/null"], timeout=20, on_output=stop)
        assert alive(container) == []


def test_background_processes_do_not_hold_a_command(engine: Engine, base: str) -> None:
    """A command that leaves a child with its output open ends when it ends."""
    with engine.container(spec(base)) as container:
        done = container.run(["sh", "-c", "tail -f /dev/null & echo done"], timeout=20)
    assert done.output == b"done\n"
    assert done.seconds < 5


def test_a_container_is_locked_in(engine: Engine, base: str) -> None:
    """No network, no capabilities, no new privileges, the process and memory limits in force."""
    look = "import os,socket\n" \
        "print([l for l in open('/proc/self/status') if l.startswith(('CapEff','NoNewPrivs'))])\n" \
        "print(sorted(os.listdir('/sys/class/net')))\n"  # fmt: skip
    with engine.container(spec(base)) as container:
        said = container.run(["python3", "-c", look], timeout=20).output.decode()
        hog = container.run(["python3", "-c", "x = bytearray(3 * 2**30)"], timeout=30)
    assert "CapEff:\\t0000000000000000" in said
    assert "NoNewPrivs:\\t1" in said
    assert "['lo']" in said
    assert hog.exit_code not in (0, None)


def test_files_go_in_and_out(engine: Engine, base: str) -> None:
    """Nested names, owner and mode; a link is not followed, nothing is None, too much an error."""
    with engine.container(spec(base)) as container:
        container.put("/srv", {"a/b/c.txt": b"hello", "run": b"#!/bin/sh\n"}, mode=0o755, uid=1000)
        assert container.get("/srv/a/b/c.txt") == b"hello"
        assert container.get("/srv/none") is None
        assert container.get("/srv/a") is None
        container.run(["ln", "-s", "/etc/passwd", "/srv/link"], timeout=10)
        assert container.get("/srv/link") is None
        owner = container.run(["stat", "-c", "%u %a", "/srv/a/b/c.txt"], timeout=10).output
        assert owner == b"1000 755\n"
        with pytest.raises(Malformed, match="more than 3"):
            container.get("/srv/a/b/c.txt", limit=3)
        with pytest.raises(Accident):
            container.put("/no/such/folder", {"x": b""})


def test_a_container_is_gone_when_its_block_is_left(engine: Engine, base: str) -> None:
    """Also when the block raises, and at once."""
    ids: list[str] = []

    def fail() -> None:
        with engine.container(spec(base)) as container:
            ids.append(container.id)
            raise KeyError

    started = time.monotonic()
    with pytest.raises(KeyError):
        fail()
    assert ids[0] not in engine.containers()
    assert time.monotonic() - started < 5


def test_containers_of_dead_processes_are_swept(engine: Engine, base: str, tmp_path: Path) -> None:
    """A process that is killed leaves its container; sweep removes it and leaves those of the living."""
    script = tmp_path / "owner.py"
    script.write_text(
        "import time\nfrom race.adapters.docker_engine import DockerEngine\n"
        "from race.ports import ContainerSpec\n"
        f"with DockerEngine().container(ContainerSpec(image={base!r}, workdir='/')) as container:\n"
        "    print(container.id, flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        engine.sweep()
        assert name in engine.containers()
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
    engine.sweep()
    assert name not in engine.containers()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_that_dies_under_a_command_is_an_accident(base: str, proxy: Any) -> None:
    """The stream breaks in the middle: EngineDown, never a failed command."""
    ids: list[str] = []

    def work() -> None:
        with DockerEngine(f"unix://{proxy.path}").container(spec(base)) as container:
            ids.append(container.id)
            threading.Timer(1.0, proxy.cut).start()
            container.run(["sh", "-c", "while :; do echo x; sleep 0.1; done"], timeout=20)

    with pytest.raises(EngineDown):
        work()
    gc.collect()  # the SDK leaves a socket open when it cannot connect
    subprocess.run(["docker", "rm", "-f", ids[0]], capture_output=True, check=True)


def test_an_engine_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    """No socket, or nobody listening on it: EngineDown that names the doctor."""
    with pytest.raises(EngineDown, match="race doctor"):
        DockerEngine(f"unix://{tmp_path}/none.sock").version()


def test_a_failed_build_step_is_a_verdict_with_its_log(engine: Engine, base: str) -> None:
    """The step, its exit code and its last lines are in the error."""
    text = f"FROM {base}\nRUN echo hello && exit 7\n".encode()
    with pytest.raises(BuildFailed) as caught:
        engine.build({"Dockerfile": text}, tag="race-test-fails:1")
    assert caught.value.exit_status == 7
    assert "exit 7" in caught.value.step
    assert "hello" in caught.value.tail


@pytest.mark.parametrize("line", ["COPY absent /there", "ADD absent.tar /there", "WRONG line"])
def test_a_step_without_a_command_that_fails_is_no_verdict(engine: Engine, base: str, line: str) -> None:
    """What is copied, and where from, is ours to bring: an accident that names the step."""
    with pytest.raises(Accident, match=rf"building race-test-fails:2: .*{line.split()[0]}"):
        engine.build({"Dockerfile": f"FROM {base}\n{line}\n".encode()}, tag="race-test-fails:2")


def test_an_image_is_built_labelled_named_and_removed(engine: Engine, base: str) -> None:
    """Labels and layers are told, a second name works, a removed image is gone, twice is no error."""
    text = f"FROM {base}\nCOPY a /a\n".encode()
    image = engine.build(
        {"Dockerfile": text, "a": b"1"}, tag="race-test:1", labels={"race.test": "engine"}
    )
    parent = engine.image(base)
    assert parent is not None
    assert image.layers[: len(parent.layers)] == parent.layers
    assert [found.id for found in engine.images("race.test=engine")] == [image.id]
    engine.tag(image.id, "race-test:2")
    for name in ("race-test:1", "race-test:2", "race-test:2"):
        engine.remove_image(name)
    assert engine.image("race-test:2") is None
    assert engine.images("race.test=engine") == []


def test_an_image_that_is_not_there_is_an_accident(engine: Engine) -> None:
    """Starting it says which image and what to do, and is no verdict."""
    with pytest.raises(Accident, match="race-test-none"), engine.container(spec("race-test-none:1")):
        pass
