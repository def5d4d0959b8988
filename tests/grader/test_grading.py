"""Grading in the test image, through race and through the steps of a SOMA validator."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from race.errors import BuildFailed, Rejection
from race.ports import ContainerSpec
from race.work.observing import CAPABILITIES
from race.work.test_image import TestImage, build_test
from race.workbench import Workbench

pytestmark = [pytest.mark.engine, pytest.mark.network]


def soma_grade(image: str, patch: bytes, listed: tuple[str, ...]) -> Any:
    """The SOMA steps, from the module beside this one."""
    path = Path(__file__).parent / "soma_steps.py"
    spec = importlib.util.spec_from_file_location("grader_soma_steps", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.soma_grade(image, patch, listed)


def test_the_reference_fix_is_resolved(bench: Workbench, counter_task: Any) -> None:
    """The reference fix gets its point, after runs alone and negative controls that all failed."""
    graded = counter_task.grade(bench.engine, counter_task.fix)
    assert graded.reasons == ()
    assert graded.verdict == "resolved"
    assert set(graded.fail_to_pass.values()) == set(graded.pass_to_pass.values()) == {"passed"}
    purposes = [check.purpose for check in graded.checks]
    real = purposes.index("all listed tests")
    assert set(purposes[:real]) <= {"negative controls among all"}
    assert purposes[real + 1 :].count("negative controls among all") == 1
    assert (purposes.count("alone"), purposes.count("together")) == (3, 1)
    controls = [check.tests for check in graded.checks if check.purpose == "negative controls"]
    own, helpers = 3 + 3 + 2, 3
    assert sum(controls) == own + helpers
    assert controls.count(1) >= 2 + helpers
    assert all(not check.passed for check in graded.checks if check.purpose == "negative controls")
    assert 0 < graded.pytest_seconds < graded.seconds


def test_nothing_is_unresolved(bench: Workbench, counter_task: Any) -> None:
    """An empty submission is unresolved without a container; asked to, the tests run and say why."""
    engine = bench.engine
    assert counter_task.grade(engine, b"").reasons == ("the submission is empty",)
    assert counter_task.grade(engine, b"I fixed it.").reasons == ("the submission is no unified diff",)
    graded = counter_task.grade(engine, b"\n", run_empty=True)
    assert graded.verdict == "unresolved"
    assert set(graded.fail_to_pass.values()) == {"failed"}
    assert set(graded.pass_to_pass.values()) == {"passed"}
    assert "is still failed" in graded.reasons[0]


def test_soma_gives_the_same_verdict(counter_task: Any) -> None:
    """The steps of a SOMA validator come to the same verdicts, with reports for all but nothing."""
    listed = (*counter_task.fail_to_pass, *counter_task.pass_to_pass)
    resolved, report = soma_grade(counter_task.image, counter_task.fix, listed)
    assert resolved
    assert report["race"]["verdict"] == "resolved"
    assert report["summary"] == {"passed": 7, "failed": 0, "total": 7}
    half = counter_task.fix.replace(b"+        self.value += amount", b"+        self.value = amount")
    resolved, report = soma_grade(counter_task.image, half, listed)
    assert not resolved
    assert report["race"]["verdict"] == "unresolved"
    assert soma_grade(counter_task.image, b"\n", listed) == (False, {})
    fuzzy = counter_task.fix.replace(b"         if self.closed:", b"         if self.is_closed:")
    assert fuzzy != counter_task.fix
    resolved, report = soma_grade(counter_task.image, fuzzy, listed)
    assert not resolved
    assert report["race"]["verdict"] == "refused"
    assert "does not apply exactly" in report["race"]["reasons"][0]


def test_an_image_needs_tests_that_fail(bench: Workbench, counter_task: Any) -> None:
    """No image is built for a task without fail-to-pass tests, or with an id in both lists."""
    wanted = TestImage("sample__x-1", "race-none", "", (), ("a::b",), b"", b"", "0")
    with pytest.raises(Rejection, match="no test fails"):
        build_test(bench.engine, wanted, "race-tests-grader:none", b"s")
    wanted = TestImage("sample__x-1", "race-none", "", ("a::b",), ("a::b",), b"", b"", "0")
    with pytest.raises(Rejection, match="in both lists"):
        build_test(bench.engine, wanted, "race-tests-grader:none", b"s")


def test_hidden_tests_have_to_apply(bench: Workbench, counter_task: Any, counter_image: Any) -> None:
    """No image is built with a test patch that does not fit the base; the build says which file."""
    patch = (Path(__file__).parent / "patches" / "test.patch").read_bytes()
    wrong = patch.replace(b" import pytest\n", b" import unittest\n", 1)
    assert wrong != patch
    listed, env = counter_task.fail_to_pass, counter_image("9")
    wanted = TestImage("sample__x-1", env, "", listed, (), wrong, counter_task.fix, "0")
    with pytest.raises(BuildFailed) as failed:
        build_test(bench.engine, wanted, "race-tests-grader:none", b"s")
    assert "tests/test_core.py" in failed.value.tail


def test_all_runs_of_a_grading_find_the_same_byte_code(bench: Workbench, counter_task: Any) -> None:
    """The project's files that the trial saw imported are compiled once; not those of hidden tests."""
    spec = ContainerSpec(image=counter_task.image, user="root", capabilities=CAPABILITIES)
    with bench.engine.container(spec) as container:
        container.put("/tmp", {"soma-agent.patch": counter_task.fix})
        container.run(["git", "apply", "/tmp/soma-agent.patch"], timeout=30, workdir="/repo")
        assert container.run(["/soma/run_tests.sh"], timeout=120, workdir="/repo").exit_code == 0
        found = container.run(
            ["find", "/repo", "-name", "*.pyc", "-user", "root", "-perm", "644"], timeout=30
        ).output.decode()
        assert json.loads(container.get("/tmp/report.json") or b"")["race"]["verdict"] == "resolved"
    names = {Path(line).name.partition(".")[0] for line in found.split()}
    assert {"core", "text", "conftest"} <= names
    assert "test_core" not in names
