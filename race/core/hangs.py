"""Tests that hang without the fix: which are repeated there, and how long each may take.

An empty submission passes only when every fail-to-pass test passes, so it passes at most as often as
any part of them does. One failing test settles a repeat: what hangs, or takes long to fail, need not be
waited for while something else fails at once; where all are slow, the one that is so least is repeated,
and no repeat waits for a second hang. A test that is not repeated stands on the matrix, where it had
the full limit in every run. The part that is repeated must pass by itself with the fix, so that it
does not fail for the lack of a test that went before it; else all are repeated.

The limit of a repeat without the fix may be shorter than the one that grading gives a test, for a
hang is paid in full every time. It must not make a failure of a pass that is merely slow: it is ten
times what the slowest pass took and three times what any of the repeated tests took to end, and never
below the release's floor. A round in which the fix itself came near that limit is made again with a
longer one. What is left is a test that hung in all runs of the matrix under the full limit, and would
pass now and then without the fix after a time that no run with the fix comes near.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

FAR = 10.0
"""The limit without the fix, in times of the slowest pass."""
NEAR = 3.0
"""A limit below this many times what ended by itself, or what the fix needed, proves no hang."""
STEP = 5.0
"""Seconds that make a difference between two slow tests."""
SLOWER = {"cpu-quota": 4.0, "competing-load": 3.0, "jitter": 2.0}
"""How much longer a test may take under a perturbation, where it may at all."""


def slow(
    ids: Sequence[str], seconds: Mapping[str, float], floor: float, earlier: Collection[str] | None
) -> tuple[str, ...]:
    """The ids that hang without the fix or take as long as the floor to fail, but for one if all do.

    `seconds` is what the longest run of the matrix took there. `earlier` are those that an earlier
    validation of the same inputs left to its matrix: a test that hangs now and then does not change
    the record.
    """
    if earlier is not None:
        return tuple(i for i in ids if i in earlier)
    found = [i for i in ids if seconds.get(i, 0.0) >= floor]
    if found and len(found) == len(ids):
        found.remove(min(found, key=lambda i: round(seconds[i] / STEP)))
    return tuple(found)


def repeated_without(ids: Sequence[str], slow_ids: Collection[str]) -> tuple[str, ...]:
    """The ids to repeat without the fix: those that are not slow there, or all when all are."""
    return tuple(i for i in ids if i not in slow_ids) or tuple(ids)


def left_to_the_matrix(ids: Sequence[str], slow_ids: Collection[str]) -> tuple[str, ...]:
    """The ids that the repeats without the fix leave out."""
    asked = set(repeated_without(ids, slow_ids))
    return tuple(i for i in ids if i not in asked)


def limit_without(full: float, floor: float, slowest_pass: float, slowest_end: float) -> float:
    """Seconds a test may take in a plain repeat without the fix.

    `full` is the limit of matrix and grading; the others are what tests took there to pass, and to come
    to any end of their own.
    """
    return min(full, max(floor, FAR * slowest_pass, NEAR * slowest_end))


def longer_limit(
    full: float, limit: float, hung_under: Collection[str], longest: Mapping[str, float]
) -> float | None:
    """The limit to repeat a round with, or None when its hangs were hangs.

    `limit` is the plain one, `hung_under` the variants in which a test (or an import) was ended at its
    limit without the fix, `longest` how long the fix let wait for a pass or for the first test, by
    variant.
    """
    needed = [
        longest.get(variant, 0.0) / SLOWER.get(variant, 1.0)
        for variant in hung_under
        if limit * SLOWER.get(variant, 1.0) < min(full, NEAR * longest.get(variant, 0.0))
    ]
    return min(full, FAR * max(needed)) if needed else None
