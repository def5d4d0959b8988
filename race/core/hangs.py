"""Tests that hang without the fix: which are repeated there, and how long each may take.

An empty submission passes only when every fail-to-pass test passes, so it passes at most as often as
any part of them does. One failing test settles a repeat: what hangs need not be waited for while
something else fails at once, and no repeat waits for a second hang. A test that is not repeated stands
on the matrix, where it had the full limit in every run.

The limit of a repeat without the fix may be shorter than the one that grading gives a test, for a
hang is paid in full every time. It must not make a failure of a pass that is merely slow: it is ten
times what the slowest pass took, and never below the release's floor. A round in which the fix itself
came near that limit is made again with a longer one. (Where a failure comes late, a limit before it
changes its name, not that it is one; where nothing hangs, late failures count as well, so that they
keep theirs.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

FAR = 10.0
"""The limit without the fix, in times of the slowest test."""
NEAR = 3.0
"""A limit below this many times what the fix needed in the same round proves no hang."""
SLOWER = {"cpu-quota": 4.0, "competing-load": 3.0, "jitter": 2.0}
"""How much longer a test may take under a perturbation, where it may at all."""


def hanging(
    ids: Sequence[str], hung: Collection[str], earlier: Collection[str] | None
) -> tuple[str, ...]:
    """The ids that count as hanging without the fix.

    `hung` did so in a run of the matrix. `earlier` are those that an earlier validation of the same
    inputs left to its matrix: a test that hangs now and then does not change the record.
    """
    return tuple(i for i in ids if i in (hung if earlier is None else earlier))


def repeated_without(ids: Sequence[str], hung: Collection[str]) -> tuple[str, ...]:
    """The ids to repeat without the fix: those that never hung in the matrix, or all when all did."""
    return tuple(i for i in ids if i not in hung) or tuple(ids)


def left_to_the_matrix(ids: Sequence[str], hung: Collection[str]) -> tuple[str, ...]:
    """The ids that the repeats without the fix leave out."""
    asked = set(repeated_without(ids, hung))
    return tuple(i for i in ids if i not in asked)


def limit_without(full: float, floor: float, slowest: float) -> float:
    """Seconds a test may take in a plain repeat without the fix.

    `full` is the limit of matrix and grading, `slowest` what the slowest test took.
    """
    return min(full, max(floor, FAR * slowest))


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
