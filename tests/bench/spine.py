"""Prints the figures that the README quotes: start-up, a grading, the matrix, a second task.

Run after `make run`, which builds the sample release that is measured here:

    .venv/bin/python tests/bench/spine.py [RELEASE]
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from race.settings import read_workspace
from race.store import Store
from race.workbench import Workbench

ROOT = Path(__file__).parents[2]
RACE = [sys.executable, "-m", "race"]


def timed(command: list[str]) -> tuple[float, str]:
    """Wall seconds of a command, and its standard output."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return time.perf_counter() - started, done.stdout


def start_up() -> float:
    """Median seconds of `race --help`, of eleven runs after one that warms up."""
    timed([*RACE, "--help"])
    return statistics.median(timed([*RACE, "--help"])[0] for _ in range(11))


def grading(store: Store, instance_id: str) -> tuple[float, float]:
    """Median seconds of a whole grading as a command, and of what pytest itself took inside."""
    whole, inside = [], []
    patch = str(store.task(instance_id).path / "fix.patch")
    for _ in range(5):
        seconds, output = timed(
            [*RACE, "grade", str(store.folder), instance_id, "--patch", patch, "--json"]
        )
        verdict = json.loads(output)
        assert verdict["resolved"], verdict
        whole.append(seconds)
        inside.append(verdict["pytest_seconds"])
    return statistics.median(whole), statistics.median(inside)


def matrix(store: Store) -> list[tuple[str, float, float]]:
    """Per task: wall seconds of the matrix, and the sum of its pytest runs over the cores."""
    cores = os.cpu_count() or 1
    rows = []
    for instance_id in store.ids():
        facts = store.task(instance_id).noted("validate")
        if facts.get("matrix_seconds") and facts.get("pytest_seconds"):
            rows.append((instance_id, facts["matrix_seconds"], facts["pytest_seconds"] / cores))
    return rows


def pairs(store: Store) -> dict[str, list[str]]:
    """Two verified tasks that share their lock, and two that do not."""
    ids = [name for name in store.ids() if store.task(name).record_digest("verify")]
    locks = {name: (store.task(name).path / "requirements.lock").read_bytes() for name in ids}
    both = list(itertools.combinations(ids, 2))
    found = {
        "same lock": next((list(pair) for pair in both if locks[pair[0]] == locks[pair[1]]), []),
        "another lock": next((list(pair) for pair in both if locks[pair[0]] != locks[pair[1]]), []),
    }
    return {name: pair for name, pair in found.items() if pair}


def second_task(store: Store, bench: Workbench, ids: list[str]) -> tuple[int, int]:
    """Image bytes that the second task adds to the first, and the size of its repository.

    An engine keeps a layer once for all images in which the same layers lie below it.
    """
    layers: list[dict[tuple[str, ...], int]] = []
    for instance_id in ids:
        sizes: dict[tuple[str, ...], int] = {}
        for kind in ("env", "test"):
            image = bench.engine.image(f"{store.settings.repository}:{instance_id}.{kind}")
            assert image is not None, instance_id
            below = itertools.accumulate((layer,) for layer in image.layers)
            sizes |= dict(zip(below, _layer_sizes(image.id), strict=True))
        layers.append(sizes)
    added = sum(size for below, size in layers[1].items() if below not in layers[0])
    with tarfile.open(store.task(ids[1]).path / "source.tar.xz") as archive:
        repository = sum(member.size for member in archive.getmembers())
    return added, repository


def _layer_sizes(image_id: str) -> list[int]:
    """Bytes of each file system layer, base first, from the image's history."""
    command = [
        "docker",
        "history",
        "--no-trunc",
        "--human=false",
        "--format",
        "{{.Size}} {{.CreatedBy}}",
        image_id,
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.partition(" ")[::2] for line in reversed(lines)]
    plain = (
        "ENV",
        "USER",
        "WORKDIR",
        "LABEL",
        "STOPSIGNAL",
        "CMD",
        "ENTRYPOINT",
        "ARG",
        "EXPOSE",
        "SHELL",
    )
    return [
        int(size)
        for size, made_by in rows
        if not made_by.replace("/bin/sh -c #(nop)", "").strip().startswith(plain)
    ]


def main() -> None:
    """Measure and print."""
    store = Store(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tasks" / "sample")
    bench = Workbench(read_workspace(ROOT, dict(os.environ)))
    print(f"race --help                      {start_up():6.2f} s   (goal under 0.5)")
    instance_id = next(name for name in store.ids() if store.task(name).record_digest("verify"))
    whole, inside = grading(store, instance_id)
    print(
        f"a grading, added to pytest       {whole - inside:6.2f} s   (goal under 2; whole {whole:.2f})"
    )
    for name, wall, ideal in matrix(store):
        print(
            f"matrix of {name:24} {wall / ideal:5.2f} x   "
            f"({wall:.1f} s against {ideal:.1f} s; goal under 1.3)"
        )
    for kind, ids in pairs(store).items():
        added, repository = second_task(store, bench, ids)
        print(
            f"a second task, {kind:16} {added / 2**20:7.2f} MiB added "
            f"(goal under {repository / 2**20 + 10:.2f}: its repository and 10)"
        )


if __name__ == "__main__":
    main()
