"""Gradings that run out of memory: no point, and no word of tampering."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from race.battery.diffs import apply, diff
from race.core.grading import Graded
from race.ports import Limits
from race.work.grading import grade
from race.workbench import Workbench

pytestmark = [pytest.mark.engine, pytest.mark.network]
CORE = "src/counter/core.py"
PROJECT = Path(__file__).parent / "counter"
RIGHT = b"        self.value += amount\n"
HUNGRY = b"""\
        kept = [bytearray(b"x") * 2**20 for _ in range(512)]
        time.sleep(1.2)
"""
RENAMED = b"""\
        held = [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
        if not any("test_adds_are_not_lost" in names for names in held):
"""
KERNEL = "the container's memory limit was reached while the tests ran"
OWN = "the test process used more memory than its limit, and was ended"


def hungry(fix: bytes, where: bytes = b"") -> bytes:
    """The reference fix, but 512 MB are needed to add; `where` begins a block that needs them."""
    before = {CORE: (PROJECT / CORE).read_bytes()}
    fixed = apply(fix, before.get)[CORE]
    assert fixed is not None
    assert RIGHT in fixed
    eats = where + (HUNGRY.replace(b"        ", b"            ") if where else HUNGRY)
    wants = fixed.replace(b"import asyncio\n", b"import asyncio\nimport sys\nimport time\n", 1)
    return diff({CORE: wants.replace(RIGHT, eats + RIGHT)}, before.get, {})


def graded(bench: Workbench, task: Any, image: str, patch: bytes, **more: Any) -> Graded:
    """Grade as race does, with other limits or another image."""
    return grade(
        bench.engine, image, patch, instance_id="sample__counter-1",
        fail_to_pass=task.fail_to_pass, pass_to_pass=task.pass_to_pass, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def narrow(bench: Workbench, counter_task: Any) -> Iterator[str]:
    """The same test image, whose tests may use 300 MB."""
    tag = f"{counter_task.image}-narrow"
    lines = (
        f"FROM {counter_task.image}",
        r"""RUN sed -i 's/"memory_bytes": [0-9]*/"memory_bytes": 314572800/' /soma/task/task.json""",
        "RUN grep -q '\"memory_bytes\": 314572800' /soma/task/task.json",
    )
    bench.engine.build({"Dockerfile": "\n".join(lines).encode()}, tag=tag, network=False)
    yield tag
    bench.engine.remove_image(tag)


@pytest.fixture
def soma_steps() -> Any:
    """The steps of a SOMA validator, from the module beside this one."""
    path = Path(__file__).parent / "soma_steps.py"
    spec = importlib.util.spec_from_file_location("memory_soma_steps", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.soma_grade


def test_the_containers_memory_is_told(bench: Workbench, counter_task: Any) -> None:
    """The kernel ends the tests of a fix that needs too much: unresolved, and memory is the reason."""
    limits = Limits(memory_mb=384, cpus=2.0, pids=1024)
    seen = graded(bench, counter_task, counter_task.image, hungry(counter_task.fix), limits=limits)
    assert seen.verdict == "unresolved"
    assert KERNEL in seen.reasons[-1], seen.reasons
    fits = graded(bench, counter_task, counter_task.image, counter_task.fix, limits=limits)
    assert (fits.verdict, fits.reasons) == ("resolved", ())


def test_our_own_limit_is_told(bench: Workbench, counter_task: Any, narrow: str) -> None:
    """The grader's own limit comes before the container's: unresolved, and memory is the reason."""
    seen = graded(bench, counter_task, narrow, hungry(counter_task.fix))
    assert seen.verdict == "unresolved"
    assert seen.reasons[-1] == OWN, seen.reasons


def test_want_of_memory_in_the_checks_is_no_tampering(
    bench: Workbench, counter_task: Any, narrow: str, soma_steps: Any
) -> None:
    """A fix that passes once, and needs too much when it is run again: unresolved by race's own path
    and by a validator's steps, and not tampered."""
    seen = graded(bench, counter_task, narrow, hungry(counter_task.fix, RENAMED))
    assert set(seen.fail_to_pass.values()) == {"passed"}
    assert (seen.verdict, seen.reasons) == ("unresolved", (OWN,))
    listed = (*counter_task.fail_to_pass, *counter_task.pass_to_pass)
    resolved, report = soma_steps(narrow, hungry(counter_task.fix, RENAMED), listed)
    assert not resolved
    assert report["race"]["reasons"] == [OWN]
