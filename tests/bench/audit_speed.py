"""How fast an image is audited: cold, warm, memory, beside `docker save | tar -xO | grep -F`.

    .venv/bin/python tests/bench/audit_speed.py IMAGE --fix-patch FIX [--test-patch TESTS] [--rounds N]

Cold and floor alternate, so that both meet the same machine. Prints a table of the best of each.
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

PROGRAM = """
import sys, resource
from race.cli import run
code = run(sys.argv[1:])
print("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def audit(image: str, patches: list[str], cache: str) -> tuple[float, float]:
    """Seconds and megabytes of one audit in a process of its own."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "audit", image, *patches, "--no-live"],
        env=os.environ | {"RACE_CACHE": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return seconds, int(done.stderr.rsplit("memory ", 1)[1].split()[0]) / 1024


def floor(image: str) -> float:
    """Seconds of the plainest search there is: one fixed string over the image's stream."""
    started = time.monotonic()
    command = f"docker save {image} | tar -xO | grep -c -F 'no such line anywhere 4711'"
    subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    return time.monotonic() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image")
    parser.add_argument("--fix-patch", required=True)
    parser.add_argument("--test-patch")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    patches = ["--fix-patch", options.fix_patch]
    if options.test_patch:
        patches += ["--test-patch", options.test_patch]
    cold, warm, plain, memory = [], [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            plain.append(floor(options.image))
            seconds, megabytes = audit(options.image, patches, cache)
            cold.append(seconds)
            memory.append(megabytes)
            warm.append(audit(options.image, patches, cache)[0])
    size = subprocess.run(
        ["docker", "image", "inspect", "-f", "{{.Size}}", options.image],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"{'image, GB':<34}{int(size) / 1e9:>8.2f}")
    print(f"{'docker save | tar | grep, s':<34}{min(plain):>8.1f}")
    print(f"{'audit cold, s':<34}{min(cold):>8.1f}")
    print(f"{'cold, times the floor':<34}{min(cold) / min(plain):>8.1f}")
    print(f"{'audit warm, s':<34}{min(warm):>8.1f}")
    print(f"{'peak memory, MB':<34}{max(memory):>8.0f}")
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{'own processor time in all, s':<34}{spent.ru_utime + spent.ru_stime:>8.1f}")
    print(f"{'load average at the end':<34}{load:>8}")


if __name__ == "__main__":
    main()
