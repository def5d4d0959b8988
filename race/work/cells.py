"""A container that holds one cell of the matrix: the environment image with the cell's patches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from race.core.matrix import Cell, has_fix, has_new_tests
from race.core.outcomes import Observation
from race.errors import Accident, Rejection
from race.ports import Container, ContainerSpec, Engine, Limits
from race.work.observing import CAPABILITIES, NOT_DONE, Before

SLOTS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""Containers that may run tests at the same moment on this machine, over all tasks of a command."""
WAITING = 7200.0
"""Seconds that a container may wait for its slot, while other tasks repeat tests that hang."""

_PATCHES = "race-patches"
_REFUSED = "refused: "
_APPLY = f"""for name in {{names}}; do
if ! said=$(git -c safe.directory=/repo apply --whitespace=nowarn "/{_PATCHES}/$name" 2>&1)
then echo "$said"; echo "{_REFUSED}$name"; exit {NOT_DONE}; fi
done
rm -rf /{_PATCHES}"""
"""All patches in one command; the one that is refused is named in the last line."""


_COMPUTED = """if [ -r /sys/fs/cgroup/cpuacct/cpuacct.usage ]
then echo usage_nsec $(cat /sys/fs/cgroup/cpuacct/cpuacct.usage)
else grep '^usage_usec ' /sys/fs/cgroup/cpu.stat
fi"""


class NotWanted(Exception):
    """Nothing is left to run for a container that waits for its slot."""


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
    engine: Engine,
    subject: Subject,
    cell: Cell,
    *,
    cpus: float | None = None,
    lifetime: float = 7200 + WAITING,
    wanted: Callable[[], bool] = lambda: True,
    patched: bool = True,
    slot: bool = True,
) -> Iterator[Container]:
    """A fresh container of a cell, without network; entered when a slot of the machine is free.

    It is made before the slot is taken and removed after it is given back, so that neither costs
    time in which tests could run. Raises Rejection when a patch does not apply to the environment's
    tree, and NotWanted when `wanted` says so while it waits. Without `patched` the tree is the base's,
    and the patches are for the first test run to apply (see `patching`). Without `slot` none is taken:
    for tests that are known to wait and not to compute.
    """
    limits = subject.limits
    if cpus is not None:
        limits = Limits(limits.memory_mb, cpus, limits.pids, limits.tmpfs_mb)
    spec = ContainerSpec(
        image=subject.image, limits=limits, capabilities=CAPABILITIES, lifetime=lifetime
    )
    with engine.container(spec) as container:
        if patched:
            apply_patches(container, patches_of(subject, cell))
        while slot and not SLOTS.acquire(timeout=0.5):
            if not wanted():
                raise NotWanted
        try:
            yield container
        finally:
            if slot:
                SLOTS.release()


def cpu_seconds(container: Container) -> float | None:
    """What all that ran in a container has computed so far, or None where its kernel does not tell."""
    said = container.run(["sh", "-c", _COMPUTED], timeout=10, user="root", workdir="/").output.split()
    if len(said) != 2 or not said[1].isdigit():
        return None
    return int(said[1]) / (1e9 if said[0] == b"usage_nsec" else 1e6)


def patches_of(subject: Subject, cell: Cell) -> dict[str, bytes]:
    """The patches that make a cell, in the order in which they are applied."""
    patches = {}
    if has_new_tests(cell):
        patches["test.patch"] = subject.test_patch
    if has_fix(cell):
        patches["fix.patch"] = subject.fix_patch
    return patches


def patching(patches: Mapping[str, bytes]) -> Before | None:
    """Applying git diffs to /repo, exactly, as what goes before a test run; None when there are none.

    Nothing of them is left in the container but their effect.
    """
    wanted = {name: data for name, data in patches.items() if data.strip()}
    if not wanted:
        return None
    files = {f"{_PATCHES}/{name}": data for name, data in wanted.items()}
    return Before(files, _APPLY.format(names=" ".join(wanted)), _refused)


def apply_patches(container: Container, patches: Mapping[str, bytes]) -> None:
    """Apply git diffs to /repo at once."""
    before = patching(patches)
    if before is None:
        return
    container.put("/", before.files)
    done = container.run(["sh", "-c", before.script], timeout=240, user="root", workdir="/repo")
    if done.exit_code == NOT_DONE:
        _refused(done.output)
    if done.exit_code != 0:
        said = done.output[-500:].decode(errors="replace").strip()
        raise Accident(f"applying patches ended with exit {done.exit_code}: {said}")


def _refused(output: bytes) -> NoReturn:
    said, _, name = output.decode(errors="replace").rpartition(_REFUSED)
    raise Rejection(
        "patch-does-not-apply", f"{name.strip()} does not apply to the base tree", said[-500:].strip()
    )


def reached_end(observation: Observation) -> bool:
    """Whether an id without an outcome failed; False when the run was cut short before it.

    A run whose configuration or imports broke has failed every id that it lacks.
    """
    return observation.ended in ("finished", "crashed", "collection-failed")
