"""The deterministic writer and its reading of observed failures."""

# ruff: noqa: E501 - sources and messages stay on one line
from __future__ import annotations

from collections.abc import Callable

import pytest

from race.core.failure_text import ObservedFailure
from race.core.interface.items import read_interface
from race.core.statement.symptoms import (
    awaited_exception,
    in_words,
    remark,
    said,
    symptom_of,
    values_of,
)
from race.core.statement.writer import LEVELS, Facts, write
from race.core.statement_audit.audit import audit

CASES: list[tuple[ObservedFailure, str, str]] = [
    (ObservedFailure(outcome="hang"), "hang", "never finishes"),
    (ObservedFailure(outcome="crashed"), "crash", "interpreter ends"),
    (ObservedFailure(outcome="failed", error_type="TimeoutError"), "hang", "never finishes"),
    (
        ObservedFailure(outcome="failed", error_type="Failed", message="DID NOT RAISE <class 'a.b.Bad'>"),
        "silent",
        "no `Bad` is seen",
    ),
    (
        ObservedFailure(outcome="failed", error_type="AttributeError", message="'X' object has no attribute 'y'"),
        "absent",
        "Interface",
    ),
    (
        ObservedFailure(outcome="failed", error_type="AssertionError", message="assert 5 == 6\n + where 5 = f()"),
        "wrong-value",
        "`5` was found where `6` is right",
    ),
    (
        ObservedFailure(outcome="failed", error_type="AssertionError", message="tasks are left\nassert [1] == []"),
        "wrong-value",
        "tasks are left: `[1]` was found",
    ),
    (
        ObservedFailure(
            outcome="failed",
            error_type="AssertionError",
            message="assert False\n +  where False = <built-in method done of _asyncio.Task object at 0x…>()",
        ),
        "hang",
        "left waiting",
    ),
    (
        ObservedFailure(outcome="failed", error_type="RuntimeError", message="loop is closed", phase="teardown"),
        "error",
        "while cleaning up with `RuntimeError: loop is closed`",
    ),
    (ObservedFailure(outcome="failed", error_type="a.b.Odd", message="x" * 400), "error", "with `Odd`"),
    (
        ObservedFailure(
            outcome="failed",
            error_type="pytest.PytestUnhandledThreadExceptionWarning",
            message="Exception in thread Thread-N (writer)\nKeyError: 3",
        ),
        "error",
        "in another thread is handled by nobody: `KeyError: 3`",
    ),
    (
        ObservedFailure(
            outcome="failed",
            error_type="pytest.PytestUnraisableExceptionWarning",
            message="Exception ignored in: <coroutine object f>\na.Bad: x\nEnable more to see more.",
        ),
        "error",
        "where nobody can handle it: `Bad: x`",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "symptom", "words"), CASES)
def test_a_failure_is_told_in_words(failure: ObservedFailure, symptom: str, words: str) -> None:
    """Each kind of failure has its symptom, and the sentence says what was seen."""
    assert symptom_of(failure) == symptom
    assert words in in_words(failure, quote=True)


def test_nothing_is_quoted_when_it_must_not_be() -> None:
    """Without leave to quote, a message's words stay out."""
    failure = ObservedFailure(outcome="failed", error_type="ValueError", message="secret words here")
    assert "secret" in in_words(failure, quote=True)
    assert "secret" not in in_words(failure, quote=False)


def test_values_that_are_cut_or_vary_are_not_told() -> None:
    """A shortened or varying comparison is no value; nor is one of objects."""
    for message in (
        "assert [0, 0, ...] == [1, 2, ...]",
        "assert N == N",
        "assert <X> == <Y>",
        "assert f(3) == 2",
        "nothing",
    ):
        failure = ObservedFailure(outcome="failed", error_type="AssertionError", message=message)
        assert values_of(failure) is None
    pair = ObservedFailure(outcome="failed", error_type="", message="assert (True, 2) == (True, 1)")
    assert values_of(pair) == ("(True, 2)", "(True, 1)")
    assert remark(pair) == ""
    assert said(ObservedFailure(outcome="failed", error_type="E", message="a b", varies=True)) == "E"
    assert awaited_exception(ObservedFailure(outcome="failed", message="DID NOT WARN")) == ""


@pytest.mark.parametrize("name", ["harbour", "relay"])
def test_what_it_writes_passes_the_audit(name: str, project: Callable) -> None:
    """Its statement is accepted, covers every test, and gives back the whole interface."""
    made = project(name)
    written = write(made.facts, 0)
    assert audit(made.case.reading(written.text)) == []
    assert {item.test for item in written.coverage} == set(made.facts.failures)
    assert all(item.sentence in written.text for item in written.coverage)
    stated = {(item.kind, item.name) for item in read_interface(written.text)}
    assert {("exception", "harbour.PoolClosed"), ("parameter", "timeout")} <= stated or name == "relay"


def test_it_writes_the_same_again(project: Callable) -> None:
    """Same facts, same bytes, in whatever order they come."""
    facts = project("harbour").facts
    turned = Facts(
        facts.project,
        facts.kind,
        dict(reversed(facts.behaviours.items())),
        dict(reversed(facts.failures.items())),
        facts.interface,
    )
    for level in range(LEVELS):
        assert write(facts, level) == write(turned, level)


def test_less_is_told_on_higher_levels(project: Callable) -> None:
    """Level 1 leaves quotes out, level 2 steps and claims, the interface always stays."""
    facts = project("harbour").facts
    texts = [write(facts, level).text for level in range(LEVELS)]
    assert "invalid state" in texts[0]
    assert "invalid state" not in texts[1]
    assert "Steps:" in texts[1]
    assert "Steps:" not in texts[2]
    assert all("`harbour.PoolClosed`" in text for text in texts)


def test_nothing_known_is_still_a_report() -> None:
    """Without behaviours and interface the statement names the project and its symptom."""
    facts = Facts("thing", None, {}, {"t.py::test_x": ObservedFailure(outcome="hang")}, ())
    text = write(facts).text
    assert "thing" in text
    assert "never finishes" in text
    assert "test_x" not in text
