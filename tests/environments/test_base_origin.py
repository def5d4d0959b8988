"""Base images from an official image by its digest: a registry of our own, a stand-in for the image."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from race.cli import run
from race.errors import Missing
from race.ports import ContainerSpec, Engine
from race.settings import Workspace
from race.work.base_images import (
    ORIGIN,
    base_names,
    base_recipe,
    ensure_base,
    missing_bases,
    official_image,
    origin_of,
)
from race.workbench import Workbench

EXTRA = ["bc"]
"""A project's system package: such a pair has names of its own, so that no other test is disturbed."""
STAND_IN = """\
FROM race-builder:py3.11 AS builder
FROM race-base:py3.11
COPY --from=builder /usr/share/python-wheels /usr/local/lib/python3.11/ensurepip/_bundled
RUN cp -a /usr/lib/python3.11/. /usr/local/lib/python3.11/ \\
 && cp -a /usr/bin/python3.11 /usr/local/bin/ \\
 && ln -s python3.11 /usr/local/bin/python3 && mkdir -p /usr/local/lib/python3.11/dist-packages \\
 && cd /usr/local/lib/python3.11/dist-packages \\
 && for wheel in ../ensurepip/_bundled/*.whl; do /usr/local/bin/python3 -m zipfile -e "$wheel" .; done \\
 && dpkg --purge --force-all $(dpkg -l | awk '/^ii/ && $2 ~ /python/ {print $2}') >/dev/null 2>&1; \\
    rm -rf /usr/lib/python3* && userdel -r agent 2>/dev/null; test ! -e /usr/bin/python3
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 PYTHON_VERSION=3.11.2
LABEL stand-in="for python:3.11-slim-bookworm: Debian's own Python, moved to /usr/local" \\
      race.recipe= race.base.origin=
CMD ["python3"]
"""
RELEASE = """\
[release]
name = "origintest"
canary = "00000000-0000-4000-8000-000000000000"
sample = true
[validate]
runs = 1
[validate.reliability]
limit = 0.5
repeats = 5
perturb = false
[projects."sample/brook"]
system_packages = ["bc"]
"""
TASK = "sample__brook-3"


@dataclass(frozen=True)
class Registry:
    """A running registry that has the stand-in, and where it keeps its data."""

    reference: str
    spoiled: str
    """Another image by its digest, of which the registry now keeps other bytes."""

    def bench(self, cache: Path, reference: str = "") -> Workbench:
        """The tools of a command on a machine that takes its official image from here."""
        chosen = {"3.11": reference or self.reference}
        return Workbench(Workspace(cache=str(cache), base_images=chosen))


def docker(*words: str) -> str:
    """The engine's own client."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def answers(port: int) -> None:
    """Wait until a port of this machine does."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as knock:
            if knock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the registry does not start")


@pytest.fixture(scope="module")
def registry(
    bench: Workbench, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """Debian's registry on a port of 127.0.0.1, with a stand-in for the official image pushed to it."""
    ensure_base(bench, "3.11")
    if not bench.host.has("docker-registry"):
        bench.host.install(["docker-registry"])
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = subprocess.Popen(
        ["docker-registry", "serve", str(folder / "config.yml")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    prefix = f"127.0.0.1:{port}/library"
    tag, references = f"{prefix}/python:3.11-slim-bookworm", list[str]()
    try:
        answers(port)
        engine.build({"Dockerfile": STAND_IN.encode()}, tag=tag, labels={"race.builder": "1"})
        other = f"{prefix}/python:other"
        engine.build({"Dockerfile": f"FROM {tag}\n".encode()}, tag=other, labels={"other": "1"})
        references = [f"{tag}@{pushed(tag)}", f"{tag}@{pushed(other)}"]
        spoil(folder / "data", references[1].rpartition(":")[2])
        yield Registry(*references)
    finally:
        process.terminate()
        process.wait(timeout=20)
        names = base_names("3.11", EXTRA)
        digest = references[0].rpartition("@")[2] if references else "sha256:0"
        made = (f"race-origintest:{TASK}.env", names.runtime, names.builder, f"{prefix}/python@{digest}")
        for ref in made:
            if engine.image(ref) is not None:
                engine.remove_image(ref)


def pushed(tag: str) -> str:
    """Give an image to its registry, and have it no longer: its digest there."""
    digest = docker("push", tag).rpartition("digest: ")[2].split()[0]
    docker("rmi", tag)
    return digest


def spoil(data: Path, name: str) -> None:
    """Change the bytes that a registry keeps under a digest."""
    kept = data / "docker/registry/v2/blobs/sha256" / name[:2] / name / "data"
    whole = kept.read_bytes()
    assert b'"schemaVersion": 2' in whole
    kept.write_bytes(whole.replace(b'"schemaVersion": 2', b'"schemaVersion":  2'))


def label_of(engine: Engine, ref: str) -> str:
    """What an image says that it was made from."""
    image = engine.image(ref)
    assert image is not None
    return str(image.labels[ORIGIN])


@pytest.mark.engine
@pytest.mark.network
def test_a_task_is_validated_on_an_official_image(
    engine: Engine, registry: Registry, sample_project: Path, tmp_path: Path
) -> None:
    """A pair is made from exactly the image of that digest, once; a task built on it is accepted."""
    bench, said = registry.bench(tmp_path / "cache"), list[str]()
    names = ensure_base(bench, "3.11", EXTRA, say=said.append)
    assert [line.partition(" from ")[2] for line in said] == [registry.reference] * 2
    digest = registry.reference.rpartition("@")[2]
    assert origin_of(bench, names) == f"python:3.11-slim-bookworm@{digest}"
    assert missing_bases(bench, "3.11", EXTRA) == []
    ensure_base(bench, "3.11", EXTRA, say=said.append)
    assert len(said) == 2, "nothing is due a second time"
    assert missing_bases(registry.bench(tmp_path, f"other/python@sha256:{'0' * 64}"), "3.11", EXTRA), (
        "another digest that was asked for is another image"
    )
    with engine.container(ContainerSpec(image=names.runtime, workdir="/")) as container:
        found = container.run(["sh", "-c", "readlink -f /usr/bin/python3; id -un 1000"], timeout=30)
        assert found.output.split() == [b"/usr/local/bin/python3.11", b"agent"]

    release = tmp_path / "release"
    release.mkdir()
    (release / "release.toml").write_text(RELEASE)
    mine = ["mine", str(release), "--clone", str(sample_project), "--repo", "sample/brook"]
    assert run(mine, workbench=registry.bench(tmp_path / "cache")) == 0
    assert run(["validate", str(release), TASK], workbench=registry.bench(tmp_path / "cache")) == 0
    record = (release / TASK / "validate.json").read_text()
    assert json.loads(record)["accepted"]
    assert digest not in record, "records do not tell machines apart"
    assert label_of(engine, f"race-origintest:{TASK}.env") == f"python:3.11-slim-bookworm@{digest}"


class NoDebian:
    """Stands where Debian's packages would be taken, and says that it was asked."""

    def make(self, suite: str, packages: Any, excluded: Any, to: Path, timeout: float) -> None:
        raise Missing(f"asked for Debian {suite}")


def without_the_official_image(bench: Workbench) -> list[str]:
    """What is said when a pair of that other name is to be made; it must fall back on Debian."""
    said: list[str] = []
    bench.__dict__["rootfs"] = NoDebian()
    with pytest.raises(Missing, match="asked for Debian bookworm"):
        ensure_base(bench, "3.11", ["bc", "dc"], say=said.append)
    return said


@pytest.mark.engine
@pytest.mark.network
def test_a_digest_that_is_not_there_or_differs(registry: Registry, tmp_path: Path) -> None:
    """One line says which image cannot be had and why, and Debian's packages are next."""
    repository = registry.reference.partition("@")[0]
    first, then = without_the_official_image(registry.bench(tmp_path, f"{repository}@sha256:{'0' * 64}"))
    assert first.startswith("the registry does not have python:3.11-slim-bookworm@sha256:0000")
    assert "Debian's packages" in then

    first, then = without_the_official_image(registry.bench(tmp_path, registry.spoiled))
    assert f"python:3.11-slim-bookworm@{registry.spoiled.rpartition('@')[2]}" in first
    assert "verification failed" in first
    assert "Debian's packages" in then

    nobody_s = registry.reference.replace("127.0.0.1:", "127.0.0.2:")
    first, then = without_the_official_image(registry.bench(tmp_path, nobody_s))
    assert first.startswith("no registry answers for python:3.11-slim-bookworm@sha256:")
    assert "Debian's packages" in then


def test_which_image_a_workspace_asks_for() -> None:
    """What race pins, by digest, from a mirror when one is set; nothing when registries are off."""
    pinned = official_image(Workspace(), "3.13")
    assert pinned.startswith("python:3.13-slim-trixie@sha256:")
    assert official_image(Workspace(registry="mirror.example/library/"), "3.13") == (
        f"mirror.example/library/{pinned}"
    )
    own = f"mirror.example/python@sha256:{'1' * 64}"
    assert official_image(Workspace(base_images={"3.13": own}), "3.13") == own
    assert official_image(Workspace(base_images={"3.13": own}), "3.11").startswith("python:3.11")
    assert official_image(Workspace(registry_pull=False, base_images={"3.13": own}), "3.13") == ""


def test_an_image_without_a_digest_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tag can mean another image tomorrow: one line, exit 2."""
    (tmp_path / "race.toml").write_text('[base_images]\n"3.11" = "python:3.11-slim"\n')
    monkeypatch.chdir(tmp_path)
    assert run(["doctor"]) == 2
    assert "base_images.3.11" in capsys.readouterr().err


class MadeFromDebian:
    """An engine that has the pair of one Python, made from Debian's packages; also an index."""

    def version(self) -> str:
        return "1.0"

    reach = version

    def image(self, ref: str) -> Any:
        if not ref.endswith("py3.11"):
            return None
        recipe = base_recipe("3.11", "builder" if "builder" in ref else "runtime")
        labels = {"race.recipe": recipe, ORIGIN: "Debian bookworm packages"}
        return type("Image", (), {"labels": labels})()


@pytest.mark.parametrize(
    ("workspace", "said"),
    [
        ({}, "made from Debian bookworm packages"),
        (
            {"registry": "mirror.example"},
            "to have them made from mirror.example/python:3.11-slim-bookworm@",
        ),
        ({"registry": "mirror.example", "registry_pull": False}, "made from Debian bookworm packages"),
    ],
)
def test_doctor_says_what_base_images_were_made_from(
    workspace: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And, where the workspace names a registry that did not answer then, how to have them anew."""
    bench = Workbench(Workspace(cache=str(tmp_path), **workspace))
    bench.__dict__["engine"] = bench.__dict__["resolver"] = MadeFromDebian()
    run(["doctor"], workbench=bench)
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "base images py3.11" in one]
    assert said in line
    assert ("remove race-base:py3.11" in line) is ("to have them" in said)
