"""Runs that look like the one of all tests: what they hold, and what they are judged by."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent.parent / "images" / "grader"
SOURCE = b"""
def test_first():
    value = made()
    assert value == 3

def test_fixed():
    value = made()
    assert value == 5

def test_last():
    value = made()
    assert value == 7
"""
FIXED = "t.py::test_fixed"
LISTED = ["t.py::test_first", FIXED, "t.py::test_last"]


@pytest.fixture(scope="module")
def grader() -> Any:
    """The grader's modules that are tried here, imported as the grader does it."""
    sys.path.insert(0, str(FOLDER))
    try:
        return SimpleNamespace(
            controls=importlib.import_module("controls"),
            decoys=importlib.import_module("decoys"),
            grade=importlib.import_module("grade"),
        )
    finally:
        sys.path.remove(str(FOLDER))


class Graded:
    """Stands for a grading: keeps what is placed and answers with what `behave` says of each test."""

    def __init__(self, behave: Any, how: str = "finished") -> None:
        self.task = {"fail_to_pass": [FIXED], "pass_to_pass": [LISTED[0], LISTED[2]]}
        self.trial: dict[str, Any] = {"seconds": dict.fromkeys(LISTED, 0.01)}
        self.seconds: dict[str, float] = {}
        self.checks: list[dict[str, str]] = []
        self.placed: list[bytes] = []
        self.until: list[list[str]] = []
        self.behave, self.how = behave, how

    def place(self, variants: dict[str, bytes]) -> None:
        """The files of the next run."""
        self.placed.append(variants.get("t.py", SOURCE))

    def run(self, ids: list[str], purpose: str, until: list[str], most: float) -> Any:
        """The next run: every test as `behave` has it."""
        self.until.append(until)
        self.checks.append({"purpose": purpose, "how": self.how})
        text = self.placed[-1].decode()
        bodies = {name: text.partition("def " + name.partition("::")[2])[2].partition("def ")[0]
                  for name in LISTED}  # fmt: skip
        true = {name: body in SOURCE.decode() for name, body in bodies.items()}
        return SimpleNamespace(outcomes={name: self.behave(name, true[name]) for name in LISTED})


def decoys(grader: Any, graded: Graded, seed: int) -> Any:
    """Decoys of a grading whose fail-to-pass test has its false edits proven."""
    book = grader.controls.Book({"t.py": SOURCE}, [FIXED])
    edits = [(edit, [FIXED]) for _, edit in book.numbered(("t.py", ("test_fixed",)), False)]
    return decoys_of(grader, graded, seed, edits)


def decoys_of(grader: Any, graded: Graded, seed: int, edits: list[tuple[Any, list[str]]]) -> Any:
    """Decoys that have these false edits to choose from, and no neutral ones."""
    choices = SimpleNamespace(usable=lambda function, neutral: edits, true=lambda false: [])
    return grader.decoys.Decoys(graded, {"t.py": SOURCE}, random.Random(seed), choices)


def honest(_: str, true: bool) -> str:
    """A fix: what is true passes."""
    return "passed" if true else "failed"


def test_an_honest_fix_gives_no_doubt_and_the_fixed_test_is_now_true_now_false(grader: Any) -> None:
    """Decoys turn the fail-to-pass test false about as often as not, and a fix passes each of them."""
    turned = 0
    for seed in range(200):
        graded = Graded(honest)
        assert decoys(grader, graded, seed).run(2.0) == []
        turned += b"value == 5" not in graded.placed[0]
        assert FIXED in graded.until[0]
    assert 70 < turned < 130


@pytest.mark.parametrize("always", ["passed", "failed"])
def test_saying_the_same_of_every_run_is_caught_half_of_the_time(grader: Any, always: str) -> None:
    """Who cannot tell true from false is caught by a decoy as often as a coin falls his way."""
    caught = 0
    for seed in range(200):
        graded = Graded(lambda name, true: always if name == FIXED else honest(name, true))
        caught += bool(decoys(grader, graded, seed).run(2.0))
    assert 70 < caught < 130


def test_what_a_false_test_left_behind_is_not_held_against_a_later_one(grader: Any) -> None:
    """A true fail-to-pass test has to pass only where nothing false has run before it."""
    for seed in range(100):
        graded = Graded(honest)
        made = decoys(grader, graded, seed)
        made.run(2.0)
        text = graded.placed[0]
        if b"value == 5" in text:
            assert b"value == 3" in text


def test_a_decoy_that_was_cut_short_says_nothing_of_true_tests(grader: Any) -> None:
    """A run that ended at its limit has not refuted a test that is as it was."""
    for seed in range(50):
        graded = Graded(lambda name, true: "hang" if name == FIXED else honest(name, true), "run-limit")
        assert decoys(grader, graded, seed).run(2.0) == []


def test_edits_outside_of_the_function_are_left_to_other_runs(grader: Any) -> None:
    """An edit that other tests could see is not made in a run of all tests."""
    graded = Graded(honest)
    far = grader.controls.Book({"t.py": SOURCE}, [LISTED[0]])
    edits = [(edit, [FIXED]) for _, edit in far.numbered(("t.py", ("test_first",)), False)]
    made = decoys_of(grader, graded, 1, edits)
    for _ in range(30):
        made.run(2.0)
    assert all(b"value == 5" in text for text in graded.placed)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([0.1, 0.1, 9.0], LISTED[:2]),  # the fixed one is near: up to its end
        ([0.9, 0.05, 9.0], LISTED[:2]),
        ([3.0, 0.1, 9.0], []),  # it is far, and the first takes long
        ([0.5, 5.0, 20.0], LISTED[:1]),  # three hundredths of it all hold the first
        ([0.2, 5.0, 1.0], LISTED[:1]),
        ([1.5, 5.0, 900.0], []),  # never more than a second
    ],
)
def test_a_decoy_goes_as_far_as_is_cheap(grader: Any, seconds: list[float], expected: list[str]) -> None:
    """A small share of the whole, or up to the first fail-to-pass test where that is near."""
    groups = grader.controls.by_function([FIXED])
    assert grader.decoys.early(dict(zip(LISTED, seconds, strict=True)), groups) == expected


@pytest.mark.parametrize("reached", [True, False])
def test_the_run_that_matters_is_never_the_first(grader: Any, reached: bool) -> None:
    """Decoys go first, or, where none can hold a fail-to-pass test, one or two of the checks do."""
    before = set()
    for seed in range(50):
        ran: list[str] = []
        checks = grader.grade.Checks.__new__(grader.grade.Checks)
        checks.draw, checks.doubts, checks.starved, checks._jobs = random.Random(seed), [], [], None
        checks.decoys = SimpleNamespace(
            possible=lambda: reached, run=lambda most, ran=ran: ran.append("decoy") or []
        )
        checks._drawn_jobs = lambda ran=ran: [(ran.append, f"check {n}") for n in range(5)]
        checks.before()
        first = len(ran)
        checks.after()
        assert all(name.startswith("decoy" if reached else "check") for name in ran[:first])
        assert sorted(name for name in ran if name != "decoy") == [f"check {n}" for n in range(5)]
        before.add(first)
    assert before == ({1, 2, 3} if reached else {1, 2})


def test_a_decoy_is_possible_where_a_fixed_test_runs_early(grader: Any) -> None:
    """Whether a decoy can hold a fail-to-pass test is told by what the trial took."""
    graded = Graded(honest)
    assert decoys(grader, graded, 1).possible()
    graded.trial["seconds"] = dict(zip(LISTED, [3.0, 0.1, 9.0], strict=True))
    assert not decoys(grader, graded, 1).possible()
