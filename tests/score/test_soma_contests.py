"""Contests over complexity groups."""

from __future__ import annotations

import pytest

from race.core.soma import GROUPS, hold_contests
from race.errors import UsageError


def contests(groups_of, present=GROUPS, **options):
    totals = {
        miner: next((s for s in groups.values() if s is not None), None)
        for miner, groups in groups_of.items()
    }
    return hold_contests(groups_of, totals, present, **options)


def scores(short, medium, long):
    return {"short": short, "medium": medium, "long": long}


def test_three_groups_have_seven_sets_with_the_seeds_weights():
    """With all groups there: one set of 0.25, three pairs of 0.15, three singles of 0.10."""
    found = contests({"a": scores(0.3, 0.3, 0.3)})
    weights = [[contest.weight for contest in layer.sets] for layer in found.layers]
    assert weights[0] == pytest.approx([0.25])
    assert weights[1] == pytest.approx([0.15] * 3)
    assert weights[2] == pytest.approx([0.10] * 3)
    assert [layer.layer_weight for layer in found.layers] == pytest.approx([0.25, 0.45, 0.30])
    assert found.shares == {"a": pytest.approx(1)}


def test_who_wins_what_by_hand():
    """a is best on short, b on medium; sets take the plain average of their groups."""
    found = contests({"a": scores(0.9, 0.1, 0.4), "b": scores(0.2, 0.7, 0.4)})
    won = {contest.groups: contest.winners for layer in found.layers for contest in layer.sets}
    assert won == {
        ("short", "medium", "long"): ("a",),  # (0.9+0.1+0.4)/3 = 0.467 > (0.2+0.7+0.4)/3 = 0.433
        ("short", "medium"): ("a",),  # 0.5 > 0.45
        ("short", "long"): ("a",),  # 0.65 > 0.3
        ("medium", "long"): ("b",),  # 0.25 < 0.55
        ("short",): ("a",),
        ("medium",): ("b",),
        ("long",): ("a", "b"),  # a tie: 0.10 is split
    }
    # a: 0.25 + 0.15 + 0.15 + 0.10 + 0.05 = 0.70; b: 0.15 + 0.10 + 0.05 = 0.30
    assert found.shares == {"a": pytest.approx(0.70), "b": pytest.approx(0.30)}


def test_a_miner_without_a_group_score_does_not_compete_there():
    """No score on long keeps a out of every set with long in it, however good it is elsewhere."""
    found = contests({"a": scores(0.9, 0.9, None), "b": scores(-0.5, -0.5, -0.5)})
    won = {contest.groups: contest.winners for layer in found.layers for contest in layer.sets}
    assert won[("short", "medium", "long")] == ("b",)
    assert won[("short", "long")] == won[("medium", "long")] == won[("long",)] == ("b",)
    assert won[("short", "medium")] == won[("short",)] == won[("medium",)] == ("a",)
    # a: 0.15 + 0.10 + 0.10; b: 0.25 + 0.15 + 0.15 + 0.10
    assert found.shares == {"a": pytest.approx(0.35), "b": pytest.approx(0.65)}


def test_two_groups_share_the_layers_that_are_left():
    """Two groups: the pair gets 0.45/0.75 = 0.6, each single half of 0.30/0.75 = 0.4."""
    found = contests({"a": scores(0.9, 0.1, None)}, present=("medium", "short"))
    assert [layer.layer_weight for layer in found.layers] == pytest.approx([0.6, 0.4])
    assert [contest.groups for layer in found.layers for contest in layer.sets] == [
        ("short", "medium"),
        ("short",),
        ("medium",),
    ]
    assert [contest.weight for contest in found.layers[1].sets] == pytest.approx([0.2, 0.2])


def test_one_group_carries_everything():
    """One group: its single set weighs 1."""
    found = contests({"a": scores(None, 0.1, None), "b": scores(None, 0.2, None)}, present=("medium",))
    assert [(layer.layer_weight, len(layer.sets)) for layer in found.layers] == [(1.0, 1)]
    assert found.shares == {"a": 0.0, "b": pytest.approx(1)}


def test_nothing_classified_is_one_contest_over_all_tasks():
    """Without a classified task the totals decide, in one set that carries the whole weight."""
    found = hold_contests({"a": {}, "b": {}}, {"a": 0.1, "b": 0.4}, ())
    assert len(found.layers) == 1
    assert found.layers[0].sets[0].weight == 1.0
    assert found.layers[0].sets[0].scores == {"a": 0.1, "b": 0.4}
    assert found.shares == {"a": 0.0, "b": 1.0}


def test_a_set_in_which_nobody_has_a_score_hands_out_nothing():
    """Only short has scores: final shares are of what was handed out, here 0.10, and sum to one."""
    found = contests({"a": scores(0.2, None, None), "b": scores(0.1, None, None)})
    assert found.layers[0].sets[0].winners == ()
    assert found.shares == {"a": pytest.approx(1), "b": 0.0}
    assert found.burned == pytest.approx(0)


def test_burn_ratio_takes_its_share_first():
    """With a burn ratio of 0.4 the shares sum to 0.6; without any score everything is burned."""
    found = contests({"a": scores(0.9, 0.1, 0.4), "b": scores(0.2, 0.7, 0.4)}, burn_ratio=0.4)
    assert found.shares == {"a": pytest.approx(0.42), "b": pytest.approx(0.18)}
    assert found.burned == pytest.approx(0.4)
    nobody = contests({"a": scores(None, None, None)}, burn_ratio=0.4)
    assert (nobody.shares, nobody.burned) == ({"a": 0.0}, 1.0)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_burn_ratio_outside_its_range_is_refused(ratio):
    """A burn ratio is a share."""
    with pytest.raises(UsageError, match="burn ratio"):
        contests({"a": scores(1, 1, 1)}, burn_ratio=ratio)
