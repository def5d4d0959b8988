"""The probe over modification times: do they point at the patched files?

A patched file that happens to be the newest of its tree says nothing, since some file is. Two things do
point: almost the whole tree has one time, and what has another is mostly what was patched; or the times
are spread, and the patched files are together the newest or the oldest although so many others could be.
For both it is reckoned how often as many files, drawn by chance from the tree, would lie like that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import comb

from race.core.leaks.layers import Entry
from race.core.leaks.probing import Answer, Probe, Subject
from race.core.sealed import LeakFinding

TOGETHER = 2
"""Seconds within which files are written by one step; where nearly all have one and the same time,
a second tells, too, unless chance may do that."""

USUAL = 0.9
"""The share of the tree that has the usual time, for others to stand out from it."""

RARE_STRAY, RARE_END = 0.05, 0.001
"""How seldom chance may do the same: stand out from one usual time, be the newest or oldest of many."""

FEWEST = 3


def _times(subject: Subject) -> Answer:
    """Modification times by which the patched files stand out from all others of the tree."""
    tree = {
        below: (layer, entry)
        for path, (layer, entry) in subject.view.final.items()
        if entry.kind == "f" and (below := subject.view.below(path)) and not below.startswith(".git/")
    }
    touched = {p for p in subject.wanted.product_paths if p in tree}
    if subject.hidden_tests_belong is False:
        touched |= {p for p in subject.wanted.test_paths if p in tree}
    times = {path: entry.mtime for path, (_, entry) in tree.items()}
    if not touched or len(times) - len(touched) < FEWEST:
        return []
    return list(_findings(subject, tree, times, touched))


def _findings(
    subject: Subject,
    tree: dict[str, tuple[int, Entry]],
    times: dict[str, int],
    touched: set[str],
) -> Iterator[LeakFinding]:
    usual, count = Counter(mtime for path, mtime in times.items() if path not in touched).most_common(1)[
        0
    ]
    for path, chance in sorted(singled_out(times, touched).items()):
        layer, entry = tree[path]
        yield LeakFinding(
            path=f"{subject.view.workdir}/{path}",
            layer=layer,
            what="its modification time singles it out",
            excerpt=f"{entry.mtime}; {count} of {len(times)} files have {usual}; {_words(chance)}",
        )


def _words(chance: float) -> str:
    return f"by chance in {chance:.2%} of such trees" if chance >= 0.0001 else "hardly by chance"


def singled_out(times: dict[str, int], touched: Iterable[str]) -> dict[str, float]:
    """The patched files that the times of a tree point at, and how often chance does the same."""
    patched = set(touched)
    for together, most in ((TOGETHER, 1.0), (0, RARE_STRAY)):
        strays = _strays(times, len(patched), together)
        told = patched & strays
        if told and len(times) - len(strays) >= USUAL * len(times) - len(patched):
            chance = _drawn(len(times), len(strays), len(patched), len(told))
            if chance <= (most if told == strays else RARE_STRAY):
                return dict.fromkeys(told, chance)
    others = [mtime for path, mtime in times.items() if path not in patched]
    found: dict[str, float] = {}
    for end in (
        {p for p in patched if times[p] > max(others) + TOGETHER},
        {p for p in patched if times[p] < min(others) - TOGETHER},
    ):
        chance = 2 * comb(len(patched), len(end)) / comb(len(times), len(end))
        if end and chance <= RARE_END:
            found |= dict.fromkeys(end, chance)
    return found


def _strays(times: dict[str, int], most: int, together: int) -> set[str]:
    """Files that were written with at most so many others, all steps of writing further apart."""
    found: set[str] = set()
    step: list[str] = []
    for path in sorted(times, key=lambda path: times[path]):
        if step and times[path] - times[step[-1]] > together:
            found |= set(step) if len(step) <= most else set()
            step = []
        step.append(path)
    return found | (set(step) if len(step) <= most else set())


def _drawn(files: int, strays: int, drawn: int, told: int) -> float:
    """How often at least `told` of some files drawn by chance are among the strays."""
    ways = sum(
        comb(strays, hit) * comb(files - strays, drawn - hit)
        for hit in range(told, min(strays, drawn) + 1)
    )
    return ways / comb(files, drawn)


TIMES = Probe("file-times", "files", "modification times single no patched file out", _times)
