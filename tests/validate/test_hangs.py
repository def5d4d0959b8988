import pytest

from race.core.hangs import (
    left_to_the_matrix,
    limit_without,
    longer_limit,
    repeated_without,
    slow,
)


def test_what_hangs_is_not_waited_for_while_something_else_fails_at_once():
    """Of two hanging tests and a quick one the quick one is repeated; the others stand on the matrix."""
    ids = ("a", "b", "c")
    assert repeated_without(ids, {"a", "c"}) == ("b",)
    assert left_to_the_matrix(ids, {"a", "c"}) == ("a", "c")


def test_where_all_tests_hang_all_are_asked_for():
    """There has to be something to repeat; a repeat then ends at its first hang."""
    assert repeated_without(("a", "b"), {"a", "b"}) == ("a", "b")
    assert left_to_the_matrix(("a", "b"), {"a", "b"}) == ()
    assert repeated_without(("a", "b"), ()) == ("a", "b")


def test_the_limit_without_the_fix_is_far_above_what_passes_and_what_ends():
    """Ten times the slowest pass, three times the slowest end, at least the floor, never more than
    grading gives: a test that fails after five seconds by itself is let to."""
    assert limit_without(60, 5, 0.01, 0.01) == 5
    assert limit_without(60, 5, 0.8, 0.9) == 8
    assert limit_without(60, 5, 0.01, 5.2) == pytest.approx(15.6)
    assert limit_without(60, 5, 7, 7) == 60
    assert limit_without(3, 5, 0.01, 0.01) == 3


def test_a_hang_counts_only_where_the_fix_was_far_from_the_limit():
    """When the fix needed more than a third of the limit, the round is made again with a longer one."""
    assert longer_limit(60, 5, ["plain"], {"plain": 1.6}) is None
    assert longer_limit(60, 5, ["plain"], {"plain": 1.8}) == 18
    assert longer_limit(60, 5, ["plain"], {"plain": 9}) == 60
    assert longer_limit(60, 5, [], {"plain": 9}) is None


def test_the_full_limit_is_never_too_short():
    """A hang at the limit that grading gives is what grading sees, however slow the fix is."""
    assert longer_limit(60, 60, ["plain"], {"plain": 50}) is None


def test_a_perturbation_is_measured_by_its_own_limit():
    """Under a quarter of a core a test has four times as long, and the fix is watched under it too."""
    assert longer_limit(60, 5, ["cpu-quota"], {"plain": 9, "cpu-quota": 6}) is None
    assert longer_limit(60, 5, ["cpu-quota"], {"cpu-quota": 8}) == 20
    assert longer_limit(60, 5, ["cpu-quota"], {"cpu-quota": 48}) == 60


def test_which_tests_are_slow_does_not_change_with_luck():
    """The first validation goes by its matrix: what hung and what took as long as the floor to fail; a
    later one keeps what was recorded."""
    took = {"a": 0.1, "b": 60.0, "c": 5.1}
    assert slow(("a", "b", "c", "d"), took, 5, None) == ("b", "c")
    assert slow(("a", "b", "c"), took, 5, ("b",)) == ("b",)
    assert slow(("a", "b"), took, 5, ()) == ()


def test_of_slow_tests_alone_the_least_slow_one_is_repeated():
    """Not the one that hangs but the one that fails after half a minute; of two alike the first."""
    assert slow(("a", "b"), {"a": 60.1, "b": 30.2}, 5, None) == ("a",)
    assert slow(("a", "b", "c"), {"a": 60.1, "b": 60.0, "c": 60.2}, 5, None) == ("b", "c")
    assert slow(("a",), {"a": 60.1}, 5, None) == ()
