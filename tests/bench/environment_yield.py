"""How many real pull requests get an environment with no recipe written by hand, and why the others not.

    .venv/bin/python tests/bench/environment_yield.py ENTRIES --clones FOLDER [--output FILE]

ENTRIES is a JSON Lines file with `repo`, `pr`, `sha` and `base` (and `merged_at`); FOLDER holds clones
as `<owner>+<name>` or `<owner>/<name>`. Each entry is built from its tree at base, then the changed
tests run once without and once with the changed product files. The outcomes:

    discriminates   a test fails without the fix and passes with it
    no difference   the tests run, and none of them does
    not collected   nothing could be collected
    not built       no rung of the ladder held
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from race.core.outcomes import Observation, Plan
from race.core.paths import TEST_SIDE, Layout
from race.errors import Accident, Rejection
from race.ports import ContainerSpec, History, Limits
from race.settings import read_workspace
from race.store import Store
from race.work.base_images import ensure_base
from race.work.environments import Built, build_env
from race.work.observing import CAPABILITIES, observe
from race.workbench import Workbench

RELEASE = '[release]\nname = "yield"\ncanary = "00000000-0000-4000-8000-000000000000"\n'


@dataclass
class Row:
    """One line of the table. `added` is what the image holds above the base, in bytes."""

    repo: str
    pr: int
    commit: str
    outcome: str
    rungs: str = ""
    seconds: float = 0.0
    added: int = 0
    reason: str = ""


def clone_of(folder: Path, repo: str) -> Path | None:
    """The clone of a project below a folder, in any of the usual spellings."""
    owner, _, name = repo.partition("/")
    for path in (folder / f"{owner}+{name}" / "repo", folder / f"{owner}+{name}", folder / owner / name):
        if path.exists():
            return path
    return None


def changed(history: Any, entry: dict[str, Any]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Changed test files and changed product files, as they are with the fix."""
    before, after = history.tree_entries(entry["base"]), history.tree_entries(entry["sha"])
    layout = Layout(sorted(after))
    tests, product = {}, {}
    for path in sorted(after):
        if before.get(path) == after[path]:
            continue
        data = history.read(entry["sha"], path) or b""
        (tests if layout.kind(path) in TEST_SIDE else product)[path] = data
    return tests, product


def changed_tests(history: Any, entry: dict[str, Any], tests: dict[str, bytes]) -> list[str]:
    """Names of the test functions that are new or differ; empty when that cannot be told."""
    names: set[str] = set()
    for path, data in tests.items():
        if path.endswith(".py"):
            before = functions(history.read(entry["base"], path) or b"")
            names |= {name for name, text in functions(data).items() if before.get(name) != text}
    return sorted(names)


def functions(source: bytes) -> dict[str, str]:
    """Test functions of a file by name, as text."""
    try:
        nodes = ast.walk(ast.parse(source))
    except SyntaxError:
        return {}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: ast.dump(node) for node in nodes
            if isinstance(node, kinds) and node.name.startswith("test")}  # fmt: skip


def run(
    bench: Workbench, built: Built, files: list[str], names: list[str], *layers: dict[str, bytes]
) -> Observation:
    """The given test files in a fresh container of the image with these files put in.

    Only the tests of these names run, when there are any.
    """
    spec = ContainerSpec(image=built.image.id, capabilities=CAPABILITIES, limits=Limits(cpus=2.0))
    with bench.engine.container(spec) as container:
        for layer in layers:
            if layer:
                container.put("/repo", layer, uid=1000)
        arguments = [f"--deselect={path}" for path in built.environment.deselect]
        arguments += ["-k", " or ".join(names)] if names else []
        plan = Plan(
            files=tuple(files),
            arguments=tuple(arguments),
            environment=built.environment.environment,
            test_seconds=45,
            run_seconds=240,
        )
        return observe(container, plan)


def verdict(without: Observation, with_fix: Observation) -> tuple[str, str]:
    """The outcome of one entry and a line about it."""
    if not with_fix.tests:
        said = [f"{path}: {what.message}" for path, what in with_fix.uncollectable.items()]
        return "not collected", f"{with_fix.ended}; {'; '.join(said)}"[:200]
    good = [name for name, test in with_fix.tests.items() if test.outcome == "passed"]
    turned = [name for name in good if without.outcome(name) != "passed"]
    counts = Counter(test.outcome for test in with_fix.tests.values())
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    lost = "; ".join(f"{path}: {what.message}" for path, what in with_fix.uncollectable.items())
    note = f"with the fix {told}" + (f"; not collected: {lost[:120]}" if lost else "")
    return ("discriminates" if turned else "no difference"), f"{len(turned)} fail to pass; {note}"


def one(bench: Workbench, store: Store, history: History, entry: dict[str, Any], base: int) -> Row:
    """Build and try one entry."""
    row = Row(entry["repo"], entry["pr"], entry["sha"][:10], "")
    started = time.monotonic()
    tests, product = changed(history, entry)
    task = store.task(f"{entry['repo'].replace('/', '__')}-{entry['pr']}")
    say = (
        (lambda what: print(f"    {what}", file=sys.stderr))
        if os.environ.get("VERBOSE")
        else (lambda _: None)
    )
    try:
        built = build_env(
            bench, store, task, history.archive(entry["base"]), repo=entry["repo"],
            merged_at=entry["merged_at"], tests=tests, say=say,
        )  # fmt: skip
    except Rejection as error:
        row.outcome, row.reason = "not built", f"{error.message} {error.place[-200:]}".replace("\n", " ")
        row.seconds = time.monotonic() - started
        return row
    row.seconds = time.monotonic() - started
    row.rungs = ", ".join(f"{rung.name} ({rung.what[:40]})" for rung in built.environment.rungs)
    row.added = built.image.size - base
    files = [path for path in tests if path.endswith(".py")]
    names = changed_tests(history, entry, tests)
    without = run(bench, built, files, names, tests)
    with_fix = run(bench, built, files, names, tests, product)
    row.outcome, row.reason = verdict(without, with_fix)
    return row


def markdown(rows: list[Row], title: str) -> str:
    """The table, with the counts above it."""
    counts = Counter(row.outcome for row in rows)
    lines = [f"# {title}", "", f"{date.today()}, {len(rows)} entries: "
             + ", ".join(f"{counts[key]} {key}" for key in sorted(counts)) + ".", ""]  # fmt: skip
    lines += ["| project | PR | commit | outcome | rungs | seconds | MB added | reason |",
              "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        reason, rungs = (text.replace("|", "/").replace("\n", " ") for text in (row.reason, row.rungs))
        lines.append(
            f"| {row.repo} | {row.pr} | `{row.commit}` | {row.outcome} | {rungs} | "
            f"{row.seconds:.0f} | {row.added / 1e6:.0f} | {reason[:220]} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("entries", type=Path)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--title", default="Environments built without a recipe")
    parser.add_argument("--only", action="append", default=[], metavar="OWNER/NAME#PR")
    arguments = parser.parse_args()
    bench = Workbench(read_workspace(Path.cwd(), dict(os.environ)))
    bench.engine.sweep()
    base_image = bench.engine.image(ensure_base(bench, "3.11").runtime)
    base = base_image.size if base_image else 0
    folder = Path(tempfile.mkdtemp(prefix="race-yield-"))
    (folder / "release.toml").write_text(RELEASE)
    store, rows = Store(folder), list[Row]()
    for line in arguments.entries.read_text().splitlines():
        entry = json.loads(line)
        name = f"{entry['repo']}#{entry['pr']}"
        path = clone_of(arguments.clones, entry["repo"])
        if (arguments.only and name not in arguments.only) or path is None:
            continue
        try:
            row = one(bench, store, bench.clone(path, entry["repo"]), entry, base)
        except Accident as error:
            row = Row(entry["repo"], entry["pr"], entry["sha"][:10], "accident", reason=str(error))
        rows.append(row)
        print(f"{name} {row.outcome} {row.seconds:.0f}s [{row.rungs}] {row.reason[:300]}", flush=True)
    text = markdown(rows, arguments.title)
    if arguments.output:
        arguments.output.write_text(text)
    print(text)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
