r"""How long environments take to build: first of a lock, second of it, another lock, two at once.

    .venv/bin/python tests/bench/environment_speed.py --clone CLONE --repo OWNER/NAME \
        BASE MERGED BASE MERGED [BASE MERGED ...]

Each BASE MERGED pair is a commit and the merge date that its packages are taken from; the first two
should have the same lock. Another lock is made by one more requirement, whose wheel is fetched before.
Goals: the second task of a lock in 10 s, another lock with cached wheels in 60 s, two builds at once
in 1.3 times the time of one. Two at once are measured in rounds of one alone and two together, by
their medians: a task whose dependencies are there, and a task with a lock of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from race.settings import read_workspace
from race.store import Store
from race.work.environments import Built, build_env, rebuild_env
from race.workbench import Workbench

ANOTHER = [
    "humanize",
    "tabulate",
    "toolz",
    "pyparsing",
    "inflection",
    "wcwidth",
    "zipp",
    "blinker",
    "isodate",
]
RELEASE = '[release]\nname = "speed"\ncanary = "00000000-0000-4000-8000-000000000000"\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clone", type=Path, required=True)
    parser.add_argument("--repo", required=True)
    parser.add_argument("--another", default=ANOTHER, nargs="+", help="requirements of other locks")
    parser.add_argument("--rounds", type=int, default=3)
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
    moment = datetime.fromisoformat(pairs[0][1])
    for requirement in arguments.another:
        bench.resolver.fetch(
            bench.resolver.compile([requirement], python="3.11", cutoff=moment), python="3.11"
        )
    spare = iter(arguments.another)

    def with_another_lock(tag: str) -> None:
        requirement = next(spare)
        own = Path(tempfile.mkdtemp(prefix="race-speed-"))
        override = f'[projects."{arguments.repo}"]\nrequirements = ["{requirement}"]\n'
        (own / "release.toml").write_text(RELEASE + override)
        task = Store(own).task(f"speed-{tag}-{requirement}")
        build_env(bench, Store(own), task, made[0][1], repo=arguments.repo, merged_at=pairs[0][1])

    def rebuilt(tag: str) -> None:
        task, environment = store.task("speed-0"), made[0][0].environment
        name = f"race-speed:again-{tag}"
        rebuild_env(bench, store, task, environment, made[0][1], tag=name, fresh=True)

    _at_once("dependencies there, rebuilt without cache", rebuilt, arguments.rounds)
    _at_once("another lock, wheels cached", with_another_lock, len(arguments.another) // 3)
    print(f"load after: {os.getloadavg()[0]:.1f}")
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


def _at_once(what: str, build: Callable[[str], None], rounds: int) -> None:
    """Rounds of one build alone and two together."""
    alone, both = list[float](), list[float]()
    for _ in range(rounds):
        started = time.monotonic()
        build("a")
        alone.append(time.monotonic() - started)
        started = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            [job.result() for job in [pool.submit(build, tag) for tag in "bc"]]
        both.append(time.monotonic() - started)
    one, two = statistics.median(alone), statistics.median(both)
    told = ", ".join(f"{left:.1f}/{right:.1f}" for left, right in zip(alone, both, strict=True))
    print(
        f"{what}: {one:.1f} s alone, two at once {two:.1f} s, {two / one:.2f} times ({told})", flush=True
    )


if __name__ == "__main__":
    main()
