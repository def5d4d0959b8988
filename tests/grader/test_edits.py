"""False and neutral edits of tests: all of them, run for real in this process."""

from __future__ import annotations

import ast
import asyncio
import importlib
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

FOLDER = Path(__file__).parent.parent.parent / "images" / "grader"
SOURCE = b"""
import pytest

class Box:
    def __init__(self):
        self.value, self.items, self.name = 3, ["a", "b"], "box"

def test_one():
    box = Box()
    assert box.value == 3
    assert box.items == ["a", "b"]
    assert not box.value == 4
    assert "a" in box.items
    with pytest.raises(KeyError, match="x"):
        {}["x"]
    assert box.name == "box", "its name"

class TestBox:
    def test_two(self):
        for value in (1, 2):
            assert (value
                    > 0)
        done = True
        assert done is True
"""


@pytest.fixture(scope="module")
def controls() -> Any:
    """The grader's module `controls`, imported as the grader does it."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module("controls")
    finally:
        sys.path.remove(str(FOLDER))


def run(source: bytes, names: tuple[str, ...]) -> Exception | None:
    """Run one test of a module's source; what it raised."""
    module = ModuleType("edited")
    exec(compile(source, "edited.py", "exec"), module.__dict__)
    try:
        if len(names) == 2:
            getattr(getattr(module, names[0])(), names[1])()
        else:
            getattr(module, names[0])()
    except Exception as error:  # noqa: BLE001 - it is the result
        return error
    return None


BARE = b"""
from contextlib import suppress

def test_bare():
    with suppress(KeyError):
        seen = [1]
        seen.append(2)
"""


@pytest.mark.parametrize(
    ("source", "nodeid", "least"),
    [
        (SOURCE, "t.py::test_one", 14),
        (SOURCE, "t.py::TestBox::test_two[1]", 3),
        (BARE, "t.py::test_bare", 2),
    ],
)
def test_false_edits_fail_and_neutral_ones_pass(
    controls: Any, source: bytes, nodeid: str, least: int
) -> None:
    """Every false edit of a passing test makes it fail, every neutral one leaves it passing."""
    book = controls.Book({"t.py": source}, [nodeid])
    function = controls.function_of(nodeid)
    draw = random.Random(4)
    assert run(source, function[1]) is None
    false, neutral = book.numbered(function, False), book.numbered(function, True)
    assert len(false) >= least
    assert neutral
    for edits, fails in ((false, True), (neutral, False)):
        for _, edit in edits:
            made = book.variant({function: (edit, "")}, draw)["t.py"]
            error = run(made, function[1])
            assert (error is not None) == fails, (edit.kind, edit.text)
            assert made.count(b"\n") - source.count(b"\n") in (0, 1, 2)


def test_kinds_of_false_edits(controls: Any) -> None:
    """Where a test has a place for it, edits are made in place; only the first-time one adds a line."""
    book = controls.Book({"t.py": SOURCE, "b.py": BARE}, ["t.py::test_one", "b.py::test_bare"])
    kinds = [edit.kind for _, edit in book.numbered(("t.py", ("test_one",)), False)]
    assert set(kinds[:4]) == set(kinds) == {"flip", "value", "error", "again"}
    bare = {edit.kind for _, edit in book.numbered(("b.py", ("test_bare",)), False)}
    assert bare == {"end", "again"}


def test_a_second_try_is_found_out(controls: Any) -> None:
    """The first-time edit fails once and would pass when run again; its neutral twin never fails."""
    book = controls.Book({"t.py": SOURCE}, ["t.py::test_one"])
    edits = {edit.kind: edit for edit in book.edits["t.py", ("test_one",)]}
    for kind, wanted in (("again", [False, True, True]), ("ready", [True, True, True])):
        made = book.variant({("t.py", ("test_one",)): (edits[kind], "")}, random.Random(2))["t.py"]
        module = ModuleType("edited")
        exec(compile(made, "edited.py", "exec"), module.__dict__)
        passed = []
        for _ in range(3):
            try:
                module.test_one()
            except AssertionError:
                passed.append(False)
            else:
                passed.append(True)
        assert passed == wanted


def test_names_of_one_run_differ(controls: Any) -> None:
    """No two tests of a run get the same made-up name, which would hide one of them."""
    book = controls.Book({"t.py": SOURCE}, ["t.py::test_one"])
    draw, chosen = random.Random(3), dict[Any, Any]()
    for number in range(300):
        chosen[number] = (None, book.new_name(("t.py", ("test_one",)), draw, chosen))
    assert len({name for _, name in chosen.values()}) == 300


def test_renaming(controls: Any) -> None:
    """A variant may have another name; ids follow, with their classes and parameters."""
    book = controls.Book({"t.py": SOURCE}, ["t.py::TestBox::test_two[1]"])
    function = controls.function_of("t.py::TestBox::test_two[1]")
    name = book.new_name(function, random.Random(1), {})
    made = book.variant({function: (None, name)}, random.Random(1))["t.py"]
    assert f"def {name}(self)".encode() in made
    assert b"test_two" not in made
    assert controls.renamed("t.py::TestBox::test_two[1]", name) == f"t.py::TestBox::{name}[1]"


def test_choices_need_the_secret(controls: Any) -> None:
    """The same secret and nonce draw the same, another of either draws otherwise."""
    draws = [
        [controls.drawing(secret, nonce, "checks").random() for _ in range(2)]
        for secret, nonce in ((b"s", "1"), (b"s", "1"), (b"s", "2"), (b"t", "1"))
    ]
    assert draws[0] == draws[1]
    assert len({tuple(draw) for draw in draws}) == 3


NESTED = b"""
import asyncio

def test_nested():
    async def scenario():
        def check(value):
            assert value == 3
        class Noted:
            def add(self, noted):
                assert noted == ["a"]
                noted = ["b", "a"]
        def noted(value):
            check(value)
        seen = [1]
        assert seen == [1]
        Noted().add(["a"])
        noted(3)
    asyncio.run(scenario())
"""


def test_functions_inside_of_a_test_are_made_false_too(controls: Any) -> None:
    """What a test hands to an event loop has false edits of its own, each of which fails there."""
    book = controls.Book({"t.py": NESTED}, ["t.py::test_nested"])
    function = ("t.py", ("test_nested",))
    edits = [edit for _, edit in book.numbered(function, False) if edit.owner]
    assert {edit.owner for edit in edits} == {"inner 0", "inner 1", "inner 2"}
    assert len(edits) >= 10
    assert not any(edit.sure for edit in edits)
    for edit in edits:
        source = book.variant({function: (edit, "")}, random.Random(1))["t.py"]
        error = run(source, ("test_nested",))
        assert isinstance(error, AssertionError), edit.text


def test_every_function_has_an_edit_at_its_end(controls: Any) -> None:
    """Of the test and each function in it there are edits that only what comes to the end can meet."""
    book = controls.Book({"t.py": NESTED}, ["t.py::test_nested"])
    edits = [
        edit for _, edit in book.numbered(("t.py", ("test_nested",)), False) if edit.kind != "again"
    ]
    for number in range(3):
        inner = [edit for edit in edits if edit.owner == f"inner {number}"]
        last = min(edit.start for edit in inner if edit.last)
        assert all(edit.end < last for edit in inner if not edit.last)
    own = [edit for edit in edits if not edit.owner]
    assert own
    assert all(edit.last and edit.end == len(NESTED) for edit in own)


RIDDLE = re.compile(rb"([ \t]*)\w+_\d+ = \[(?:\d+, )*([^\]\n]*?)(?:, \d+)*\]\n[ \t]*assert [^\n]*\n")
ENDS = b"""
import pytest
from contextlib import contextmanager

@contextmanager
def opened():
    yield 1

def test_in_block():
    with opened() as one:
        two = one + 1
        str(two)

def test_in_try():
    three = 3
    try:
        str(three)
    finally:
        str(4)

def test_raises():
    five = 5
    assert five
    with pytest.raises(ZeroDivisionError):
        five / 0

def test_loop():
    six = 6
    for seven in range(2):
        assert seven < 2

def test_returns():
    eight = [8]
    return None

class TestCase:
    def assertEqual(self, one, other):
        assert one == other
    def assertNotEqual(self, one, other):
        assert one != other
    def test_method(self):
        nine = 9
        self.assertEqual(nine, nine)

def test_by_hand():
    ten = 10
    if ten != 10:
        raise AssertionError("ten")
"""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("test_in_block", b"        str(two)\n        <two>\n"),
        ("test_in_try", b"        str(three)\n        <three>\n"),
        ("test_raises", b"    with pytest.raises(ValueError):\n"),
        ("test_loop", b"        assert seven < 2\n    <six>\n"),
        ("test_returns", b"    eight = [8]\n    <eight>\n    return None\n"),
        ("TestCase::test_method", b"        self.assertNotEqual(nine, nine)\n"),
        ("test_by_hand", b"    if not (ten != 10):\n"),
    ],
)
def test_where_a_function_ends(controls: Any, name: str, wanted: bytes) -> None:
    """The end is found in blocks, before a return, after a loop, in what has to raise."""
    names = tuple(name.split("::"))
    book = controls.Book({"t.py": ENDS}, ["t.py::" + name])
    made = []
    for _, edit in book.numbered(("t.py", names), False):
        if edit.last:
            source = book.variant({("t.py", names): (edit, "")}, random.Random(1))["t.py"]
            error = run(source, names)
            assert error is not None, edit.text
            made.append(RIDDLE.sub(rb"\1<\2>\n", source))
    assert any(wanted in source for source in made)


DRIVEN = b"""
import asyncio, threading, pytest

def direct(): ...
def by_thread(): ...
async def awaited(): ...
async def run_by_loop(): ...
async def as_task(): ...
async def gathered(): ...
@pytest.fixture
def given(): ...
def setup_method(self): ...

async def all_of_them(self):
    direct()
    threading.Thread(target=by_thread).start()
    await self.awaited()
    asyncio.create_task(as_task())
    await asyncio.gather(gathered(), gathered())
asyncio.run(run_by_loop())
"""


def test_what_nobody_waits_for_is_left_alone(controls: Any) -> None:
    """What is called, awaited, run or requested comes to its end; threads and tasks may not."""
    edits = sys.modules["edits"]
    tree = ast.parse(DRIVEN)
    found = {node.name: edits.is_driven(node, DRIVEN) for node in tree.body if hasattr(node, "name")}
    assert {name for name, driven in found.items() if not driven} == {
        "by_thread",
        "as_task",
        "all_of_them",
    }


@pytest.mark.parametrize("equal", ["not equal", "equal to everything"])
def test_riddles_hold_or_not(controls: Any, equal: str) -> None:
    """A true riddle holds and a false one does not; what equals everything is told from the rest."""
    riddles = sys.modules["riddles"]
    draw, shapes, wrong = random.Random(5), {True: set[str](), False: set[str]()}, 0
    for number in range(400):
        true = number % 2 == 0
        text = riddles.filled(riddles.template(b"", b"what", true), draw, b"pace")
        shapes[true].add(re.sub(r"\d+", "1", text.decode()).replace("1, ", "").replace(", 1", ""))
        what = mock.ANY if equal == "equal to everything" else asyncio.Event()
        try:
            exec(compile(text, "riddle.py", "exec"), {"what": what})
        except AssertionError:
            wrong += true
        else:
            wrong += not true
    assert shapes[True] == shapes[False]
    assert wrong == 0 if equal == "not equal" else wrong > 200


BRANCHES = b"""
def test_branches(given):
    other = given.start()
    for one in other:
        two = one
    if other:
        three = 3
    try:
        four = 4
    except KeyError as error:
        five = error
    with given as six, given:
        seven = 7
    if other:
        del other
    str(two)

def test_made(given):
    one = given.start()
    box = Box()
    items = [1]
    str(one)

def test_bound_in_a_loop():
    for _ in range(2):
        eight = 8
        str(eight)
    str(eight)
"""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("test_branches", {"six", "given"}),
        ("test_made", {"box", "items"}),
        ("test_bound_in_a_loop", {"eight"}),
    ],
)
def test_names_that_may_stand_for_nothing_are_not_relied_on(
    controls: Any, name: str, wanted: set[str]
) -> None:
    """Neutral edits name what is bound whatever way the test takes, first what the test made itself."""
    book = controls.Book({"t.py": BRANCHES}, ["t.py::" + name])
    edits = [edit for edit in book.edits["t.py", (name,)] if edit.kind in ("end", "goes on")]
    named = {word for edit in edits for word in re.findall(r"\[\{before\}(\w+)", edit.text.decode())}
    assert named == wanted
    neutral = any(edit.neutral for edit in edits)
    assert neutral == (name != "test_bound_in_a_loop")


WAITS = b"""
import asyncio

def test_waits(given):
    async def scenario():
        called, other = asyncio.Event(), given.start()
        later = asyncio.Event()
        queue = asyncio.Queue()
        asyncio.get_running_loop().call_soon(later.set)
        queue.put_nowait(1)
        await asyncio.wait_for(later.wait(), 5)
        await asyncio.wait_for(queue.get(), timeout=2.5)
        await asyncio.wait_for(other.wait(), 3)
        await asyncio.wait_for(later.wait(), given.seconds)
        await asyncio.wait_for(given.call(), 4)
    asyncio.run(scenario())
"""


def test_waits_are_given_no_time_or_more(controls: Any) -> None:
    """A wait for what the test made of asyncio has false edits, which fail, and neutral ones."""
    book = controls.Book({"t.py": WAITS}, ["t.py::test_waits"])
    function = ("t.py", ("test_waits",))
    edits = [edit for edit in book.edits[function] if edit.kind in ("inner 0 late", "inner 0 in time")]
    assert {edit.text.partition(b" ")[0] for edit in edits} == {b"5", b"2.5"}
    assert [edit.neutral for edit in edits] == [False, True, False, True]
    for edit in edits:
        made = book.variant({function: (edit, "")}, random.Random(2))["t.py"]
        lines = made.partition(b"queue.put_nowait(1)\n")[0] + b"queue.put_nowait(1)\n"
        lines += b"".join(line for line in made.splitlines(True) if b" * [" in line)
        lines = lines.replace(b", other = asyncio.Event(), given.start()", b" = asyncio.Event()")
        module = ModuleType("edited")
        exec(compile(lines + b"    asyncio.run(scenario())\n", "edited.py", "exec"), module.__dict__)
        if edit.neutral:
            module.test_waits(None)
        else:
            with pytest.raises(asyncio.TimeoutError):
                module.test_waits(None)


def test_what_is_true_looks_like_what_is_false(controls: Any) -> None:
    """Every place of a false edit at an end, at the start or of a wait has a neutral one beside it."""
    sources = {"t.py": NESTED, "w.py": WAITS}
    book = controls.Book(sources, ["t.py::test_nested", "w.py::test_waits"])
    for function, edits in book.edits.items():
        starts = {(edit.kind, edit.start) for edit in edits if edit.neutral}
        for edit in edits:
            kind = controls.neutral_kind(edit.kind)
            if not edit.neutral and kind:
                assert (kind, edit.start) in starts, (function, edit.kind)
    assert controls.neutral_kind("inner 3 flip") == ""
    assert controls.neutral_kind("outer end") == "outer goes on"
