"""Live probes against a container that has a network, and against one that has none."""

from __future__ import annotations

import io
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from race.core.leaks.layers import ImageView
from race.core.leaks.probes_network import PROBES
from race.core.leaks.probing import Subject
from race.ports import Container, ContainerSpec, Engine, Image
from race.work.base_images import ensure_base
from race.work.leak_scan import AuditRequest, audit_image

ANSWERING = Path(__file__).with_name("answering.py").read_text()
FOUND = ("interfaces", "routes", "tcp", "udp", "dns", "ipv6", "metadata", "gateway", "proxy")


def docker(*words: str) -> str:
    """A command of the engine's own client."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def name_servers() -> list[str]:
    """The host's, which the engine's own resolver asks from within a container's network."""
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver") and "." in line]


@dataclass
class Networked:
    """The engine, but its containers have a network: the engine's own bridge, a second network with
    IPv6, a proxy variable, and neighbours in it that answer on public and metadata addresses."""

    engine: Engine
    network: str
    listener: str

    def image(self, ref: str) -> Image | None:
        """As the engine says."""
        return self.engine.image(ref)

    def save(self, ref: str) -> Iterator[bytes]:
        """As the engine gives it."""
        return self.engine.save(ref)

    @contextmanager
    def container(self, spec: ContainerSpec) -> Iterator[Container]:
        """A container with a network."""
        open_spec = replace(spec, network=True, env={"HTTPS_PROXY": "http://10.0.0.9:3128"})
        with self.engine.container(open_spec) as container:
            docker("network", "connect", self.network, container.id)
            helper = docker(
                "run", "-d", "--rm", "--network", f"container:{container.id}", "--cap-add", "NET_ADMIN",
                "--entrypoint", "/usr/bin/python3", self.listener, "-c", ANSWERING,
                *name_servers(),
            )  # fmt: skip
            try:
                end = time.monotonic() + 20
                while "ready" not in docker("logs", helper) and time.monotonic() < end:
                    time.sleep(0.2)
                yield container
            finally:
                subprocess.run(["docker", "rm", "-f", helper], capture_output=True, check=False)


@pytest.fixture
def network() -> Iterator[str]:
    """A network with IPv6 of this test alone, also removed when an earlier run was killed."""
    name = "race-tests-seal-live"
    subprocess.run(["docker", "network", "rm", name], capture_output=True, check=False)
    docker("network", "create", "--ipv6", "--subnet", "fd7a:ce00:5ea1::/64", name)
    try:
        yield name
    finally:
        subprocess.run(["docker", "network", "rm", name], capture_output=True, check=False)


def live(audit: Any) -> dict[str, Any]:
    """The live probes of an audit by their short name."""
    return {p.name.removeprefix("live-"): p for p in audit.probes if p.name.startswith("live-")}


@pytest.mark.engine
def test_live_probes_find_a_network_and_only_a_network(
    workshop, bench, engine: Engine, names: str, network: str
) -> None:
    """With a network every network probe finds what answers, with its address; without one, none."""
    base = ensure_base(bench, "3.11").runtime
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(workshop.clean / "repo", "repo")
    tag = f"{names}:networked"
    dockerfile = f"FROM {base}\nADD repo.tar /\nWORKDIR /repo\n".encode()
    engine.build({"Dockerfile": dockerfile, "repo.tar": buffer.getvalue()}, tag=tag)
    try:
        request = AuditRequest(image=tag, wanted=workshop.strict)
        closed = live(audit_image(engine, request))
        assert {name for name, p in closed.items() if p.findings} == set()
        assert all(p.checked and p.passed for p in closed.values())
        opened = live(audit_image(Networked(engine, network, base), request))  # type: ignore[arg-type]
    finally:
        engine.remove_image(tag)
    assert {name for name, p in opened.items() if p.findings} == set(FOUND)
    told = {name: [(f.path, f.excerpt) for f in p.findings] for name, p in opened.items()}
    assert ("1.1.1.1 port 443", "connected") in told["tcp"]
    assert ("8.8.8.8 port 53", "answered") in told["udp"]
    assert ("github.com", "192.0.2.7") in told["dns"]
    assert ("169.254.169.254 port 80", "connected") in told["metadata"]
    assert told["gateway"]
    assert told["interfaces"][0][0].startswith("eth")
    assert told["proxy"] == [("HTTPS_PROXY", "is set")]


def test_every_live_probe_reads_its_own_list() -> None:
    """A report with one entry in one list fails that probe and no other."""
    names = [probe.name for probe in PROBES if probe.name.startswith("live-")]
    assert {f"live-{name}" for name in FOUND} <= set(names)
    empty: dict[str, list[dict[str, str]]] = {name.removeprefix("live-"): [] for name in names}
    view = ImageView([], {}, "/repo")
    for name in empty:
        report = empty | {name: [{"target": "somewhere", "answer": "something"}]}
        subject = Subject(view, None, live=report)  # type: ignore[arg-type]
        results = {p.name: p.run(subject) for p in PROBES if p.name.startswith("live-")}
        assert [n for n, result in results.items() if result.findings] == [f"live-{name}"]
