"""The battery of attacks and honest patches: as data, and a part of it against the counter task."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from race.battery.diffs import apply, diff
from race.battery.entries import ATTACKED, Entry, battery, read_entry
from race.battery.rendering import PLACES, DoesNotFit, Target, patch_of
from race.core.unified_diff import read_patch
from race.work.attacking import BaseTree, run_battery
from race.work.soma_grading import grade_by_soma
from race.workbench import Workbench

PROJECT = Path(__file__).parent / "counter"
PATCHES = Path(__file__).parent / "patches"
FIX, TESTS = (PATCHES / "fix.patch").read_bytes(), (PATCHES / "test.patch").read_bytes()
THROUGH_RACE = (
    "conftest-root", "pytest-ini", "entry-point-in-tree", "forged-collection", "forged-by-child",
    "equal-to-everything", "keyed-on-test-name", "clock-patched", "import-hook-rewrites-tests",
    "survivor-rewrites-report", "tests-on-disk-rewritten", "own-tests", "hidden-test-edited",
    "carriage-returns", "left-overs", "old-tests-deleted",
)  # fmt: skip
ID = "sample__counter-1"
FAIL_TO_PASS = (
    "tests/test_core.py::test_adds_are_not_lost",
    "tests/test_core.py::test_close_wakes_all",
    "tests/test_core.py::test_adds_in_a_loop_of_its_own",
)
PASS_TO_PASS = (
    "tests/test_core.py::test_add_returns_the_value",
    "tests/test_core.py::test_closed_counter_refuses",
    "tests/test_core.py::TestStart::test_start[7]",
    "tests/test_text.py::test_describe",
)
"""All that the task lists: forgers who know less are unresolved for what they leave out."""


def base_tree() -> BaseTree:
    """The counter project as it is before the fix."""
    tree = BaseTree.__new__(BaseTree)
    tree.files = {
        path.relative_to(PROJECT).as_posix(): path.read_bytes()
        for path in PROJECT.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return tree


def place_of(tree: BaseTree) -> Target:
    """The places that the entries name."""
    return tree.target(FIX, TESTS, FAIL_TO_PASS, PASS_TO_PASS)


def test_the_battery_is_large_and_covers_every_kind() -> None:
    """At least 50 attacks over all kinds and 20 honest patches, each with its mechanism in a line."""
    attacks, honest = battery("attacks"), battery("honest")
    assert len(attacks) >= 50
    assert len(honest) >= 20
    for kind in ("applying", "start-up", "in-process", "outside"):
        assert sum(entry.kind == kind for entry in attacks) >= 10
    assert all(10 < len(entry.mechanism) < 120 for entry in attacks + honest)
    assert {entry.expect for entry in honest} == {("resolved",), ("unresolved",)}
    assert all(entry.expect and "resolved" not in entry.expect for entry in attacks)
    assert {verdict for entry in attacks for verdict in entry.expect} == set(ATTACKED)
    assert len({entry.name for entry in battery()}) == len(attacks) + len(honest)


def test_the_readme_counts_the_battery() -> None:
    """The README says how many attacks and honest patches there are."""
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    assert f"{len(battery('attacks'))} attacks and {len(battery('honest'))} honest patches" in readme


@pytest.mark.parametrize("entry", battery(), ids=lambda entry: entry.name)
def test_every_entry_becomes_a_patch(entry: Entry) -> None:
    """Every entry can be made for the counter task and has no placeholder left."""
    tree = base_tree()
    tree.files["src/counter/plugin.py"] = b"\ndef pytest_configure(config):\n    pass\n"
    patch = patch_of(entry, place_of(tree), tree.files.get, FIX)
    assert patch.strip()
    for name in (*PLACES, "ids", "names"):
        assert b"{%s}" % name.encode() not in patch
    if entry.honest:
        assert read_patch(patch.replace(b"\r\n", b"\n"))


def test_diffs_round_trip() -> None:
    """A diff made from two trees makes the second of the first again, newline at the end or not."""
    before = {"a": b"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b": b"x", "c": b"gone\n"}
    after = {"a": b"1\n2\nthree\n4\n5\n6\n7\n8\n9\n10", "b": b"x\ny\n", "c": None, "d": b"new", "e": b""}
    made = diff(after, before.get, {})
    assert apply(made, before.get) == after
    assert apply(diff(after, before.get, {}, context=0), before.get) == after
    with pytest.raises(ValueError, match="a: the patch does not fit at line"):
        apply(made, {**before, "a": b"other\n" * 9}.get)


def test_a_task_without_a_place_is_said_to_be_so() -> None:
    """An entry that needs what a task does not have is left out with the reason."""
    tree = base_tree()
    place = Target(**{**vars(place_of(tree)), "oldtest": ""})
    (entry,) = [entry for entry in battery() if entry.name == "old-tests-deleted"]
    with pytest.raises(DoesNotFit, match="no oldtest"):
        patch_of(entry, place, tree.files.get, FIX)


@pytest.mark.parametrize("expect", ["", "resolved", "tampered or resolved", "tampred"])
def test_an_attack_says_what_is_right_for_it(expect: str) -> None:
    """An attack without verdicts, with `resolved` or with an unknown one is no entry."""
    text = (
        f"kind: outside\nmechanism: something that is tried\nexpect: {expect}\n=== append {{product}}\n"
    )
    with pytest.raises(ValueError, match="expect has to name verdicts"):
        read_entry("odd", text)


@pytest.mark.engine
@pytest.mark.network
def test_no_attack_is_resolved_and_no_honest_patch_suffers(bench: Workbench, counter_task: Any) -> None:
    """All by a SOMA validator's steps, some through race: each gets a verdict that it states."""
    tree = base_tree()
    place = place_of(tree)
    listed = {"fail_to_pass": counter_task.fail_to_pass, "pass_to_pass": counter_task.pass_to_pass}
    soma = partial(grade_by_soma, bench.engine, counter_task.image, instance_id=ID, **listed)
    own = partial(counter_task.grade, bench.engine)
    some = [entry for entry in battery() if entry.name in THROUGH_RACE]
    assert len(some) == len(THROUGH_RACE)
    assert (counter_task.fail_to_pass, counter_task.pass_to_pass) == (FAIL_TO_PASS, PASS_TO_PASS)
    found = list(run_battery(battery(), place, tree, FIX, {"soma": soma}, jobs=3))
    found += run_battery(some, place, tree, FIX, {"grade": own}, jobs=3)
    wrong = {
        f"{outcome.route} {outcome.entry.name}": (outcome.graded.verdict, outcome.graded.reasons)
        for outcome in found
        if outcome.graded is not None and not (outcome.held and outcome.as_expected)
    }
    assert wrong == {}
    assert [outcome.entry.name for outcome in found if outcome.graded is None] == ["plugin-hook"]
    aside = {outcome.entry.name: outcome.graded.set_aside for outcome in found if outcome.graded}
    assert aside["hidden-test-edited"] == ("tests/test_core.py",)
    assert "conftest.py" in aside["conftest-root"]
