"""A small project in images of three pytest versions, made once per machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from race.core.records import digest
from race.ports import Container, ContainerSpec, Engine, Limits
from race.work.base_images import ensure_base
from race.work.observing import CAPABILITIES
from race.workbench import Workbench

PYTESTS = {"7": "pytest==7.4.4", "8": "pytest==8.4.2", "9": "pytest==9.0.1"}
PROJECT = Path(__file__).parent / "counter"
DOCKERFILE = """\
FROM {base}
RUN python3 -m venv --without-pip /opt/venv
COPY site/ /opt/venv/lib/python3.11/site-packages/
RUN echo /repo/src > /opt/venv/lib/python3.11/site-packages/counter.pth
COPY repo/ /repo/
RUN cd /repo && git init -q . && git add -A && \
    git -c user.name=Sample -c user.email=sample@example.invalid commit -qm base && \
    chown -R agent:agent /repo
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin
USER agent
WORKDIR /repo
STOPSIGNAL SIGKILL
"""


def _files(folder: Path, prefix: str) -> dict[str, bytes]:
    return {
        f"{prefix}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="session")
def bench() -> Workbench:
    """The tools of this machine."""
    from race.settings import read_workspace

    return Workbench(read_workspace(Path.cwd(), {}))


@pytest.fixture(scope="session")
def counter_image(bench: Workbench, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The env image of the project `counter` with pytest 7, 8 or 9."""

    def image(version: str) -> str:
        tag = f"race-tests-grader:pytest{version}"
        recipe = digest(
            [DOCKERFILE, PYTESTS[version], {n: d.hex() for n, d in _files(PROJECT, "").items()}]
        )
        found = bench.engine.image(tag)
        if found is not None and found.labels.get("race.recipe") == recipe:
            return tag
        site = tmp_path_factory.mktemp("site")
        subprocess.run(
            [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", str(site), "--only-binary",
             ":all:", "--python-version", "3.11", PYTESTS[version], "pytest-asyncio"],
            check=True,
        )  # fmt: skip
        base = ensure_base(bench, "3.11").runtime
        context = {"Dockerfile": DOCKERFILE.format(base=base).encode()}
        context |= _files(site, "site") | _files(PROJECT, "repo")
        bench.engine.build(context, tag=tag, labels={"race.recipe": recipe})
        return tag

    return image


@pytest.fixture
def open_container(
    bench: Workbench, counter_image: Callable[[str], str]
) -> Callable[..., AbstractContextManager[Container]]:
    """Starts a container of the project, as validation does."""
    engine: Engine = bench.engine

    @contextmanager
    def start(version: str = "9", files: dict[str, str] | None = None) -> Iterator[Container]:
        spec = ContainerSpec(
            image=counter_image(version),
            capabilities=CAPABILITIES,
            limits=Limits(pids=256),
            lifetime=600,
        )
        with engine.container(spec) as container:
            container.put("/repo", {name: text.encode() for name, text in (files or {}).items()})
            yield container

    return start
