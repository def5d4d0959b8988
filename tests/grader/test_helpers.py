"""False edits of what tests leave their assertions to: which helpers, and whom an edit concerns."""

from __future__ import annotations

import importlib
import random
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent.parent / "images" / "grader"
SHARED = b"""
import asyncio

def check(value):
    assert value == 3

async def settle(value):
    return value

async def scenario(value):
    check(await settle(value))

def unused():
    assert 1 == 1

def verify(value):
    if value > 5:
        return verify(value - 1)
    assert value == 5

def test_direct():
    check(3)

def test_by_a_loop():
    asyncio.run(scenario(3))

def test_by_recursion():
    verify(7)

def test_alone():
    assert [1] == [1]

def test_shadowed(check=print):
    verify = print
    verify(check(4))
"""
CLASSES = b"""
from helpers import Base, ready as prepared

def decorated(function):
    def wrapped(*a):
        return function(*a)
    return wrapped

def aliased(value):
    assert value

other_name = aliased

class Checker:
    limit = 4
    @decorated
    def look(self, value):
        assert value < self.limit

class TestBox(Base):
    def check(self, value):
        assert value == 1
    def setup_method(self):
        assert self
    def test_own(self):
        self.check(1)
    def test_inherited_helper(self):
        self.agreed(2)
    def test_object(self):
        Checker().look(3)
    def test_alias(self):
        other_name(5)
    def test_by_name(self):
        getattr(self, "check")(1)
    def test_imported(self):
        prepared(6)

class TestOther:
    def test_apart(self):
        assert 7 == 7
"""
HELPERS = b"""
import pytest

class Base:
    def agreed(self, value):
        assert value == 2
    def test_from_base(self):
        assert 8 == 8

def ready(value):
    assert value == 6

@pytest.fixture
def given():
    assert 9 == 9
    return 9
"""


@pytest.fixture(scope="module")
def grader() -> Any:
    """The grader's modules, imported as the grader does it."""
    sys.path.insert(0, str(FOLDER))
    try:
        names = ("reach", "edits", "controls", "trial")
        return SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))


def near(grader: Any, files: dict[str, bytes], path: str, names: str) -> list[str]:
    """The helpers that a test comes to, by name."""
    found = grader.reach.Reach(files).of((path, tuple(names.split("::"))))
    return [".".join(place.names) for place in found]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("test_direct", ["check"]),
        ("test_by_a_loop", ["scenario", "check", "settle"]),
        ("test_by_recursion", ["verify"]),
        ("test_alone", []),
        ("test_shadowed", ["check", "verify"]),
    ],
)
def test_helpers_are_found_by_their_names(grader: Any, name: str, wanted: list[str]) -> None:
    """Calls are followed through helpers of helpers, nearest first; a shadowed name counts too."""
    assert near(grader, {"t.py": SHARED}, "t.py", name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("TestBox::test_own", {"TestBox.check"}),
        ("TestBox::test_inherited_helper", {"Base.agreed"}),
        ("TestBox::test_object", {"Checker.look", "decorated"}),
        ("TestBox::test_alias", {"aliased"}),
        ("TestBox::test_by_name", {"TestBox.check"}),
        ("TestBox::test_imported", {"ready"}),
        ("TestBox::test_from_base", {"Base.test_from_base"}),
    ],
)
def test_methods_aliases_and_other_files(grader: Any, name: str, wanted: set[str]) -> None:
    """Methods, base classes of other files, decorators, aliases, names in strings, inherited tests."""
    files = {"tests/t.py": CLASSES, "tests/helpers.py": HELPERS}
    assert wanted <= set(near(grader, files, "tests/t.py", name))
    assert "TestBox.check" not in near(grader, files, "tests/t.py", "TestOther::test_apart")


def test_fixtures_count_and_broken_files_do_not(grader: Any) -> None:
    """Parameters name helpers, what runs for all tests is one, and a broken file has none."""
    always = b"import pytest\n@pytest.fixture(autouse=True)\ndef around():\n    assert 1 == 1\n"
    files = {
        "t.py": b"def test_one(given):\n    assert given\n",
        "conftest.py": HELPERS,
        "more/conftest.py": always,
        "broken.py": b"def given(:\n",
    }
    assert near(grader, files, "t.py", "test_one") == ["given", "around"]


class Played:
    """Runs tests of one file for real, in this process, with whatever stands in for the file."""

    def __init__(self, source: bytes, ids: list[str]) -> None:
        self.source, self.task = source, {"fail_to_pass": ids}
        self.hidden = {"t.py": source}
        self.placed, self.asked = source, list[list[str]]()

    def sources(self) -> dict[str, bytes]:
        return {"t.py": self.source}

    def beside(self, sources: dict[str, bytes]) -> dict[str, bytes]:
        return {}

    def place(self, variant: dict[str, bytes]) -> None:
        self.placed = variant.get("t.py", self.source)

    def run(self, ids: list[str], purpose: str, **how: float) -> Any:
        module, outcomes, seconds = ModuleType("played"), {}, {}
        exec(compile(self.placed, "played.py", "exec"), module.__dict__)
        self.asked.append(ids)
        for nodeid in ids:
            begun = time.perf_counter()
            try:
                getattr(module, nodeid[6:])()
                outcomes[nodeid] = "passed"
            except Exception:  # noqa: BLE001 - it is the outcome
                outcomes[nodeid] = "failed"
            seconds[nodeid] = time.perf_counter() - begun
        return SimpleNamespace(outcomes=outcomes, seconds=seconds)


def tried(grader: Any, source: bytes, ids: list[str]) -> list[Any]:
    """What a trial writes down about helpers of these tests, read again."""
    played = Played(source, ids)
    book = grader.controls.Book(played.sources(), ids)
    rows = grader.trial.try_helpers(played, book, dict.fromkeys(ids, 0.0))
    return [grader.controls.HelperEdit.read(row) for row in rows]


IDS = ["t.py::test_direct", "t.py::test_by_a_loop", "t.py::test_by_recursion", "t.py::test_alone"]


def test_an_edit_counts_for_those_that_fail_with_it(grader: Any) -> None:
    """Each edit is tried by itself, for all that may come to it; it counts for those that fail."""
    found = tried(grader, SHARED, [*IDS, "t.py::test_shadowed"])
    texts = {}
    for helper in found:
        edited = helper.edit
        source = SHARED[: edited.start] + edited.text + SHARED[edited.end :]
        names = {function[1][0] for function in helper.reached}
        texts[edited.text] = (sorted(helper.ids), sorted(names), source.count(b"value != 3"))
    both = ["t.py::test_by_a_loop", "t.py::test_direct"]
    assert texts[b"value != 3"] == (both, ["test_by_a_loop", "test_direct", "test_shadowed"], 1)
    assert texts[b"4"][0] == both
    assert texts[b"value != 5"][:2] == (
        ["t.py::test_by_recursion"],
        ["test_by_recursion", "test_shadowed"],
    )
    assert b"1 != 1" not in texts
    assert all("t.py::test_shadowed" not in helper.ids for helper in found)


RETRIED = b"""
import time

state = []

def look():
    assert len(state) == 2

def eventually(what):
    for _ in range(30):
        try:
            return what()
        except AssertionError:
            state.append(1)
            time.sleep(0.03)
    raise AssertionError("never")

def test_retried():
    state.clear()
    eventually(look)
"""


def test_what_is_tried_again_and_again_is_left_alone(grader: Any) -> None:
    """An edit that a retried helper gets over, or that makes a test wait for a limit, is not used."""
    found = tried(grader, RETRIED, ["t.py::test_retried"])
    assert all(b"len(state)" not in helper.edit.text and helper.edit.text != b"3" for helper in found)


QUIET = b"""
import asyncio

async def quiet(value):
    rung = asyncio.Event()
    asyncio.get_running_loop().call_soon(rung.set)
    await asyncio.wait_for(rung.wait(), value)

async def odd():
    await quiet(5)
    value = type("Odd", (), {"__eq__": lambda self, other: True})()

def test_quiet():
    asyncio.run(quiet(5))

def test_odd():
    asyncio.run(odd())
"""


def test_helpers_have_neutral_edits_with_which_all_pass(grader: Any) -> None:
    """What is true of a helper stands beside what is false, but where it would make a test fail."""
    found = tried(grader, QUIET, ["t.py::test_quiet", "t.py::test_odd"])
    neutral = [helper for helper in found if helper.edit.neutral]
    assert [(helper.edit.kind, helper.ids) for helper in neutral] == [
        ("outer goes on", {"t.py::test_quiet", "t.py::test_odd"})
    ]
    assert b"rung" in neutral[0].edit.text
    ends = [helper.edit.start for helper in found if helper.edit.kind == "outer end"]
    assert neutral[0].edit.start in ends


def test_edits_that_concern_others_are_made_apart(grader: Any) -> None:
    """In a run no test comes to a helper that is edited for another; each that has one gets one."""
    edits = tried(grader, SHARED, IDS)
    ids = grader.controls.by_function(IDS)
    wanted = {("t.py", (nodeid[6:],)) for nodeid in IDS[:3]}
    for seed in range(50):
        rounds = grader.controls.helper_rounds(list(ids), edits, ids, random.Random(seed), 4)
        assert {function for there in rounds for function, _ in there} == wanted
        assert len(rounds) <= 6
        for there in rounds:
            assert len({function for function, _ in there}) == len(there)
            for function, edit in there:
                others = [other for _, other in there if other is not edit]
                assert not any(function in other.reached for other in others)


def test_one_edit_serves_several_tests_at_once(grader: Any) -> None:
    """An edit that two tests share is made once, and what was tried is what is made."""
    edits = [edit for edit in tried(grader, SHARED, IDS) if edit.edit.text == b"value != 3"]
    book = grader.controls.Book({"t.py": SHARED}, IDS)
    chosen = {("t.py", ("test_direct",)): (edits[0].edit, "test_a"),
              ("t.py", ("test_by_a_loop",)): (edits[0].edit, "test_b")}  # fmt: skip
    made = book.variant(chosen, random.Random(1))["t.py"]
    assert made == SHARED.replace(b"value == 3", b"value != 3").replace(
        b"test_direct", b"test_a"
    ).replace(b"test_by_a_loop", b"test_b")
