"""Wall time and memory of `race mine` over a whole history, against `git log -p` over the same.

    .venv/bin/python tests/bench/mining_speed.py CLONE OWNER/NAME [--rounds N]

Prints the mean of N rounds (default 3), each round one after the other: git log -p, a first mining
run into an empty release, a second run over the same history. Processor seconds are given too,
since they say more than wall time on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RELEASE = """[release]
name = "speed"
canary = "00000000-0000-4000-8000-00000000000b"
"""


def timed(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds, and the largest memory in MiB of a command that succeeds.

    The memory is that of the command and everything below it, added up five times a second; pages
    that processes share count once in all (PSS).
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    largest = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            largest = max(largest, memory(process.pid))
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{command[:4]}: exit {process.returncode}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, spent, largest


def memory(root: int) -> float:
    """MiB of a process and its descendants."""
    total, waiting = 0, [root]
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        try:
            waiting += [
                int(child) for child in (folder / f"task/{folder.name}/children").read_text().split()
            ]
            told = (folder / "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in told.splitlines() if line.startswith("Pss:"))
    return total / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("repo", metavar="OWNER/NAME")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = ("git log -p", "first run", "second run")
    sums = {name: [0.0, 0.0, 0.0] for name in names}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "release.toml").write_text(RELEASE)
            mine = [sys.executable, "-m", "race", "mine", folder, "--clone", str(options.clone),
                    "--repo", options.repo]  # fmt: skip
            log = ["git", "-C", str(options.clone), "log", "-p"]
            for name, command in zip(names, (log, mine, mine), strict=True):
                wall, spent, memory_used = timed(command)
                sums[name][0] += wall / options.rounds
                sums[name][1] += spent / options.rounds
                sums[name][2] = max(sums[name][2], memory_used)
    count = subprocess.check_output(["git", "-C", str(options.clone), "rev-list", "--count", "HEAD"])
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    print(f"{options.repo}: {int(count)} commits; {cores} cores, load {load:.1f}")
    print(f"{'':12s}{'wall s':>10s}{'cpu s':>10s}{'MiB':>10s}{'wall / log':>12s}{'cpu / log':>12s}")
    base = sums["git log -p"]
    for name in names:
        wall, spent, memory = sums[name]
        ratios = f"{wall / base[0]:12.2f}{spent / base[1]:12.2f}"
        print(f"{name:12s}{wall:10.2f}{spent:10.2f}{memory:10.0f}{ratios}")
    print("MiB: all processes of the command together, at the worst moment of all rounds")


if __name__ == "__main__":
    main()
