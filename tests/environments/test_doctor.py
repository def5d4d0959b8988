"""doctor finds what is missing, says what to do, and fixes only what it may; clean removes only ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from race.adapters.host_setup import DebianHost
from race.cli import run
from race.errors import EngineDown, Missing, Unreachable
from race.ports import Engine
from race.settings import Workspace
from race.work.base_images import base_names, base_recipe, ensure_base, pythons
from race.workbench import Workbench


class FakeHost:
    """A host that may or may not be changed, and remembers what was done to it."""

    def __init__(self, refusal: str = "", programs: Sequence[str] = ()) -> None:
        self._refusal, self.programs, self.done = refusal, set(programs), list[str]()

    def refusal(self) -> str:
        return self._refusal

    def has(self, program: str) -> bool:
        return program in self.programs

    def install(self, packages: Sequence[str]) -> None:
        self.done.append(f"install {' '.join(packages)}")
        self.programs |= {"dockerd" if name == "docker.io" else name for name in packages}

    def start_engine(self, answers: Callable[[], bool]) -> str:
        self.done.append("start")
        return "started"


class FakeEngine:
    """An engine that answers once its host has started it; images exist once they are imported."""

    def __init__(self, host: FakeHost, up: bool = False) -> None:
        self.host, self._up, self.imported = host, up, dict[str, Any]()

    def version(self) -> str:
        if not self._up and "start" not in self.host.done:
            raise EngineDown("the container engine does not answer")
        return "1.0"

    def image(self, ref: str) -> Any:
        return self.imported.get(ref)

    def pull(self, ref: str) -> Any:
        raise Unreachable("no registry")

    def import_image(self, tar: Path, tag: str, *, changes: Sequence[str] = ()) -> Any:
        python = tag.rpartition("py")[2]
        kind = "builder" if "builder" in tag else "runtime"
        labels = {"race.recipe": base_recipe(python, kind)}
        self.imported[tag] = type("Image", (), {"labels": labels})()


class FakeResolver:
    """An index that answers or not."""

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers

    def reach(self) -> str:
        if not self.answers:
            raise Unreachable("the package index does not answer")
        return "resolver 1"


class FakeRootfs:
    """Makes nothing, and says when it was asked."""

    def make(self, suite: str, packages: Any, excluded: Any, to: Path, timeout: float) -> None:
        to.write_bytes(b"")


def doctor(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, host: FakeHost, *arguments: str, up: bool = False
) -> tuple[int, str, str]:
    """Run the command on a made-up machine: exit code, standard output, standard error."""
    bench = Workbench(Workspace(cache=str(tmp_path)))
    for name, tool in (("engine", FakeEngine(host, up)), ("host", host),
                       ("resolver", FakeResolver()), ("rootfs", FakeRootfs())):  # fmt: skip
        bench.__dict__[name] = tool
    code = run(["doctor", *arguments], workbench=bench)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_machine_without_an_engine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit 3, and one line on what the user must do; nothing is changed without --fix."""
    host = FakeHost("not root")
    code, out, err = doctor(capsys, tmp_path, host)
    assert code == 3
    assert "MISSING engine" in out
    assert "install Docker and start it" in err
    assert host.done == []


def test_fix_without_the_right_to(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--fix as an ordinary user is one line and exit 3, and touches nothing."""
    host = FakeHost("not root")
    code, _, err = doctor(capsys, tmp_path, host, "--fix")
    assert (code, host.done) == (3, [])
    assert len(err.strip().splitlines()) == 1
    assert "not root" in err


def test_fix_installs_starts_and_makes_base_images(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """From nothing: engine installed and started, mmdebstrap installed, images made, each step said."""
    host = FakeHost()
    code, out, err = doctor(capsys, tmp_path, host, "--fix")
    assert code == 0, out + err
    assert host.done == ["install docker.io", "start", "install mmdebstrap"]
    for word in ("installing the container engine", "starting", "race-base:py3.11", "no registry"):
        assert word in err
    code, out, _ = doctor(capsys, tmp_path, FakeHost(), up=True)
    assert code == 3, "another engine has no base images"


def test_doctor_tells_a_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--json is one document with every check and whether it is required."""
    code, out, _ = doctor(capsys, tmp_path, FakeHost("not root"), "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert code == 3
    assert not checks["engine"]["ok"]
    assert checks["resolver"]["ok"]
    assert not checks["token"]["required"]


def test_a_stale_pid_file_is_removed(tmp_path: Path) -> None:
    """Only when no living dockerd has that id; otherwise dockerd would refuse to start."""
    host, file = DebianHost(), tmp_path / "docker.pid"
    file.write_text("1")
    assert host.remove_stale_pid(file)
    assert not file.exists()
    assert not host.remove_stale_pid(file)


def test_a_python_without_a_base_image() -> None:
    """Asking for one names those that exist."""
    assert pythons()[0] == "3.11"
    with pytest.raises(Missing, match=r"3\.11, 3\.13"):
        base_names("2.7")
    assert base_names("3.11", ["libpq5"]).runtime != base_names("3.11").runtime


@pytest.mark.engine
def test_clean_takes_only_what_is_of_that_release(
    engine: Engine, bench: Workbench, base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its images go; other images, another release's and base images stay."""
    (tmp_path / "release.toml").write_text(
        '[release]\nname = "cleantest"\ncanary = "00000000-0000-4000-8000-000000000000"\n'
    )
    for name, labels in (
        ("race-cleantest:a", {"race.recipe": "x", "race.release": "cleantest"}),
        ("race-othertest:a", {"race.recipe": "y", "race.release": "othertest"}),
        ("stranger-cleantest:a", {}),
    ):
        engine.build({"Dockerfile": f"FROM {base}\nENV A={name}\n".encode()}, tag=name, labels=labels)
    assert run(["clean", str(tmp_path)]) == 0
    assert "images removed" in capsys.readouterr().out
    left = {name for name in ("race-cleantest:a", "race-othertest:a", "stranger-cleantest:a", base)
            if engine.image(name) is not None}  # fmt: skip
    assert left == {"race-othertest:a", "stranger-cleantest:a", base}
    subprocess.run(["docker", "rmi", "race-othertest:a", "stranger-cleantest:a"], check=True,
                   capture_output=True)  # fmt: skip


def test_a_host_that_cannot_make_base_images(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No registry and no way to get Debian packages: what is missing is said, exit 3, no traceback."""

    class NoRootfs:
        def make(self, suite: str, packages: Any, excluded: Any, to: Path, timeout: float) -> None:
            raise Missing("mmdebstrap is not installed; `race doctor --fix` installs it")

    bench = Workbench(Workspace(cache=str(tmp_path)))
    host = FakeHost("not root")
    for name, tool in (("engine", FakeEngine(host, up=True)), ("host", host),
                       ("resolver", FakeResolver()), ("rootfs", NoRootfs())):  # fmt: skip
        bench.__dict__[name] = tool
    assert run(["doctor", "--fix"], workbench=bench) == 3
    said = capsys.readouterr()
    assert "mmdebstrap is not installed" in said.err
    assert "MISSING base images py3.11" in said.out
    with pytest.raises(Missing, match="mmdebstrap"):
        ensure_base(bench, "3.11")
