"""What grading costs beside plain pytest: seconds of wall and processor time, on a task of one second.

    .venv/bin/python tests/bench/grading_cost.py [--rounds 5] [--swebench PYTHON] [--task RELEASE ID]

Builds the counter task's images with a test that takes a second, or takes a sealed task. Prints, for
each round: plain pytest in the same container, and the plain grading that it is a part of (start a
container, apply fix and tests, run pytest, remove it); the whole grading by race; what it adds to the
plain one; and what of that its further test processes are. With --swebench, the Python of an
environment that holds swebench 5.0.2 grades the same fix on the same image by its own route for local
images, and the last line is how many times faster race is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from race.core.records import Mined, digest
from race.core.sealed import Sealed
from race.core.text_table import text_table
from race.ports import ContainerSpec, Limits
from race.settings import read_workspace
from race.store import Store
from race.work.base_images import ensure_base
from race.work.grading import grade
from race.work.listed import listed_tests
from race.work.observing import CAPABILITIES
from race.work.test_image import TestImage, build_test
from race.workbench import Workbench

HERE = Path(__file__).resolve().parent.parent / "grader"
SLOW = b"""diff --git a/tests/test_slow.py b/tests/test_slow.py
new file mode 100644
--- /dev/null
+++ b/tests/test_slow.py
@@ -0,0 +1,5 @@
+import asyncio
+
+
+async def test_takes_a_second() -> None:
+    await asyncio.sleep(1)
"""
FAIL_TO_PASS = (
    "tests/test_core.py::test_adds_are_not_lost",
    "tests/test_core.py::test_close_wakes_all",
    "tests/test_core.py::test_adds_in_a_loop_of_its_own",
)
PASS_TO_PASS = (
    "tests/test_core.py::test_add_returns_the_value",
    "tests/test_slow.py::test_takes_a_second",
    "tests/test_text.py::test_describe",
)
COMPILED = "ln -s /repo /testbed && python3 -m compileall -q /opt/venv/lib"
"""Byte-code lies beside the packages, as in every env image that race builds."""
APPLY = "cd /repo && git apply /tmp/all.patch"
PYTEST = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x")
FILES = "tests/test_core.py tests/test_slow.py tests/test_text.py"
EVAL = """#!/bin/bash
set -uxo pipefail
cd /testbed
git apply -v - <<'RACE_EOF'
{patch}
RACE_EOF
: '>>>>> Start Test Output'
/opt/venv/bin/python -m pytest -rA -o addopts= {files}
: '>>>>> End Test Output'
"""


@dataclass(frozen=True)
class Measured:
    """What is measured: two images of a task, its patches and lists."""

    instance_id: str
    env: str
    test: str
    fix_patch: bytes
    test_patch: bytes
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def listed(self) -> list[str]:
        """All tests."""
        return [*self.fail_to_pass, *self.pass_to_pass]


def sealed(release: str, instance_id: str) -> Measured:
    """A task of a release on this machine."""
    task = Store(Path(release)).task(instance_id)
    mined, found, lists = task.read(Mined), task.read(Sealed), listed_tests(task)
    assert mined is not None
    assert mined.fix_patch is not None
    assert mined.test_patch is not None
    assert found is not None
    assert found.test_image is not None
    return Measured(
        instance_id, found.test_image.ref.removesuffix(".test") + ".env", found.test_image.ref,
        task.read_file(mined.fix_patch), task.read_file(mined.test_patch), tuple(lists.fail_to_pass),
        tuple(lists.pass_to_pass),
    )  # fmt: skip


def build(bench: Workbench) -> Measured:
    """The env and the test image of the counter task with a slow test."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("grader_conftest", HERE / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    shared = module_from_spec(spec)
    sys.modules[spec.name] = shared
    spec.loader.exec_module(shared)
    env, recipe = "race-tests-grader:bench.env", digest([shared.DOCKERFILE, COMPILED, 3])
    found = bench.engine.image(env)
    if found is None or found.labels.get("race.recipe") != recipe:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", folder, "--only-binary",
                 ":all:", "--python-version", "3.11", shared.PYTESTS["9"], "pytest-asyncio"],
                check=True,
            )  # fmt: skip
            base = ensure_base(bench, "3.11").runtime
            dockerfile = shared.DOCKERFILE.format(base=base).replace(
                "USER agent", f"RUN {COMPILED}\nUSER agent"
            )
            context = {"Dockerfile": dockerfile.encode()}
            context |= shared._files(Path(folder), "site") | shared._files(HERE / "counter", "repo")
            bench.engine.build(context, tag=env, labels={"race.recipe": recipe})
    fix = (HERE / "patches" / "fix.patch").read_bytes()
    test = (HERE / "patches" / "test.patch").read_bytes() + SLOW
    wanted = TestImage("sample__counter-2", env, recipe, FAIL_TO_PASS, PASS_TO_PASS, test, fix, "0")
    build_test(bench.engine, wanted, "race-tests-grader:bench.test", b"bench")
    image = "race-tests-grader:bench.test"
    return Measured("sample__counter-2", env, image, fix, test, FAIL_TO_PASS, PASS_TO_PASS)


def plain_pytest(bench: Workbench, task: Measured) -> tuple[float, float]:
    """Seconds of plain pytest for the same tests in the same kind of container; of all with it."""
    spec = ContainerSpec(
        image=task.env, user="root", capabilities=CAPABILITIES, limits=Limits(4096, 2.0, 1024)
    )
    began = time.monotonic()
    with bench.engine.container(spec) as container:
        container.put("/tmp", {"all.patch": task.fix_patch + task.test_patch})
        container.run(["sh", "-c", APPLY], timeout=60, user="root")
        done = container.run([*PYTEST, *task.listed], timeout=120, user="root", workdir="/repo")
    assert done.exit_code == 0, done.output.decode()
    return done.seconds, time.monotonic() - began


def round_of(bench: Workbench, task: Measured) -> dict[str, float]:
    """One round: every figure once."""
    plain, plain_grading = plain_pytest(bench, task)
    began = time.monotonic()
    graded = grade(
        bench.engine,
        task.test,
        task.fix_patch,
        instance_id=task.instance_id,
        fail_to_pass=task.fail_to_pass,
        pass_to_pass=task.pass_to_pass,
    )
    whole = time.monotonic() - began
    assert graded.resolved, graded.reasons
    listed = next(check.seconds for check in graded.checks if check.purpose == "all listed tests")
    return {
        "plain pytest": plain,
        "plain grading": plain_grading,
        "listed tests, in the grader": listed,
        "further test processes": graded.pytest_seconds - listed,
        "whole grading": whole,
        "added to the plain grading": whole - plain_grading,
    }


def swebench(python: str, env: str, instance: str = "sample__counter-2") -> float:
    """Seconds that swebench takes for the same fix on the same image."""
    fix = (HERE / "patches" / "fix.patch").read_text()
    test = ((HERE / "patches" / "test.patch").read_bytes() + SLOW).decode()
    row = {
        "instance_id": instance,
        "repo": "sample/counter",
        "version": "1",
        "image": env,
        "eval_script": EVAL.format(patch=test, files=FILES),
        "log_parser": "parse_log_pytest_v2",
        "eval_type": "pass_and_fail",
        "FAIL_TO_PASS": list(FAIL_TO_PASS),
        "PASS_TO_PASS": list(PASS_TO_PASS),
        "patch": fix,
        "base_commit": "HEAD",
        "test_patch": test,
        "problem_statement": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ds.json").write_text(json.dumps([row]))
        script = Path(python).parent / "swebench"
        if not script.exists():
            raise SystemExit(f"{script} is not there")
        command = [str(script), "eval", "ds.json", "--gold", "--run-id", "cost", "-j", "1"]
        began = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        spent = time.monotonic() - began
        results = list(Path(folder).glob("*.json"))
        said = " ".join(path.read_text() for path in results if path.name != "ds.json")
        if '"resolved_ids": [' not in said or instance not in said:
            print(done.stdout.decode()[-2000:], done.stderr.decode()[-2000:], said[-500:])
    return spent


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--swebench", default="")
    parser.add_argument("--task", nargs=2, metavar=("RELEASE", "ID"), default=())
    asked = parser.parse_args(arguments)
    bench = Workbench(read_workspace(Path.cwd(), dict(os.environ)))
    task = sealed(*asked.task) if asked.task else build(bench)
    rounds = [round_of(bench, task) for _ in range(asked.rounds)]
    rows = [
        [name, f"{statistics.median(values):.2f}", f"{min(values):.2f}", f"{max(values):.2f}"]
        for name in rounds[0]
        for values in [[entry[name] for entry in rounds]]
    ]
    if asked.swebench:
        spent = [swebench(asked.swebench, task.env) for _ in range(min(3, asked.rounds))]
        figures = (statistics.median(spent), min(spent), max(spent))
        rows.append(["swebench, whole grading", *(f"{value:.2f}" for value in figures)])
        ours = statistics.median(entry["whole grading"] for entry in rounds)
        rows.append(["times faster than swebench", f"{figures[0] / ours:.1f}", "", ""])
    added, plain = (statistics.median(entry[name] for entry in rounds)
                    for name in ("added to the plain grading", "plain grading"))  # fmt: skip
    rows.append(["added, of the plain grading", f"{100 * added / plain:.0f} %", "", ""])
    load = os.getloadavg()[0]
    print(f"{asked.rounds} rounds, {os.cpu_count()} cores, load {load:.1f}, seconds\n")
    print("\n".join(text_table(["what", "median", "least", "most"], rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
