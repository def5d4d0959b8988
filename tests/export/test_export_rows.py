"""Rows and folders as the neighbours read them."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from race.core.export import harbor, soma, swebench
from race.core.export.facts import TaskFacts

TASK = TaskFacts(
    instance_id="o__r-1",
    benchmark="race-small",
    repo="o/r",
    base_commit="0" * 40,
    created_at="2026-01-01T00:00:00Z",
    merged_at="2026-01-02T00:00:00Z",
    statement='It hangs\u2028when closed, says "Zoë".\n',
    patch="diff --git a/x b/x\n",
    test_patch="diff --git a/t b/t\n",
    fail_to_pass=("tests/test_x.py::test_a[1 - 'q']", "tests/test_x.py::test_b"),
    pass_to_pass=("tests/test_x.py::test_c",),
    env_image="race-small:o__r-1.env",
    test_image="race-small:o__r-1.test",
    workdir="/repo",
    run_tests="/soma/run_tests.sh",
    test_command="python -m pytest --json-report --json-report-file=/tmp/report.json tests/test_x.py",
    canary="5d0c8f0e-3a52-4b9e-9b43-6a1f2c7d8e90",
    repeats=4,
    fix_lines=3,
    complexity="short",
)


def test_a_soma_row_has_what_its_readers_need() -> None:
    """Keys, types and nesting of the task list, lists as lists."""
    row = soma.row(TASK)
    assert row["FAIL_TO_PASS"] == list(TASK.fail_to_pass)
    assert row["images"]["test"] == {
        "ref": TASK.test_image, "workdir": "/repo", "run_tests": "/soma/run_tests.sh",
    }  # fmt: skip
    assert row["images"]["env"] == {"ref": TASK.env_image, "workdir": "/repo"}
    assert row["complexity"] == "short"
    assert "swe-bench" not in row["benchmark_name"]
    assert TASK.canary in row["canary"]


def test_an_unmeasured_task_has_no_complexity_key() -> None:
    """Absent means unclassified; no other word is written."""
    assert "complexity" not in soma.row(replace(TASK, complexity=""))


def test_lists_are_sorted_and_the_same_every_time() -> None:
    """Order of tasks does not matter; one line per task for any reader of lines."""
    other = replace(TASK, instance_id="a__b-2")
    data = soma.lines(soma.row(t) for t in (TASK, other))
    assert data == soma.lines(soma.row(t) for t in (other, TASK))
    assert [json.loads(line)["instance_id"] for line in data.decode().splitlines()] == [
        "a__b-2",
        "o__r-1",
    ]
    assert json.loads(data.splitlines()[1])["problem_statement"] == TASK.statement


def test_the_grading_row_spells_out_the_overrides() -> None:
    """A validator needs nothing else."""
    row = soma.grading_row(TASK)
    assert row["report_path"] == "/tmp/report.json"
    assert set(row) == {
        "instance_id", "FAIL_TO_PASS", "PASS_TO_PASS", "test_image", "workdir", "run_tests",
        "report_path",
    }  # fmt: skip


def test_the_eval_script_prints_one_line_per_id(tmp_path: Path) -> None:
    """Run by bash with a report in place: marks, and an outcome for each id, odd characters kept."""
    task = replace(TASK, workdir=str(tmp_path), run_tests=str(tmp_path / "run.sh"))
    report = {"tests": [{"nodeid": task.fail_to_pass[0], "outcome": "passed"}]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    (tmp_path / "run.sh").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "run.sh").chmod(0o755)
    script = swebench.eval_script(task).replace("/tmp/report.json", str(tmp_path / "report.json"))
    script = script.replace("/tmp/race-grading.log", str(tmp_path / "log"))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        f"PASSED {task.fail_to_pass[0]}",
        f"FAILED {task.fail_to_pass[1]}",
        f"FAILED {task.pass_to_pass[0]}",
    ]
    assert ">>>>> Start Test Output" in done.stderr
    assert ">>>>> End Test Output" in done.stderr


def test_rows_point_agents_to_an_image_without_hidden_tests() -> None:
    """The image that is graded in is not the one that agents are pointed to."""
    row = swebench.row(TASK)
    assert row["image"] == "race-small:o__r-1.swebench"
    assert row["image_name"] == row["docker_image"] == "race-small:o__r-1.testbed"
    base = swebench.image_files(TASK, TASK.env_image, "agent")["Dockerfile"].decode()
    assert f"FROM {TASK.env_image}\n" in base
    assert "\nUSER agent\n" in base


def test_a_harbor_folder_parses_and_hides_the_tests() -> None:
    """task.toml is TOML with the schema's tables; no file of the agent's side holds a test id."""
    files = harbor.folder(replace(TASK, tier='od"d\\', complexity=""))
    settings = tomllib.loads(files["task.toml"].decode())
    assert settings["schema_version"] == "1.4"
    assert settings["environment"]["docker_image"] == TASK.env_image
    assert settings["verifier"]["environment"]["docker_image"] == "race-small:o__r-1.harbor"
    assert settings["metadata"]["difficulty"] == 'od"d\\'
    assert settings["agent"]["user"] == "agent"
    for folder, image in (("environment", TASK.env_image), ("tests", harbor.verifier_image(TASK))):
        written = files[f"{folder}/docker-compose.yaml"].decode()
        assert f'image: "{image}"' in written
        assert "network_mode: none" in written
    for name in ("instruction.md", "task.toml", "environment/docker-compose.yaml"):
        assert b"test_x" not in files[name]
    assert TASK.statement.encode() in files["instruction.md"]
    assert all(TASK.canary.encode() in files[n] for n in ("tests/test.sh", "solution/solve.sh"))


@pytest.mark.parametrize("name", ["tests/test.sh", "solution/solve.sh"])
def test_scripts_are_valid_shell(name: str) -> None:
    """A POSIX shell parses them."""
    script = harbor.folder(TASK)[name]
    assert subprocess.run(["sh", "-n"], input=script, check=False).returncode == 0
