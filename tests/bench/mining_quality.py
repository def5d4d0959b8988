"""Precision and recall of mining on labelled pull requests, with every miss and its signals.

    .venv/bin/python tests/bench/mining_quality.py LABELS [LABELS...] --clones DIR

Runs what `race mine` runs (licence, paths, signals, patches that apply) on the labelled pull requests
only. Right is: accepted, and label 1 with tests. The committed weights have seen these labels; for
figures on projects that a fit has not seen, see mining_fit.py, which cross-validates by project.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from mining_data import clone_of, read_labels

from race.adapters.git_history import GitHistory
from race.core.records import Mined
from race.settings import MineSection
from race.work.mining import judge


def quiet(what: str, done: int, total: int) -> None:
    """Nobody watches."""


def strongest(record: Mined, most: int = 8) -> str:
    """The contributions that count most, either way."""
    named = [(name, value) for name, value in record.signals.items() if not name.startswith("base:")]
    named.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
    return ", ".join(f"{name} {value:+.2f}" for name, value in named[:most])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("labels", nargs="+", type=Path)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--threshold", type=float, default=MineSection().threshold)
    parser.add_argument("--brief", action="store_true", help="leave the misses out")
    options = parser.parse_args()
    rules = MineSection(threshold=options.threshold)
    table: dict[str, Counter[str]] = {}
    kinds: Counter[tuple[str, str]] = Counter()
    misses = []
    for repo, rows in sorted(read_labels(options.labels).items()):
        path = clone_of(options.clones, repo)
        if path is None:
            print(f"no clone of {repo}: {len(rows)} rows left out")
            continue
        history = GitHistory(path, repo)
        wanted = [request for request in history.pull_requests() if request.number in rows]
        counts = table.setdefault(repo, Counter())
        counts["not found"] += len(rows) - len(wanted)
        for judged in judge(history, wanted, rules, quiet):
            record = judged.record
            row = rows[record.pr]
            truth = bool(row["label"]) and row.get("has_tests", True)
            name = ("true " if record.accepted == truth else "false ") + (
                "accepted" if record.accepted else "rejected"
            )
            counts[name] += 1
            if truth and row.get("kind") and record.kind:
                kinds[row["kind"], record.kind] += 1
            if record.accepted != truth:
                misses.append((name, record, row))
    if not options.brief:
        for name, record, row in sorted(misses, key=lambda miss: (miss[0], miss[1].repo, miss[1].pr)):
            print(f"{name}: {record.repo}#{record.pr} score {record.score:.2f}: {record.title}")
            print(f"    why labelled so: {row.get('why', '-')}")
            print(f"    reasons: {'; '.join(record.reasons) or '-'}")
            print(f"    signals: {strongest(record)}")
    names = ("true accepted", "false accepted", "false rejected", "true rejected", "not found")
    print(f"{'project':36s}" + "".join(f"{name:>16s}" for name in names))
    total: Counter[str] = Counter()
    for repo, counts in table.items():
        total += counts
        print(f"{repo:36s}" + "".join(f"{counts[name]:16d}" for name in names))
    print(f"{'all':36s}" + "".join(f"{total[name]:16d}" for name in names))
    right = total["true accepted"]
    print(f"precision {right / max(1, right + total['false accepted']):.3f}  "
          f"recall {right / max(1, right + total['false rejected']):.3f}")  # fmt: skip
    same = sum(count for (truth, said), count in kinds.items() if truth == said)
    print(f"kind of bug: {same} of {kinds.total()} as labelled ({same / max(1, kinds.total()):.2f})")
    for (truth, said), count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        if truth != said and count > 1:
            print(f"    {truth} called {said}: {count}")


if __name__ == "__main__":
    main()
