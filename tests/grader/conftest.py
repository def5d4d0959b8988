"""A small project in images of three pytest versions, made once per machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from race.core.grading import Graded
from race.core.records import digest
from race.ports import Container, ContainerSpec, Engine, Limits
from race.work.base_images import ensure_base
from race.work.grading import grade
from race.work.observing import CAPABILITIES
from race.work.test_image import TestImage, build_test
from race.workbench import Workbench

collect_ignore = ["counter"]
PYTESTS = {"7": "pytest==7.4.4", "8": "pytest==8.4.2", "9": "pytest==9.0.1"}
PATCHES = Path(__file__).parent / "patches"
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


@dataclass(frozen=True)
class CounterTask:
    """The task made of the project `counter`: its test image and its lists."""

    image: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    fix: bytes

    def grade(self, engine: Engine, patch: bytes, *, run_empty: bool = False) -> Graded:
        """Grade through race's own path."""
        return grade(
            engine,
            self.image,
            patch,
            instance_id="sample__counter-1",
            fail_to_pass=self.fail_to_pass,
            pass_to_pass=self.pass_to_pass,
            run_empty=run_empty,
        )


@pytest.fixture(scope="session")
def counter_task(bench: Workbench, counter_image: Callable[[str], str]) -> CounterTask:
    """The task's test image, built through the function that sealing uses."""
    wanted = TestImage(
        instance_id="sample__counter-1",
        env_image=counter_image("9"),
        env_recipe=recipe_of(bench.engine, counter_image("9")),
        fail_to_pass=(
            "tests/test_core.py::test_adds_are_not_lost",
            "tests/test_core.py::test_close_wakes_all",
            "tests/test_core.py::test_adds_in_a_loop_of_its_own",
        ),
        pass_to_pass=(
            "tests/test_core.py::test_add_returns_the_value",
            "tests/test_core.py::test_closed_counter_refuses",
            "tests/test_core.py::TestStart::test_start[7]",
            "tests/test_text.py::test_describe",
        ),
        test_patch=(PATCHES / "test.patch").read_bytes(),
        fix_patch=(PATCHES / "fix.patch").read_bytes(),
        canary="00000000-0000-4000-8000-000000000000",
        test_seconds=10,
        run_seconds=120,
    )
    build_test(bench.engine, wanted, "race-tests-grader:task", b"a secret of the tests")
    return CounterTask(
        "race-tests-grader:task", wanted.fail_to_pass, wanted.pass_to_pass, wanted.fix_patch
    )


def recipe_of(engine: Engine, ref: str) -> str:
    """The recipe label of an image that is there."""
    image = engine.image(ref)
    assert image is not None
    return image.labels["race.recipe"]
