"""What a model is asked to write a statement, and what counts as an answer. Pure text.

The prompt holds facts that were observed, the interface and the hidden tests; never a line of the fix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from race.core.records import Finding
from race.core.statement.symptoms import in_words
from race.core.statement.writer import Facts

_SYSTEM = """\
You write bug reports for software engineers who must repair a bug of concurrency or asynchronous code
without seeing the tests that will check their work. You are told what was observed. Write Markdown:
a first line that starts with "# " and names the problem, then the sections "## What goes wrong",
"## What is expected" and "## Interface".

Rules:
- Describe symptom, trigger and expected behaviour as a user of the library would see them.
- Never name, quote or hint at tests, their files, helpers or variables.
- Never say or guess where in the sources the cause is, what the cause is, or how to repair it.
- No links, issue numbers, hashes, versions, dates or people.
- Under "## Interface" repeat every given interface line exactly, one per bullet; nothing else new.
- Every observation must be covered. Be complete, plain and short. Output only the report.
"""

_TEST_BUDGET = 24_000


def writing_messages(facts: Facts, sources: Mapping[str, str]) -> list[dict[str, str]]:
    """The first question. `sources` are the hidden tests' functions by fail-to-pass id."""
    parts = [
        f"Project: {facts.project}",
        f"Kind of bug: {facts.kind or 'concurrency'}",
        "",
        "Observations:",
    ]
    for number, test in enumerate(sorted(facts.failures), 1):
        behaviour = facts.behaviours.get(test)
        parts.append(f"{number}. Observed: {in_words(facts.failures[test], quote=True)}.")
        if behaviour is not None:
            for label, values in (
                ("uses", behaviour.subjects[:6]),
                ("situation", behaviour.situation),
                ("expects to be raised", behaviour.raises),
                ("expects afterwards", behaviour.claims),
            ):
                if values:
                    parts.append(f"   {label}: {', '.join(values)}")
    parts += ["", "Interface lines:"]
    parts += [f"- {item.sentence()}" for item in facts.interface] or ["(nothing new)"]
    parts += ["", "Hidden tests, for your understanding only:", test_sources(sources)]
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": "\n".join(parts)}]


def revision_messages(
    messages: Sequence[Mapping[str, str]], draft: str, findings: Sequence[Finding]
) -> list[dict[str, str]]:
    """The question for the next round: the draft and what the auditor found in it."""
    problems = "\n".join(
        f"- [{finding.rule}] {finding.place + ': ' if finding.place else ''}{finding.message}"
        for finding in findings
    )
    return [
        *(dict(message) for message in messages),
        {"role": "assistant", "content": draft},
        {
            "role": "user",
            "content": "The report was checked and turned down for these reasons. Write it again, "
            f"whole, without these problems and without losing what was right:\n{problems}",
        },
    ]


def test_sources(sources: Mapping[str, str]) -> str:
    """Hidden tests numbered as the observations are, each once, up to a limit of text."""
    shown: list[str] = []
    known: dict[str, int] = {}
    room = _TEST_BUDGET
    for number, test in enumerate(sorted(sources), 1):
        text = sources[test]
        if text in known:
            shown.append(f"[{number}] as [{known[text]}], with other parameters")
            continue
        known[text] = number
        piece = text[:room]
        room -= len(piece)
        shown.append(f"[{number}]\n{piece}" if piece else f"[{number}] (left out)")
    return "\n".join(shown)


def read_statement(reply: str, *, cut_off: bool) -> tuple[str, str]:
    """(statement, '') of a usable answer, or ('', what is wrong with it)."""
    text = reply.strip()
    fence = re.fullmatch(r"```(?:markdown|md)?\s*\n(.*)\n```", text, re.DOTALL)
    if fence:
        text = fence[1].strip()
    if cut_off:
        return "", "the answer was cut off at the limit of tokens"
    if not text:
        return "", "the answer is empty"
    if not re.search(r"^# \S", text, re.MULTILINE):
        return "", "the answer is no report: it has no heading"
    if not text.startswith("# "):
        text = text[text.index("\n# ") + 1 :]
    if len(text.split()) < 20:
        return "", "the answer is no report: it is too short"
    return text + "\n", ""
