"""Statements that must not pass, one per kind of fault, and honest ones that must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from race.core.records import Finding
from race.core.statement_audit.audit import RULES, audit

BATTERY = Path(__file__).parent / "battery"
BAD = sorted((BATTERY / "bad").glob("*.md"))
GOOD = sorted((BATTERY / "good").glob("*.md"))


def subject(name: str) -> str:
    """Which project a statement of the battery is about."""
    return "relay" if "relay" in name else "harbour"


@pytest.fixture(scope="module")
def findings(project: Callable) -> Callable[[Path], list[Finding]]:
    """The audit of one file of the battery, done once."""

    @cache
    def of(path: Path) -> list[Finding]:
        return audit(project(subject(path.stem)).case.reading(path.read_text()))

    return of


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_statement_is_caught_by_its_rule(path: Path, findings: Callable) -> None:
    """The rule that a bad statement is named after finds it, and says where."""
    rule = path.stem.split("--")[0]
    mine = [finding for finding in findings(path) if finding.rule == rule]
    assert mine, [f"{finding.rule}: {finding.message}" for finding in findings(path)]
    whole = {"empty", "expected", "interface", "coverage"}
    assert all(finding.place.startswith("line ") or rule in whole for finding in mine)
    assert all(finding.message for finding in mine)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_statement_passes(path: Path, findings: Callable) -> None:
    """An honest statement, in whatever style, has no finding."""
    assert [f"{item.rule} {item.place} {item.message}" for item in findings(path)] == []


def test_a_project_may_be_named_after_a_test_runner(project: Callable) -> None:
    """The word is its subject there, and a give-away anywhere else; its tests are one everywhere."""
    text = (BATTERY / "good" / "harbour-plain.md").read_text()
    said = text + "\nWith pytest-asyncio, as with pytest itself, nothing else is different.\n"

    def origins(repo: str, statement: str) -> list[str]:
        case = replace(project("harbour").case, repo=repo).reading(statement)
        return [finding.message for finding in audit(case) if finding.rule == "origin"]

    assert origins("owner/pytest-asyncio", said) == []
    assert origins("owner/harbour", said) != []
    assert len(origins("owner/pytest-asyncio", said + "Then the tests pass.\n")) == 1


def test_the_battery_is_large_and_of_every_kind() -> None:
    """At least 25 bad and 15 good statements; every rule has a bad one."""
    assert len(BAD) >= 25
    assert len(GOOD) >= 15
    assert {path.stem.split("--")[0] for path in BAD} == set(RULES)


def test_a_bad_statement_has_one_fault(findings: Callable) -> None:
    """Bad statements are good but for their fault: most are caught by one rule only."""
    alone = sum(len({finding.rule for finding in findings(path)}) == 1 for path in BAD)
    assert alone >= len(BAD) * 0.6
