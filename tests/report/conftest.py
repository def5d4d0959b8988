"""A release folder written by hand: every state a task can be in, private ones among them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from race.cli import run
from race.core.records import Finding, Mined, StageRecord
from race.core.reliability import Reliability
from race.core.sealed import FragmentCounts, ImageRecipe, LeakFinding, ProbeResult, Sealed
from race.core.specified import Specified
from race.core.standing import Dropped
from race.core.tiered import AgentTier, Tiered
from race.core.validated import Validated
from race.core.verified import Correction, RunVerdict, Verified
from race.store import Store, TaskFolder
from race.work.stage import stage_named

RELEASE = """
[release]
name = "winter"
version = "2"
canary = "5d0c8f0e-3a52-4b9e-9b43-6a1f2c7d8e90"
sample = {sample}
private = ["acme__hidden-9", "acme__hidden-10"]

[report]
baseline = "scripted/steady"
cutoffs = {{ "vendor/one" = 2025-06-01, "vendor/two" = 2026-03-01 }}
"""
NUMBERS = range(1, 9)


def mined(instance_id: str, number: int, **more: object) -> Mined:
    """A candidate whose date and size vary with its number."""
    values: dict[str, object] = {
        "instance_id": instance_id,
        "accepted": True,
        "repo": "acme/hidden" if "hidden" in instance_id else "acme/flow",
        "pr": number,
        "title": f"Fix lost update <{number}>",
        "merged_at": f"{2025 + number % 2}-0{1 + number % 8}-03T10:00:00Z",
        "authored_at": "2025-01-01T00:00:00Z",
        "base_commit": "a" * 40,
        "merge_commit": "b" * 40,
        "merge_style": "merge",
        "licence": "MIT",
        "kind": ("race", "deadlock")[number % 2],
        "fix_lines": 5 * number * number,
    }
    return Mined.model_validate(values | more)


def write(store: Store, task: TaskFolder, record: StageRecord) -> None:
    """Write a record with the inputs that its stage would find, so that it is current."""
    task.write(record)
    if record.stage != "mine":
        inputs = stage_named(record.stage).inputs(task, store)
        task.write(record.model_copy(update={"inputs": inputs}))


def ship(store: Store, instance_id: str, number: int, *, tier: str = "split") -> None:
    """All six records of a task that ships."""
    task = store.task(instance_id)
    write(store, task, mined(instance_id, number))
    write(store, task, Validated(
        instance_id=instance_id, accepted=True, runs=3, fail_to_pass=("t.py::test_secret_name",),
        pass_to_pass=("t.py::a", "t.py::b"), dropped=(Dropped(id="t.py::c", reason="flaky"),),
        reliability=Reliability(limit=0.05, seed=1, plain=59, empty_bound=0.0495, gold_bound=0.0495,
                                perturbed={"jitter": 20}),
    ))  # fmt: skip
    statement = task.write_file(
        "statement.md", b"Two writers lose an update.\n<script>alert(1)</script>\n"
    )
    write(store, task, Specified(instance_id=instance_id, accepted=True, statement=statement))
    found = LeakFinding(path="/etc/leak", layer=2, what="a line of the fix", excerpt="SECRET-EXCERPT")
    probes = (
        ProbeResult(name="one-commit", title="One commit", group="git", passed=True),
        ProbeResult(name="fix-copies", title="No copy of the fix", group="fix",
                    passed=number != 2, findings=(found,) if number == 2 else ()),
        ProbeResult(name="live", title="No network", group="live", passed=False, checked=False,
                    why="no engine"),
    )  # fmt: skip
    write(store, task, Sealed(
        instance_id=instance_id, accepted=True, probes=probes, not_checked=("live",),
        env_image=ImageRecipe(ref=f"race-winter:{instance_id}.env", recipe="0" * 64),
        fragments=FragmentCounts(fix=4, tests=9, names=1, common_lines=0, shortest_leak_lines=2),
    ))  # fmt: skip
    agent = AgentTier(agent="scripted/half", model="", scripted=True, attempts=4, resolved=2, low=0.1,
                      high=0.9, steps=5, weighted_tokens=100, ended={"submitted": 4})  # fmt: skip
    write(store, task, Tiered(instance_id=instance_id, accepted=True, tier=tier, complexity="short",
                              attempts=4, resolved=2, scripted=True, agents=(agent,)))  # fmt: skip
    corrections = (
        (Correction(rule="ids", what="an id as pytest spells it", before=("a",), after=("b",)),)
        if number == 3
        else ()
    )
    runs = tuple(RunVerdict(run_id=f"g{i}", verdict="resolved") for i in range(3))
    nothing = tuple(RunVerdict(run_id=f"e{i}", verdict="unresolved") for i in range(3))
    write(store, task, Verified(
        instance_id=instance_id, accepted=True, fail_to_pass=("t.py::test_secret_name",),
        pass_to_pass=("t.py::a",), corrections=corrections, gold=runs, empty=nothing, collected=3,
    ))  # fmt: skip


def reject(store: Store, instance_id: str, number: int) -> None:
    """A task that validation turns down."""
    task = store.task(instance_id)
    write(store, task, mined(instance_id, number))
    finding = Finding(rule="no-fail-to-pass", message=f"no test fails without the fix of {instance_id}")
    write(store, task, Validated(instance_id=instance_id, accepted=False, findings=(finding,), runs=3))


def runs(release: Path) -> list[dict[str, object]]:
    """Attempts of four agents on everything that ships; deterministic."""
    rows = []
    for number in (*NUMBERS, 9, 10):
        name = (
            "acme__hidden-10"
            if number == 10
            else "acme__hidden-9"
            if number == 9
            else f"acme__flow-{number}"
        )
        for index, (agent, model) in enumerate(
            (
                ("scripted/steady", None),
                ("scripted/half", None),
                ("mini", "vendor/one"),
                ("mini", "vendor/two"),
            )
        ):
            for attempt in range(3):
                resolved = (number * 7 + attempt * 5 + index * 3) % 10 < 3 + 2 * index
                rows.append({
                    "instance_id": name, "agent": agent, "model": model, "attempt": attempt,
                    "resolved": resolved, "input_tokens": 1000 * number, "cached_input_tokens": None,
                    "output_tokens": 50 * (index + 1), "cost_usd": 0.01 * number, "steps": 4 + number,
                    "seconds": 3.5, "ended": "submitted" if attempt else "step_limit",
                    "started_at": "2026-10-01T00:00:00Z",
                })  # fmt: skip
    return rows


def make(folder: Path, *, sample: bool = False, with_runs: bool = True, later: bool = True) -> Path:
    """A release folder: eight tasks ship and a private one, two are rejected, one of them private, one
    waits."""
    folder.mkdir()
    (folder / "release.toml").write_text(RELEASE.format(sample=str(sample).lower()))
    store = Store(folder)
    for number in NUMBERS:
        name = f"acme__flow-{number}"
        if later:
            ship(store, name, number)
        else:
            write(store, store.task(name), mined(name, number))
    if later:
        ship(store, "acme__hidden-9", 9)
        reject(store, "acme__hidden-10", 1)
        reject(store, "acme__flow-20", 2)
        store.task("acme__flow-21").write(mined("acme__flow-21", 3))
    finding = {"rule": "no-tests", "message": "changes no test", "severity": "error"}
    row = {"instance_id": "acme__flow-77", "pr": 77, "title": "Tidy", "findings": [finding]}
    (folder / "rejected.jsonl").write_text(json.dumps(row) + "\n")
    if with_runs:
        (folder / "local").mkdir(exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in runs(folder))
        (folder / "local" / "runs.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="session")
def whole_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole release, written once; not to be changed."""
    return make(tmp_path_factory.mktemp("release") / "winter")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, whole_release: Path) -> Path:
    """The site of the whole release."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    assert run(["report", str(whole_release), "--output", str(folder)]) == 0
    return folder


@pytest.fixture
def release(tmp_path: Path, whole_release: Path) -> Path:
    """A copy of the whole release that a test may change."""
    return Path(shutil.copytree(whole_release, tmp_path / "winter"))


@pytest.fixture
def mined_release(tmp_path: Path) -> Path:
    """A release that was mined and no more, without runs."""
    return make(tmp_path / "winter", with_runs=False, later=False)
