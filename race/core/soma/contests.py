"""Contests over complexity groups: who wins which set of groups, and what share that gives.

A miner's score on a set is the plain average of its group scores; without a score in one of the groups
it does not compete there. Layers are over all groups, over pairs, over single groups; with fewer groups
the sets that exist are used and the weights of their layers are scaled to sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from race.core.soma.miners import GROUPS
from race.core.soma.profile import DEFAULT, Profile
from race.errors import UsageError

UNCLASSIFIED = ("unclassified",)
"""The one set of a competition without a classified task: everything."""
TIE = 1e-12


@dataclass(frozen=True)
class GroupSet:
    """One contest: its groups, what it hands out, the scores of those who compete, the winners."""

    groups: tuple[str, ...]
    weight: float
    scores: Mapping[str, float]
    winners: tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """The contests over sets of one size."""

    layer_weight: float
    sets: tuple[GroupSet, ...]


@dataclass(frozen=True)
class Contests:
    """All layers, and each miner's final share; what no miner gets is burned."""

    layers: tuple[Layer, ...]
    shares: Mapping[str, float]
    burned: float


def hold_contests(
    groups_of: Mapping[str, Mapping[str, float | None]],
    totals: Mapping[str, float | None],
    present: Sequence[str],
    *,
    burn_ratio: float = 0.0,
    profile: Profile = DEFAULT,
) -> Contests:
    """Run every contest among miners.

    `groups_of`: miner -> group -> score or None; `totals`: miner -> total or None; `present`: groups
    that classified tasks of the competition belong to. Shares sum to 1 - burn_ratio, or to 0 when
    nobody has a score. Raises UsageError when the burn ratio is not in [0, 1].
    """
    if not 0 <= burn_ratio <= 1:
        raise UsageError(f"burn ratio {burn_ratio} is not between 0 and 1")
    known = [group for group in GROUPS if group in present]
    if known:
        layers = _layers(known, groups_of, profile)
    else:
        scores = {miner: total for miner, total in sorted(totals.items()) if total is not None}
        layers = (Layer(1.0, (GroupSet(UNCLASSIFIED, 1.0, scores, _winners(scores)),)),)
    won: dict[str, list[float]] = {miner: [] for miner in sorted(totals)}
    for layer in layers:
        for contest in layer.sets:
            for winner in contest.winners:
                won[winner].append(contest.weight / len(contest.winners))
    weights = {miner: math.fsum(parts) for miner, parts in won.items()}
    handed = math.fsum(weights.values())
    scale = (1 - burn_ratio) / handed if handed > 0 else 0.0
    shares = {miner: weight * scale for miner, weight in weights.items()}
    return Contests(layers, shares, max(0.0, 1 - math.fsum(shares.values())))


def _layers(
    known: list[str], groups_of: Mapping[str, Mapping[str, float | None]], profile: Profile
) -> tuple[Layer, ...]:
    sizes = [(size, weight) for size, weight in profile.layers if size <= len(known)]
    whole = math.fsum(weight for _, weight in sizes)
    layers = []
    for size, weight in sizes:
        sets = list(combinations(known, size))
        share = weight / whole
        contests = []
        for groups in sets:
            scores = _set_scores(groups, groups_of)
            contests.append(GroupSet(groups, share / len(sets), scores, _winners(scores)))
        layers.append(Layer(share, tuple(contests)))
    return tuple(layers)


def _set_scores(
    groups: tuple[str, ...], groups_of: Mapping[str, Mapping[str, float | None]]
) -> dict[str, float]:
    scores: dict[str, float] = {}
    for miner in sorted(groups_of):
        of_groups = [groups_of[miner].get(group) for group in groups]
        known = [score for score in of_groups if score is not None]
        if len(known) == len(groups):
            scores[miner] = math.fsum(known) / len(groups)
    return scores


def _winners(scores: Mapping[str, float]) -> tuple[str, ...]:
    if not scores:
        return ()
    best = max(scores.values())
    return tuple(m for m, s in scores.items() if math.isclose(s, best, rel_tol=TIE, abs_tol=TIE))
