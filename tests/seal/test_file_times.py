"""Modification times: what points at the patched files, and what is chance."""

from __future__ import annotations

import random

import pytest

from race.core.leaks.probes_times import singled_out

FIX, TEST = "src/pool.py", "tests/test_pool.py"
CHECKED_OUT = 1_767_225_600


def tree(files: int, seconds: int = 0, seed: int = 1) -> dict[str, float]:
    """A tree that was written in some seconds."""
    draw = random.Random(seed)
    names = [FIX, TEST, *(f"src/module_{n}.py" for n in range(files - 2))]
    return {name: CHECKED_OUT + draw.randint(0, seconds) for name in names}


@pytest.mark.parametrize("files", [6, 40, 3000])
@pytest.mark.parametrize("patched", [{FIX}, {FIX, TEST}])
def test_a_tree_of_one_time_but_the_patched_files(files: int, patched: set[str]) -> None:
    """However small the tree: nothing else stands out, so these do."""
    times = tree(files) | dict.fromkeys(patched, CHECKED_OUT + 900)
    assert set(singled_out(times, {FIX, TEST})) == patched


def test_a_few_generated_files_hide_nothing() -> None:
    """Of two hundred files three stand out, and one is the patched one: chance seldom does that."""
    times = tree(200) | {FIX: CHECKED_OUT - 5000, "src/_version.py": CHECKED_OUT + 70}
    times["src/module.so"] = CHECKED_OUT + 90
    assert set(singled_out(times, {FIX})) == {FIX}
    assert 0.01 < singled_out(times, {FIX})[FIX] < 0.02


def test_a_working_copy_in_which_each_file_has_its_own_time() -> None:
    """Some file is the newest; that it is the patched one is no evidence, whichever it is."""
    for seed in range(200):
        times = tree(60, seconds=10**8, seed=seed)
        assert not singled_out(times, {FIX}), seed
        assert not singled_out(times | {FIX: CHECKED_OUT + 10**9}, {FIX})


def test_patched_files_that_are_together_the_newest_of_many() -> None:
    """Two of eighty that happen to be the last two: chance does that once in a thousand times."""
    times = tree(80, seconds=10**8) | {FIX: CHECKED_OUT + 10**9, TEST: CHECKED_OUT + 10**9 + 1}
    assert set(singled_out(times, {FIX, TEST})) == {FIX, TEST}
    assert singled_out(times, {FIX, TEST})[FIX] < 0.001


def test_a_checkout_that_writes_many_files_again_points_at_none() -> None:
    """Going from one commit to another rewrites what differs; the patched file is one of them."""
    times = tree(300)
    for name in [FIX, *list(times)[10:40]]:
        times[name] = CHECKED_OUT + 600
    assert not singled_out(times, {FIX})


def test_a_checkout_of_some_seconds_is_one_step() -> None:
    """A large tree takes a while to be written; its first and last file are no exception."""
    times = {name: CHECKED_OUT + n // 50 for n, name in enumerate(tree(1000))}
    assert not singled_out(times, {FIX})
    assert not singled_out(times, {list(times)[-1]})


@pytest.mark.parametrize("files", [6, 40, 3000])
def test_a_fraction_of_a_second_that_only_patched_files_have(files: int) -> None:
    """Times that were set to whole seconds have none; a tree as it was checked out has many."""
    times = tree(files)
    assert set(singled_out(times | {FIX: CHECKED_OUT + 0.25}, {FIX, TEST})) == {FIX}
    fresh = {name: CHECKED_OUT + n / 1000 + 0.0005 for n, name in enumerate(times)}
    assert not singled_out(fresh, {FIX, TEST})


def test_a_second_singles_a_file_out_where_all_others_have_one_time() -> None:
    """Nearly all files have one and the same time: then a second is as telling as an hour."""
    from race.core.leaks.probes_times import singled_out

    times = {f"src/{n}.py": 1_767_225_600 for n in range(80)} | {"src/pool.py": 1_767_225_601}
    assert set(singled_out(times, {"src/pool.py"})) == {"src/pool.py"}
    assert not singled_out(times, {"src/3.py"})
