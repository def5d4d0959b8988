"""How long scores, leaderboard and contamination take on 10^4, 10^5 and 10^6 recorded runs.

    .venv/bin/python tests/bench/score_speed.py [--largest N] [--keep FOLDER]

Each command runs in a process of its own; seconds are wall time, memory is the peak of that process.
Goals: 10^6 runs (2,000 tasks, 100 agents, 5 attempts) scored from JSONL in 20 s and 1.5 GB,
contamination with 10,000 draws on the same in 60 s, time linear in the number of runs. A parsing share
stands where the command tells it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = {10_000: (100, 20), 100_000: (400, 50), 1_000_000: (2_000, 100)}
"""Runs -> tasks and agents; each agent makes five attempts at each task."""


def rows(tasks: int, agents: int) -> list[dict[str, object]]:
    """Made-up runs with a fixed seed: difficulties vary by task, skill by agent."""
    rng = np.random.default_rng(20260101)
    ease = rng.beta(0.8, 0.8, tasks)
    skill = np.linspace(-0.15, 0.15, agents)
    won = rng.random((tasks, agents, 5)) < (ease[:, None] + skill[None, :])[:, :, None]
    tokens = rng.integers(1_000, 1_000_000, (tasks, agents, 5, 3))
    return [
        {
            "instance_id": f"made__up-{t}", "agent": f"agent-{a}", "model": f"model-{a}", "attempt": k,
            "resolved": bool(won[t, a, k]), "input_tokens": int(tokens[t, a, k, 0]),
            "cached_input_tokens": int(tokens[t, a, k, 1]),
            "output_tokens": int(tokens[t, a, k, 2] // 50),
            "cost_usd": float(tokens[t, a, k, 2]) / 1e6, "steps": int(tokens[t, a, k, 0] % 100) + 1,
            "seconds": float(tokens[t, a, k, 1] % 600), "ended": "submitted",
            "started_at": "2026-10-01T10:00:00Z",
        }
        for t in range(tasks)
        for a in range(agents)
        for k in range(5)
    ]  # fmt: skip


def task_rows(tasks: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(7)
    return [
        {
            "instance_id": f"made__up-{t}", "repeats": 5,
            "complexity": ("short", "medium", "long")[t % 3],
            "merged_at": f"202{4 + int(rng.integers(0, 3))}-0{1 + t % 9}-11",
            "fix_lines": int(rng.choice([4, 9, 25, 60, 150, 400])), "kind": ("race", "hang")[t % 2],
        }
        for t in range(tasks)
    ]  # fmt: skip


def write(folder: Path, size: int) -> None:
    """The files of one size; run in a process of its own, because a child's peak memory starts at its
    parent's."""
    tasks, agents = SIZES[size]
    data = rows(tasks, agents)
    made = folder / f"runs-{size}.jsonl"
    made.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in data))
    pq.write_table(pa.Table.from_pylist(data), folder / f"runs-{size}.parquet")
    listed = folder / f"tasks-{size}.jsonl"
    listed.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in task_rows(tasks)))


def timed(command: list[str]) -> tuple[float, float, float, str]:
    """Wall and processor seconds, peak MiB and standard error of a command that must end well."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as err, open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        err.seek(0)
        text = err.read().decode()
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: status {status}\n{text}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    race = [str(Path(sys.executable).parent / "race")]
    print(
        f"{'runs':>9}  {'command':<22}  {'seconds':>7}  {'cpu':>6}  {'µs/run':>6}  {'MiB':>5}  parsing"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        for size in SIZES:
            if size > options.largest:
                continue
            made, listed = folder / f"runs-{size}.jsonl", folder / f"tasks-{size}.jsonl"
            columns = folder / f"runs-{size}.parquet"
            writer = multiprocessing.get_context("spawn").Process(target=write, args=(folder, size))
            writer.start()
            writer.join()
            score = ["score", "--baseline", "agent-0", "-v"]
            for name, arguments, file in (
                ("score", score, made),
                ("score --json", [*score, "--json"], made),
                ("score from Parquet", score, columns),
                ("leaderboard", ["leaderboard"], made),
                ("contamination", ["contamination"], made),
            ):
                command = [*race, *arguments, "--tasks", str(listed), "--runs", str(file)]
                seconds, cpu, memory, text = timed(command)
                parsing = re.search(r"of which parsing ([\d.]+%)", text)
                share = parsing.group(1) if parsing else ""
                times = f"{seconds:>7.2f}  {cpu:>6.2f}  {1e6 * seconds / size:>6.1f}"
                print(
                    f"{size:>9}  {name:<22}  {times}  {memory:>5.0f}  {share}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
