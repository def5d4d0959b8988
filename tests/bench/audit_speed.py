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


def descendants(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [one for child in children.read_text().split() for one in descendants(int(child))]
        except OSError:
            continue
    return found


def memory(pid: int) -> float:
    """Megabytes that a process and its descendants hold, shared pages counted once."""
    held = 0
    for one in descendants(pid):
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        held += next((int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:"), 0)
    return held / 1024


def audit(image: str, patches: list[str], cache: str) -> tuple[float, float]:
    """Seconds of one audit, and the most megabytes that it and its workers held together."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "race", "audit", image, *patches, "--no-live"],
        env=os.environ | {"RACE_CACHE": cache},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    most = 0.0
    while process.poll() is None:
        most = max(most, memory(process.pid))
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    seconds = time.monotonic() - started
    if process.returncode not in (0, 1):
        sys.exit(process.stderr.read() if process.stderr else "the audit failed")
    return seconds, most


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
    cold, warm, plain, held = [], [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            plain.append(floor(options.image))
            seconds, megabytes = audit(options.image, patches, cache)
            cold.append(seconds)
            held.append(megabytes)
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
    print(f"{'peak memory with workers, MB':<34}{max(held):>8.0f}")
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{'own processor time in all, s':<34}{spent.ru_utime + spent.ru_stime:>8.1f}")
    print(f"{'load average at the end':<34}{load:>8}")
    print("each round, s: floor / cold / warm")
    for some in zip(plain, cold, warm, strict=True):
        print("  " + " / ".join(f"{seconds:.1f}" for seconds in some))


if __name__ == "__main__":
    main()
