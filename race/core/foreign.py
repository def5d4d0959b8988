"""Tasks that somebody else made: SOMA rows and SWE-bench rows, and what a grading of one says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from race.core.export.soma import report_path
from race.errors import Malformed

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) +(\S.*?)(?: - .*)?$")
SWEBENCH_PASSES = {"PASSED", "XFAIL"}


@dataclass(frozen=True)
class ForeignTask:
    """One row. `kind` says how it is graded; `eval_script` is for SWE-bench rows only."""

    instance_id: str
    kind: Literal["soma", "swebench"]
    image: str
    env_image: str
    workdir: str
    run_tests: str
    report: str
    eval_script: str
    log_parser: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


def read_rows(data: bytes, name: str) -> list[ForeignTask]:
    """The rows of a task list. Raises Malformed with file, line and what is wrong."""
    found: dict[str, ForeignTask] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            row = json.loads(line)
            json.dumps(row, ensure_ascii=False).encode()
        except RecursionError as error:
            raise Malformed(name, place, "not JSON: too deep") from error
        except UnicodeEncodeError as error:
            raise Malformed(name, place, "holds a half of a character (a lone surrogate)") from error
        except ValueError as error:
            raise Malformed(name, place, f"not JSON: {error}") from error
        if not isinstance(row, dict):
            raise Malformed(name, place, "not an object")
        task = _task(row, name, place)
        if task.instance_id in found:
            raise Malformed(name, place, f"a second row of {task.instance_id}")
        found[task.instance_id] = task
    if not found:
        raise Malformed(name, "", "no task in it")
    return list(found.values())


def _task(row: Mapping[str, Any], name: str, place: str) -> ForeignTask:
    instance_id = row.get("instance_id")
    if not isinstance(instance_id, str) or not instance_id.strip():
        raise Malformed(name, place, "instance_id is no text")
    images = row.get("images") if isinstance(row.get("images"), dict) else {}
    assert isinstance(images, dict)
    test = images.get("test") if isinstance(images.get("test"), dict) else {}
    env = images.get("env") if isinstance(images.get("env"), dict) else {}
    assert isinstance(test, dict)
    assert isinstance(env, dict)
    soma_image = row.get("test_image") or test.get("ref")
    swe_image = row.get("image") or row.get("image_name") or row.get("docker_image")
    agent_image = row.get("image_name") or row.get("docker_image") or swe_image
    if not soma_image and not swe_image:
        raise Malformed(name, place, f"{instance_id} names no image to grade in")
    if not soma_image and not row.get("eval_script"):
        raise Malformed(
            name, place, f"{instance_id} has an image, but neither run_tests nor eval_script"
        )
    return ForeignTask(
        instance_id=instance_id,
        kind="soma" if soma_image else "swebench",
        image=str(soma_image or swe_image),
        env_image=str(env.get("ref") or agent_image or soma_image),
        workdir=str(
            row.get("workdir") or test.get("workdir") or ("/repo" if soma_image else "/testbed")
        ),
        run_tests=str(row.get("run_tests") or test.get("run_tests") or "/soma/run_tests.sh"),
        report=str(row.get("report_path") or report_path(str(row.get("test_command") or ""))),
        eval_script=str(row.get("eval_script") or ""),
        log_parser=str(row.get("log_parser") or ""),
        patch=str(row.get("patch") or ""),
        test_patch=str(row.get("test_patch") or ""),
        fail_to_pass=_ids(row, "FAIL_TO_PASS", name, place),
        pass_to_pass=_ids(row, "PASS_TO_PASS", name, place),
    )


def _ids(row: Mapping[str, Any], key: str, name: str, place: str) -> tuple[str, ...]:
    value = row.get(key, [])
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Malformed(name, f"{place}.{key}", "a text that is no JSON list") from error
    if not isinstance(value, list) or not all(isinstance(i, str) and i for i in value):
        raise Malformed(name, f"{place}.{key}", "not a list of test ids")
    return tuple(value)


def report_outcomes(data: bytes) -> dict[str, str] | None:
    """Outcomes by id of a pytest-json-report; None when it is none."""
    try:
        report = json.loads(data)
        return {str(test["nodeid"]): str(test["outcome"]) for test in report["tests"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def log_outcomes(output: bytes) -> dict[str, str] | None:
    """Outcomes by id of what a SWE-bench script printed between its marks; None without them."""
    text = output.decode("utf-8", "replace")
    start, end = text.find(START), text.rfind(END)
    if start < 0 or end < start:
        return None
    found: dict[str, str] = {}
    for line in text[start:end].splitlines():
        match = _OUTCOME.match(line.strip())
        if match:
            passed = match.group(1) in SWEBENCH_PASSES
            found[match.group(2)] = "passed" if passed else match.group(1).lower()
    return found


def resolved(task: ForeignTask, outcomes: Mapping[str, str]) -> bool:
    """Whether every listed id passed; SWE-bench lets a skipped pass-to-pass id count."""
    good = {"passed"} | ({"skipped"} if task.kind == "swebench" else set())
    return all(outcomes.get(i) == "passed" for i in task.fail_to_pass) and all(
        outcomes.get(i) in good for i in task.pass_to_pass
    )
