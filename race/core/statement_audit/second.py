"""A second opinion by a model: is every hidden test covered, and by which sentence? Pure text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from race.core.interface.items import InterfaceItem
from race.core.records import Finding
from race.core.statement.prompt import test_sources
from race.core.statement.writer import Coverage

_SYSTEM = """\
You check bug reports. You get a report, an interface and numbered hidden tests. For every test decide
whether an engineer who has only the report would know that the behaviour which the test checks is
wanted. Answer with one JSON array and nothing else, one object per test, in order:
[{"test": 1, "covered": true, "sentence": "the sentence of the report that covers it, word for word"},
 {"test": 2, "covered": false, "sentence": "", "missing": "what the report does not say"}]
"""


def auditing_messages(
    statement: str, interface: Sequence[InterfaceItem], sources: Mapping[str, str]
) -> list[dict[str, str]]:
    """The question. It holds nothing of the fix."""
    lines = [f"- {item.sentence()}" for item in interface] or ["(nothing new)"]
    content = "\n".join(
        [
            "<report>",
            statement,
            "</report>",
            "",
            "Interface:",
            *lines,
            "",
            "Tests:",
            test_sources(sources),
        ]
    )
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": content}]


def read_opinion(
    reply: str, statement: str, tests: Sequence[str], *, cut_off: bool
) -> tuple[tuple[Coverage, ...], list[Finding], str]:
    """(coverage, findings, what is wrong with the answer).

    An answer that leaves tests out, or quotes what the statement does not say, is no answer.
    """
    if cut_off:
        return (), [], "the answer was cut off at the limit of tokens"
    found = re.search(r"\[.*\]", reply, re.DOTALL)
    try:
        rows = json.loads(found[0]) if found else None
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return (), [], "the answer is no JSON array of objects"
    by_number = {row.get("test"): row for row in rows}
    flat = _flat(statement)
    coverage: list[Coverage] = []
    findings: list[Finding] = []
    for number, test in enumerate(sorted(tests), 1):
        row = by_number.get(number)
        if row is None or not isinstance(row.get("covered"), bool):
            return (), [], f"the answer says nothing about test {number}"
        sentence = str(row.get("sentence") or "")
        if row["covered"]:
            if len(sentence.split()) < 3 or _flat(sentence) not in flat:
                return (), [], f"the sentence quoted for test {number} is not in the statement"
            coverage.append(Coverage(test=test, sentence=" ".join(sentence.split())))
        else:
            missing = " ".join(str(row.get("missing") or "the behaviour is not described").split())[:200]
            findings.append(Finding(rule="coverage", message=f"second opinion: {missing}", place=test))
    return tuple(coverage), findings, ""


def _flat(text: str) -> str:
    return " ".join(re.sub(r"[`*_]", "", text).lower().split())
