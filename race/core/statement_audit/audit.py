"""All rules over one statement."""

from __future__ import annotations

from race.core.records import Finding
from race.core.statement_audit.case import Case
from race.core.statement_audit.disclosure import disclosure
from race.core.statement_audit.hidden import hidden
from race.core.statement_audit.references import references
from race.core.statement_audit.remedy import remedy
from race.core.statement_audit.substance import substance
from race.core.statement_audit.telling import telling

RULES: dict[str, str] = {
    "link": "no links",
    "number": "no issue or pull request numbers",
    "hash": "no hashes",
    "version": "no versions of the project",
    "date": "no dates",
    "person": "no people or addresses",
    "origin": "not a word about where the task comes from: commits, releases, tests",
    "test-name": "no names of hidden tests, their files or helpers",
    "test-code": "no code of the hidden tests",
    "fix-line": "no lines of the fix, added or removed, whole or in part",
    "fix-identifier": "no names that only the fix has, beyond the interface",
    "fix-place": "no files, lines or private names that the fix works on",
    "fix-prose": "no sentences or names of the fix's own description: pull request, changelog entry",
    "title": "not the title of the pull request",
    "remedy": "no advice on how to repair it",
    "cause": "no explanation of the cause inside the code",
    "hidden-text": "nothing that a person does not see",
    "encoded": "nothing encoded",
    "empty": "a report of a sensible length",
    "filler": "no filler, refusal or cut-off text",
    "expected": "says what should happen",
    "interface": "states everything of the interface",
    "coverage": "covers every fail-to-pass test: what it is about, and the symptom",
}


def audit(case: Case) -> list[Finding]:
    """Every finding, each once, in the order of the lines. No finding: the statement passes."""
    findings: dict[tuple[str, str, str], Finding] = {}
    for rule in (substance, references, disclosure, telling, remedy, hidden):
        for finding in rule(case):
            findings.setdefault((finding.rule, finding.place, finding.message), finding)
    order = list(RULES)

    def key(finding: Finding) -> tuple[int, int]:
        number = finding.place.removeprefix("line ")
        return (int(number) if number.isdigit() else 0, order.index(finding.rule))

    return sorted(findings.values(), key=key)
