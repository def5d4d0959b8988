r"""How long environments take to build: first of a lock, second of it, another lock, two at once.

    .venv/bin/python tests/bench/environment_speed.py --clone CLONE --repo OWNER/NAME \
        BASE MERGED BASE MERGED [BASE MERGED ...]

Each BASE MERGED pair is a commit and the merge date that its packages are taken from; the first two
should have the same lock. Another lock is made by one more requirement, whose wheel is fetched before.
Goals: the second task of a lock in 10 s, another lock with cached wheels in 60 s, two builds at once
in 1.3 times the time of one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from race.settings import read_workspace
from race.store import Store
from race.work.environments import Built, build_env, rebuild_env
from race.workbench import Workbench

RELEASE = '[release]\nname = "speed"\ncanary = "00000000-0000-4000-8000-000000000000"\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clone", type=Path, required=True)
    parser.add_argument("--repo", required=True)
    parser.add_argument("--another", default="humanize", help="the requirement of another lock")
    parser.add_argument("pairs", nargs="+", metavar="BASE MERGED")
    arguments = parser.parse_args()
    bench = Workbench(read_workspace(Path.cwd(), dict(os.environ)))
    history = bench.clone(arguments.clone, arguments.repo)
    folder = Path(tempfile.mkdtemp(prefix="race-speed-"))
    (folder / "release.toml").write_text(RELEASE)
    store = Store(folder)
    pairs = [*zip(arguments.pairs[::2], arguments.pairs[1::2], strict=True)]
    made: list[tuple[Built, bytes]] = []
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for number, (base, merged) in enumerate(pairs):
        made.append(_timed(bench, store, number, history.archive(base), arguments.repo, merged))
    lock = bench.resolver.compile(
        [arguments.another], python="3.11", cutoff=datetime.fromisoformat(pairs[0][1])
    )
    bench.resolver.fetch(lock, python="3.11")
    override = f'[projects."{arguments.repo}"]\nrequirements = ["{arguments.another}"]\n'
    (folder / "release.toml").write_text(RELEASE + override)
    print(f"another lock ({arguments.another} added), wheels cached:")
    _timed(bench, Store(folder), len(pairs), made[0][1], arguments.repo, pairs[0][1])
    one = _rebuild(bench, store, 0, made[0], "a")
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(_rebuild, bench, store, 0, made[0], tag) for tag in "bc"]
        [job.result() for job in jobs]
    both = time.monotonic() - started
    print(f"rebuilt without cache: {one:.1f} s alone, two at once {both:.1f} s ({both / one:.2f} times)")
    for image in bench.engine.images("race.release=speed"):
        for name in image.tags:
            bench.engine.remove_image(name)


def _timed(
    bench: Workbench, store: Store, number: int, source: bytes, repo: str, merged: str
) -> tuple[Built, bytes]:
    started = time.monotonic()
    built = build_env(bench, store, store.task(f"speed-{number}"), source, repo=repo, merged_at=merged)
    lock = built.environment.requirements_lock.sha256[:8]
    print(f"  lock {lock}: {time.monotonic() - started:.1f} s, {built.image.size} bytes", flush=True)
    return built, source


def _rebuild(bench: Workbench, store: Store, number: int, made: tuple[Built, bytes], tag: str) -> float:
    started = time.monotonic()
    task, environment = store.task(f"speed-{number}"), made[0].environment
    rebuild_env(bench, store, task, environment, made[1], tag=f"race-speed:again-{tag}", fresh=True)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
