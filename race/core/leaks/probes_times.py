"""The probe over modification times: do they point at the patched files?

A patched file that happens to be the newest of its tree says nothing, since some file is. Two things do
point: almost the whole tree has one time, and what has another is mostly what was patched; or the times
are spread, and the patched files are together the newest or the oldest although so many others could be.
For both it is reckoned how often as many files, drawn by chance from the tree, would lie like that.
The same holds for the layer that a file lies in, and for the folder that it was replaced in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
MANY_FOLDERS = 5
"""Other folders without which a late one says little: most work is done in the one package."""


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
    found = list(_findings(subject, tree, times, touched))
    return found or [*_layered(subject, tree, touched), *_replaced_in(subject, tree, touched)]


def _layered(
    subject: Subject, tree: dict[str, tuple[int, Entry]], touched: set[str]
) -> Iterator[LeakFinding]:
    """Patched files that lie in a layer of their own, while the tree lies in others."""
    layers = {path: layer for path, (layer, _) in tree.items()}
    alone = set(layers.values()) - {layers[p] for p in layers.keys() - touched}
    told = {path for path in touched if layers[path] in alone}
    for path in sorted(told):
        what = "it lies in a layer where no other file of the tree lies"
        yield _leak(subject, path, layers[path], what, f"layer {layers[path]}")


def _replaced_in(
    subject: Subject, tree: dict[str, tuple[int, Entry]], touched: set[str]
) -> Iterator[LeakFinding]:
    """Folders of patched files that alone were changed after the tree was written, though nothing in
    them is that new: a file was replaced there, and its time set back."""
    folders: dict[str, float] = {}
    newest: dict[str, float] = {}
    for path, (_, entry) in subject.view.final.items():
        below = subject.view.below(path)
        if below is None or below.startswith(".git/") or below == ".git":
            continue
        if entry.kind == "d":
            folders[below] = entry.mtime
        folder = below.rpartition("/")[0]
        newest[folder] = max(newest.get(folder, 0), entry.mtime)
    folders = {folder: at for folder, at in folders.items() if folder in newest}
    patched = {path.rpartition("/")[0] for path in touched} & folders.keys()
    if not patched or len(folders) - len(patched) < MANY_FOLDERS:
        return
    usual = max(at for folder, at in folders.items() if folder not in patched)
    late = {f for f in folders if folders[f] > max(usual, newest[f]) + TOGETHER}
    if (
        late
        and late <= patched
        and _drawn(len(folders), len(late), len(patched), len(late)) <= RARE_STRAY
    ):
        for folder in sorted(late):
            what = "a folder of a patched file that was changed after all else"
            layer = subject.view.final[f"{subject.view.workdir}/{folder}"][0]
            yield _leak(
                subject, folder, layer, what, f"{folders[folder]}; no other folder after {usual}"
            )


def _leak(subject: Subject, path: str, layer: int, what: str, excerpt: str) -> LeakFinding:
    return LeakFinding(path=f"{subject.view.workdir}/{path}", layer=layer, what=what, excerpt=excerpt)


def _findings(
    subject: Subject,
    tree: dict[str, tuple[int, Entry]],
    times: dict[str, float],
    touched: set[str],
) -> Iterator[LeakFinding]:
    usual, count = Counter(mtime for path, mtime in times.items() if path not in touched).most_common(1)[
        0
    ]
    for path, chance in sorted(singled_out(times, touched).items()):
        layer, entry = tree[path]
        excerpt = f"{entry.mtime}; {count} of {len(times)} files have {usual}; {_words(chance)}"
        yield _leak(subject, path, layer, "its modification time singles it out", excerpt)


def _words(chance: float) -> str:
    return f"by chance in {chance:.2%} of such trees" if chance >= 0.0001 else "hardly by chance"


def singled_out(times: Mapping[str, float], touched: Iterable[str]) -> dict[str, float]:
    """The patched files that the times of a tree point at, and how often chance does the same."""
    patched = set(touched)
    fractions = {path for path, moment in times.items() if moment % 1}
    if fractions and fractions <= patched:
        return dict.fromkeys(fractions, _drawn(len(times), len(fractions), len(patched), len(fractions)))
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


def _strays(times: Mapping[str, float], most: int, together: int) -> set[str]:
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


TIMES = Probe(
    "file-times", "files", "neither modification times nor layers single a patched file out", _times
)
