"""Do the intervals cover what they promise, and do the tests reject as often as they may?

    .venv/bin/python tests/bench/coverage_simulation.py [--studies N] [--seed S]

Simulated studies with known truth. 95% intervals should cover it in 93% to 97% of studies, and tests at
5% should find a difference that is not there in 4% to 6%. Each line also gives the simulation's own
standard error, and is marked when it misses its goal. Lines about rates take ten times the studies,
lines about tests four times. One case is exact and yet below 4%: sign flips of paired differences in
steps of a fifth, whose sums tie often; it is held to at most 6%, the same test without ties to both.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from race.core.contamination.gap import bootstrap_gap, mantel_haenszel
from race.core.intervals import clustered_rate, mean_interval
from race.core.permutation import Cell, label_shuffles, sign_flips

DRAWS = 1000
Rng = np.random.Generator


def shares(rng: Rng, tasks: int, attempts: int, mean: float, spread: float) -> np.ndarray:
    """Per-task shares: task rates from a beta distribution, or all alike when spread is 0."""
    if spread == 0 or attempts == 1:
        rates = np.full(tasks, mean)
    else:
        rates = rng.beta(mean / spread, (1 - mean) / spread, tasks)
    return rng.binomial(attempts, rates) / attempts


def line(name: str, share: float, studies: int, low: float, high: float) -> bool:
    error = math.sqrt(share * (1 - share) / studies)
    inside = low <= share <= high
    mark = "" if inside else "  outside"
    print(f"{name:<66}  {100 * share:5.1f}% ± {100 * error:.1f}{mark}", flush=True)
    return inside


def rates(rng: Rng, studies: int) -> list[bool]:
    print("\npass@1, interval clustered by task (goal 93% to 97%)")
    results = []
    for tasks in (20, 50, 200):
        for attempts in (1, 5):
            for mean in (0.5, 0.8):
                for spread in (0.5,) if attempts > 1 else (0.0,):
                    hits, total = 0, studies * 10
                    for _ in range(total):
                        found = clustered_rate(shares(rng, tasks, attempts, mean, spread))
                        hits += found.low <= mean <= found.high
                    name = f"{tasks} tasks, {attempts} attempts, rate {mean}"
                    results.append(line(name, hits / total, total, 0.93, 0.97))
    return results


def pairs(rng: Rng, studies: int) -> list[bool]:
    print("\npaired differences of two agents (interval 93% to 97%, sign-flip test 4% to 6%)")
    results = []
    for tasks in (20, 60):
        hits = rejected = untied = 0
        for i in range(studies * 4):
            rate = rng.beta(1, 1, tasks)
            one, two = (rng.binomial(5, rate) / 5 for _ in range(2))
            found = mean_interval(one - two)
            hits += found.low <= 0 <= found.high
            rejected += sign_flips((one - two)[:, None], seed=i, draws=DRAWS)[0] <= 0.05
            apart = rng.normal(0, rate + 0.1)
            untied += sign_flips(apart[:, None], seed=i, draws=DRAWS)[0] <= 0.05
        total = studies * 4
        results.append(line(f"{tasks} tasks, interval", hits / total, total, 0.93, 0.97))
        results.append(line(f"{tasks} tasks, test, tied sums", rejected / total, total, 0.0, 0.06))
        results.append(line(f"{tasks} tasks, test, no ties", untied / total, total, 0.04, 0.06))
    return results


SIZES = {
    "published sizes": [(13, 19), (27, 44), (21, 44), (7, 13)],
    "200 old, 240 new": [(50, 60)] * 4,
}
RATES = {"easy": (0.95, 0.86, 0.72, 0.58), "middling": (0.6, 0.5, 0.4, 0.3)}


def eras(rng: Rng, studies: int) -> list[bool]:
    print("\nold against new (interval 93% to 97%; tests of no difference 4% to 6%)")
    results = []
    for size_name, sizes in SIZES.items():
        for rate_name, levels in RATES.items():
            for attempts in (1, 5):
                for gap in (0.0, 0.1):
                    hits = permuted = mantel = 0
                    weights = [a * b / (a + b) for a, b in sizes]
                    truth = gap
                    total = studies * (4 if gap == 0 else 1)
                    for i in range(total):
                        cells = [
                            Cell(
                                shares(rng, a, attempts, level, 0.5),
                                shares(rng, b, attempts, level - gap, 0.5),
                            )
                            for (a, b), level in zip(sizes, levels, strict=True)
                        ]
                        low, high = bootstrap_gap(cells, seed=i, draws=DRAWS)
                        hits += low is not None and high is not None and low <= truth <= high
                        if gap == 0:
                            permuted += label_shuffles(cells, seed=i, draws=DRAWS)[0] <= 0.05
                            p = mantel_haenszel(cells)[1]
                            mantel += p is not None and p <= 0.05
                    assert math.isclose(truth, sum(w * gap for w in weights) / sum(weights))
                    name = f"{size_name}, {rate_name}, {attempts} attempts, true gap {gap:.1f}"
                    results.append(line(f"{name}: interval", hits / total, total, 0.93, 0.97))
                    if gap == 0:
                        name = name.replace(", true gap 0.0", "")
                        results.append(line(f"{name}: permutation", permuted / total, total, 0.04, 0.06))
                        line(f"{name}: CMH cross-check", mantel / total, total, 0.04, 0.06)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args()
    print(f"{options.studies} studies a line, seed {options.seed}, {DRAWS} draws in each")
    results = []
    for part in (rates, pairs, eras):
        results += part(np.random.default_rng(options.seed), options.studies)
    print(f"\n{sum(results)} of {len(results)} within their goals")


if __name__ == "__main__":
    main()
