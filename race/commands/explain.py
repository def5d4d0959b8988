"""race explain: why a task was accepted or rejected, on one screen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from race.core.matrix import CELLS
from race.core.records import Mined
from race.core.reliability import VARIANTS
from race.core.standing import EXPLAIN
from race.core.text_table import percent
from race.core.validated import Validated
from race.errors import Missing
from race.options import json_option, print_json, release_argument, verbose_option, workbench
from race.store import Store, TaskFolder
from race.work.replaying import replay

LETTERS = {
    "passed": ".", "failed": "F", "error": "E", "hang": "H", "crashed": "C", "skipped": "s",
    "xfailed": "x", "xpassed": "X", "missing": "-", "unknown": "?",
}  # fmt: skip
ROWS = 12
WIDTH = 200


@click.command("explain")
@release_argument
@click.argument("instance_id", metavar="ID")
@click.option("--replay", "key", metavar="SIDE/VARIANT/INDEX", help="Run one recorded repeat again.")
@click.option("--times", type=click.IntRange(1, 1000), default=1, show_default=True, help="How often.")
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    release: Path,
    instance_id: str,
    key: str | None,
    times: int,
    as_json: bool,
    verbose: int,
) -> int:
    """Show one task's matrix, outcomes, times, bounds and environment on one screen.

    Bad outcomes of the repeats are listed with a command that runs the same repeat again.

    \b
    Examples:
      race explain tasks/sample sample__brook-7
      race explain tasks/sample sample__brook-7 --replay without/jitter/3 --times 20
    """
    store = Store(release)
    task = store.task(store.pick([instance_id])[0])
    record = task.read(Validated)
    if record is None:
        raise Missing(f"{instance_id} is not validated yet; run: race validate {release} {instance_id}")
    if key is not None:
        answer = replay(workbench(context), store, task, record, key, times)
        if as_json:
            print_json(answer)
        else:
            click.echo("\n".join(_replayed(answer)))
        return 0
    facts = explain(task, record, release)
    if as_json:
        print_json(facts)
    else:
        click.echo("\n".join(screen(facts, rows=10_000 if verbose else ROWS)))
    return 0


def explain(task: TaskFolder, record: Validated, release: Path) -> dict[str, Any]:
    """Everything that is known about a validation, as one document: record, ledger, evidence."""
    mined = task.read(Mined)
    noted = task.noted(record.stage)
    evidence = read_evidence(task, "matrix.json") if noted else {}
    repeats = noted.get("repeats", {})
    return {
        "instance_id": record.instance_id,
        "sample": record.sample,
        "title": mined.title if mined else "",
        "repo": mined.repo if mined else "",
        "accepted": record.accepted,
        "findings": [finding.model_dump() for finding in record.findings],
        "environment": record.environment.model_dump(mode="json") if record.environment else None,
        "suite": record.suite.model_dump() if record.suite else None,
        "fail_to_pass": list(record.fail_to_pass),
        "pass_to_pass": list(record.pass_to_pass),
        "dropped": [drop.model_dump() for drop in record.dropped],
        "regressions": list(record.regressions),
        "failures": {test: failure.model_dump() for test, failure in record.failures.items()},
        "reliability": record.reliability.model_dump() if record.reliability else None,
        "matrix": evidence.get("tests", {}),
        "cells": evidence.get("cells", {}),
        "excerpts": read_evidence(task, "excerpts.json") if noted else {},
        "repeats": repeats,
        "replay": [
            f"race explain {release} {record.instance_id} --replay {bad['key']}"
            for bad in repeats.get("bad_runs", [])
        ],
        "seconds": noted.get("seconds"),
        "ledger": bool(noted),
        "evidence": str(task.evidence_path("validate")),
    }


def read_evidence(task: TaskFolder, name: str) -> dict[str, Any]:
    """A JSON file of this task's validation in the ledger; empty when this machine has none."""
    try:
        value = json.loads(task.evidence_path(f"validate/{name}").read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def screen(facts: Mapping[str, Any], rows: int) -> list[str]:
    """The facts as lines for a terminal, at most `rows` tests of each list."""
    sample = " (sample)" if facts["sample"] else ""
    verdict = "accepted" if facts["accepted"] else "rejected"
    lines = [f"{facts['instance_id']}{sample}: {verdict}   {facts['repo']}: {facts['title']}"]
    for finding in facts["findings"]:
        place = " ".join(finding["place"].split())[:90]
        first = (finding["message"].strip().splitlines() or [""])[0]
        tail = f" [{place}]" if place else ""
        lines.append(f"  {finding['severity']}: {finding['rule']}: {first}{tail}"[:WIDTH])
    lines += _environment(facts)
    lines += _matrix(facts, rows)
    lines += _reliability(facts)
    if facts["ledger"]:
        lines.append(f"excerpts, stacks and output: {facts['evidence']}")
    else:
        lines.append("Times, outcomes per run and logs are on the machine that validated it.")
    return lines


def _environment(facts: Mapping[str, Any]) -> Iterable[str]:
    environment, suite = facts["environment"], facts["suite"]
    if environment:
        yield (
            f"environment  Python {environment['python']}, wanted {environment['python_wanted']}; "
            f"packages as of {environment['cutoff']}; {environment['project']} "
            f"{environment['version']} {environment['install']} by {environment['backend'] or 'nothing'}"
        )[:WIDTH]
        for rung in environment["rungs"]:
            yield f"  rung: {rung['name']}: {rung['what']}: {rung['why']}".replace("\n", " ")[:WIDTH]
        for override in environment["overrides"]:
            yield f"  release.toml: {override}"[:WIDTH]
    if suite:
        paths = " ".join(suite["paths"][:4]) + (" ..." if len(suite["paths"]) > 4 else "")
        yield f"suite        {suite['width']}: {paths} ({suite['why']})"
    for cell, runs in facts["cells"].items():
        ended = ", ".join(f"{run['ended']} {run['seconds']:.1f} s" for run in runs)
        yield f"  {cell:<12} {ended}"


def _matrix(facts: Mapping[str, Any], rows: int) -> Iterable[str]:
    counts = {
        name: len(facts[name]) for name in ("fail_to_pass", "pass_to_pass", "dropped", "regressions")
    }
    yield "tests        " + ", ".join(f"{count} {name}" for name, count in counts.items())
    if facts["matrix"]:
        yield (
            "             runs without|with, old tests then new: . passed  F failed  E error  H hang  "
            "C crashed  s skipped  x expected failure  - missing"
        )
    for name in ("fail_to_pass", "regressions"):
        for test_id in facts[name][:rows]:
            yield f"  {name}  {_runs(facts, test_id)}  {test_id}  {_why(facts, test_id)}"[:WIDTH]
        yield from _more(facts[name], rows)
    for drop in facts["dropped"][:rows]:
        why = drop["detail"] or EXPLAIN[drop["reason"]]
        yield f"  dropped  {_runs(facts, drop['id'])}  {drop['id']}  {drop['reason']}: {why}"[:WIDTH]
    yield from _more(facts["dropped"], rows)


def _why(facts: Mapping[str, Any], test_id: str) -> str:
    """One line on how a test fails: as recorded, else the first failure that this machine kept."""
    failure = facts["failures"].get(test_id)
    if failure is None:
        kept = facts["excerpts"].get(test_id, {})
        failure = kept.get("new-with") or kept.get("new-without") or {}
    parts = (failure.get("error_type"), failure.get("message") or failure.get("outcome"))
    text = ": ".join(part for part in parts if part).strip()
    return text.splitlines()[0] if text else ""


def _runs(facts: Mapping[str, Any], test_id: str) -> str:
    known = facts["matrix"].get(test_id)
    if not known:
        return ""
    marks = [
        "".join(LETTERS.get(word, "?") for word in known["outcomes"].get(cell, [])) for cell in CELLS
    ]
    seconds = known.get("seconds")
    tail = f" {seconds:.2f} s" if seconds is not None else ""
    return f"{marks[0]}|{marks[1]} {marks[2]}|{marks[3]}{tail}"


def _more(items: list[Any], rows: int) -> Iterable[str]:
    if len(items) > rows:
        yield f"  ... {len(items) - rows} more (-v shows all)"


def _reliability(facts: Mapping[str, Any]) -> Iterable[str]:
    bounds, repeats = facts["reliability"], facts["repeats"]
    if bounds:
        yield (
            f"reliability  {bounds['plain']} repeats each way, seed {bounds['seed']}: "
            f"empty passes at most {percent(bounds['empty_bound'])}, "
            f"fix fails at most {percent(bounds['gold_bound'])} "
            f"(limit {percent(bounds['limit'])}, confidence {percent(bounds['confidence'])})"
        )
        for name, count in bounds["perturbed"].items():
            fails = name in bounds["gold_fails_under"]
            word = "the fix fails under it: not counted" if fails else f"{count} each way"
            yield f"  {name:<16} {word} ({VARIANTS.get(name, '')})"
        if bounds["not_repeated"]:
            count = len(bounds["not_repeated"])
            yield f"  {count} of the tests hang without the fix or are too many: repeated with it only"
    for bad in repeats.get("bad_runs", [])[:ROWS]:
        words = ", ".join(f"{test} {word}" for test, word in list(bad["outcomes"].items())[:2])
        yield f"  bad: {bad['key']}: {words}"[:WIDTH]
    for line in facts["replay"][:3]:
        yield f"  see it again: {line}"
    if repeats.get("runs"):
        yield f"  {repeats['runs']} repeats took {repeats['seconds']:.0f} s"


def _replayed(answer: Mapping[str, Any]) -> list[str]:
    lines = [f"{answer['key']} (seed {answer['seed']}) run {len(answer['runs'])} times:"]
    for index, run in enumerate(answer["runs"]):
        words = ", ".join(f"{test}: {word}" for test, word in run.items())
        lines.append(f"  {index + 1}: {words}"[:300])
    lines.append(f"bad outcomes: {answer['bad']} of {len(answer['runs'])}")
    return lines
