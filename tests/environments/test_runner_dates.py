"""From which day pytest may come, for commits whose own day has none that can be used."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from race.core.environment.runner_dates import GRADER_PYTEST_SETTLED, RunnerDates
from race.errors import Unresolvable

LONG_AGO = datetime(2018, 7, 27, tzinfo=UTC)


def test_a_lock_with_a_pytest_that_the_grader_drives_is_left_alone() -> None:
    """No later date, no constraint, every pin counts."""
    dates = RunnerDates(LONG_AGO)
    assert dates.below_grader("3.11", "pluggy==0.6\npytest==7.0.0 --hash=sha256:0\n") is None
    assert dates.below_grader("3.11", "pytest-mock==1.0\n") is None
    assert (dates.later, dates.constraints, dates.unpinned) == ({}, [], ())
    assert dates.widened(Unresolvable("something else")) is None


def test_an_older_one_is_replaced_and_held_to_what_the_grader_drives() -> None:
    """The rung names the version; from then on no older pytest can be locked."""
    dates = RunnerDates(LONG_AGO)
    rung = dates.below_grader("3.11", "attrs==18.1.0 --hash=sha256:0\npytest==3.5.1 --hash=sha256:0\n")
    assert rung is not None
    assert (rung.name, rung.what) == (
        "runner-of-the-grader", "pytest 7 or later instead of 3.5.1, pins dropped",
    )  # fmt: skip
    assert dates.constraints == ["pytest>=7"]
    assert dates.later["pytest"] >= GRADER_PYTEST_SETTLED
    assert "pytest" in dates.unpinned
    assert "attrs" not in dates.later, "the project's own date counts for what it may use itself"
    assert dates.below_grader("3.11", "pytest==3.5.1 --hash=sha256:0\n") is None, "once"


@pytest.mark.parametrize(("python", "year"), [("3.11", 2022), ("3.12", 2023), ("3.13", 2024)])
def test_a_later_pytest_knows_the_interpreter(python: str, year: int) -> None:
    """It is not taken from before the Python that it runs on."""
    dates = RunnerDates(LONG_AGO)
    dates.below_grader(python, "pytest==3.5.1\n")
    assert dates.later["pytest"].year == year


def test_what_it_needs_may_come_later_too_and_then_it_is_said_that_nothing_goes() -> None:
    """First attrs of pytest's date, as a rung; after that the project does not go with the grader."""
    dates = RunnerDates(LONG_AGO)
    dates.below_grader("3.11", "pytest==3.5.1\n")
    rung = dates.widened(Unresolvable("pytest>=7 depends on attrs>=19.2.0"))
    assert rung is not None
    assert rung.what == "attrs of pytest's date too"
    assert dates.later["attrs"] == dates.later["pytest"]
    with pytest.raises(Unresolvable, match=r"not go with pytest 7 or later, .* you require attrs<19"):
        dates.widened(Unresolvable("you require attrs<19"))


def test_an_interpreter_that_an_old_pytest_does_not_know() -> None:
    """An internal error of pytest on a younger Python brings one of that Python's date, held as well."""
    dates = RunnerDates(LONG_AGO)
    said = 'INTERNALERROR> TypeError: required field "lineno" missing from alias\n'
    assert dates.unlike_python("3.11", "ImportError: no module x\n") is None
    rung = dates.unlike_python("3.11", said)
    assert rung is not None
    assert rung.name == "runner-of-this-python"
    assert dates.constraints == ["pytest>=7"]
    assert dates.unlike_python("3.11", said) is None
