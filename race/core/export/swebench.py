"""Rows for SWE-bench 5: an image, a script that prints outcomes between marks, a parser's name."""

from __future__ import annotations

import shlex
from typing import Any

from race.core.export.facts import TaskFacts

WORKDIR = "/testbed"
LIMIT = 1740
"""Seconds that the script gives the tests: below the harness's own 1800, which kills by a wrong id."""


def image(task: TaskFacts) -> str:
    """The derived grading image: ours, with the work directory that the harness expects."""
    return task.test_image.removesuffix(".test") + ".swebench"


def agent_image(task: TaskFacts) -> str:
    """The derived image for agents: without hidden tests, with the same work directory."""
    return task.env_image.removesuffix(".env") + ".testbed"


def image_files(task: TaskFacts, base: str, user: str) -> dict[str, bytes]:
    """The build of a derived image on `base`, whose default user stays `user`."""
    dockerfile = (
        f"FROM {base}\nUSER root\nRUN ln -s {shlex.quote(task.workdir)} {WORKDIR}\n"
        f"WORKDIR {WORKDIR}\nUSER {user}\nSTOPSIGNAL SIGKILL\n"
    )
    return {"Dockerfile": dockerfile.encode()}


def eval_script(task: TaskFacts) -> str:
    """What the harness runs after it has applied a prediction: our grader, then one line per id."""
    return "\n".join(
        [
            "#!/bin/bash",
            "set -uxo pipefail",
            f"cd {shlex.quote(task.workdir)}",
            f"timeout -k 10 {LIMIT} {shlex.quote(task.run_tests)} > /tmp/race-grading.log 2>&1",
            ": '>>>>> Start Test Output'",
            f"python3 -I -S - <<'RACE_END'\n{_printer(task)}RACE_END",
            ": '>>>>> End Test Output'",
            "",
        ]
    )


def _printer(task: TaskFacts) -> str:
    ids = [*task.fail_to_pass, *task.pass_to_pass]
    return (
        "import json\n"
        "try:\n    tests = json.load(open('/tmp/report.json'))['tests']\n"
        "except (OSError, ValueError, KeyError):\n    tests = []\n"
        "outcomes = {test.get('nodeid'): test.get('outcome') for test in tests}\n"
        f"for nodeid in {ids!r}:\n"
        "    print('PASSED' if outcomes.get(nodeid) == 'passed' else 'FAILED', nodeid)\n"
    )


def row(task: TaskFacts) -> dict[str, Any]:
    """One row; the harness reads it from a local JSONL file.

    `image` is what it grades in and holds the hidden tests; agents are pointed to another image by the
    keys that they read.
    """
    return {
        "instance_id": task.instance_id,
        "repo": task.repo,
        "version": task.version or "0",
        "image": image(task),
        "image_name": agent_image(task),
        "docker_image": agent_image(task),
        "eval_script": eval_script(task),
        "log_parser": "parse_log_pytest_v2",
        "eval_type": "pass_and_fail",
        "FAIL_TO_PASS": list(task.fail_to_pass),
        "PASS_TO_PASS": list(task.pass_to_pass),
        "patch": task.patch,
        "test_patch": task.test_patch,
        "base_commit": task.base_commit,
        "environment_setup_commit": task.base_commit,
        "problem_statement": task.statement,
        "hints_text": "",
        "created_at": task.created_at,
        "canary": task.canary_line,
    } | ({"sample": True} if task.sample else {})
