"""A container that holds one cell of the matrix: the environment image with the cell's patches."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from race.core.matrix import Cell, has_fix, has_new_tests
from race.core.outcomes import Observation
from race.errors import Rejection
from race.ports import Container, ContainerSpec, Engine, Limits
from race.work.observing import CAPABILITIES

SLOTS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""Containers that may run tests at the same moment on this machine, over all tasks of a command."""

_PATCHES = "race-patches"


@dataclass(frozen=True)
class Subject:
    """What is validated: an environment image, the two patches, and how its tests are run."""

    image: str
    fix_patch: bytes
    test_patch: bytes
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    test_seconds: float = 60.0
    run_seconds: float = 600.0
    output_bytes: int = 2**18


@contextmanager
def open_cell(
    engine: Engine, subject: Subject, cell: Cell, *, cpus: float | None = None, lifetime: float = 7200
) -> Iterator[Container]:
    """A fresh container of a cell, without network; waits for a free slot of the machine.

    Raises Rejection when a patch does not apply to the environment's tree.
    """
    limits = subject.limits
    if cpus is not None:
        limits = Limits(limits.memory_mb, cpus, limits.pids, limits.tmpfs_mb)
    spec = ContainerSpec(
        image=subject.image, limits=limits, capabilities=CAPABILITIES, lifetime=lifetime
    )
    with SLOTS, engine.container(spec) as container:
        patches = {}
        if has_new_tests(cell):
            patches["test.patch"] = subject.test_patch
        if has_fix(cell):
            patches["fix.patch"] = subject.fix_patch
        apply_patches(container, patches)
        yield container


def apply_patches(container: Container, patches: Mapping[str, bytes]) -> None:
    """Apply git diffs to /repo, exactly; nothing of them is left in the container but their effect."""
    wanted = {name: data for name, data in patches.items() if data.strip()}
    if not wanted:
        return
    container.put("/", {f"{_PATCHES}/{name}": data for name, data in wanted.items()})
    for name in wanted:
        done = container.run(
            ["git", "-c", "safe.directory=/repo", "apply", "--whitespace=nowarn", f"/{_PATCHES}/{name}"],
            timeout=120,
            user="root",
            workdir="/repo",
        )
        if done.exit_code != 0:
            text = done.output[-500:].decode(errors="replace").strip()
            raise Rejection("patch-does-not-apply", f"{name} does not apply to the base tree", text)
    container.run(["rm", "-rf", f"/{_PATCHES}"], timeout=60, user="root", workdir="/")


def reached_end(observation: Observation) -> bool:
    """Whether an id without an outcome failed; False when the run was cut short before it.

    A run whose configuration or imports broke has failed every id that it lacks.
    """
    return observation.ended in ("finished", "crashed", "collection-failed")
