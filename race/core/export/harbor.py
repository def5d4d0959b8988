"""Harbor task folders (schema 1.4): the agent's image, and a verifier image with our grader."""

from __future__ import annotations

import json
import shlex

from race.core.export.facts import TaskFacts

PATCH = "/logs/artifacts/model.patch"
AGENT = "agent"
"""The unprivileged user of the agent's image."""


def compose(image: str) -> bytes:
    """No network, for engines where Harbor's own no-network mode cannot be had."""
    return f"""\
# No network, for engines where Harbor's own no-network mode cannot be had.
services:
  main:
    image: {_text(image)}
    network_mode: none
    init: true
    stop_grace_period: 1s
""".encode()


def verifier_image(task: TaskFacts) -> str:
    """The derived image: the grading image with Harbor's entry point."""
    return task.test_image.removesuffix(".test") + ".harbor"


def image_files(task: TaskFacts) -> dict[str, bytes]:
    """The derived image's build."""
    dockerfile = (
        f"FROM {task.test_image}\nUSER root\nCOPY test.sh /tests/test.sh\n"
        "RUN chmod 755 /tests /tests/test.sh\nSTOPSIGNAL SIGKILL\n"
    )
    return {"Dockerfile": dockerfile.encode(), "test.sh": test_script(task)}


def test_script(task: TaskFacts) -> bytes:
    """Apply the submission as a SOMA validator does, grade, and write the reward."""
    listed = json.dumps([*task.fail_to_pass, *task.pass_to_pass])
    return f"""\
#!/bin/sh
# {task.canary_line}
reward() {{
  mkdir -p /logs/verifier
  printf '{{"reward": %s}}\\n' "$1" > /logs/verifier/reward.json
  exit 0
}}
cd {shlex.quote(task.workdir)} || reward 0
test -s {PATCH} || reward 0
cp {PATCH} /tmp/soma-agent.patch
git config --global --add safe.directory {shlex.quote(task.workdir)}
git apply --verbose --whitespace=nowarn /tmp/soma-agent.patch ||
  git apply --3way --whitespace=nowarn /tmp/soma-agent.patch ||
  patch --batch --fuzz=5 -p1 -i /tmp/soma-agent.patch || reward 0
sh -lc {shlex.quote(task.run_tests)}
python3 -I -S - <<'RACE_END' && reward 1
import json, sys
try:
    tests = json.load(open("/tmp/report.json"))["tests"]
except (OSError, ValueError, KeyError):
    sys.exit(1)
passed = {{test.get("nodeid") for test in tests if test.get("outcome") == "passed"}}
sys.exit(not all(nodeid in passed for nodeid in json.loads({json.dumps(listed)})))
RACE_END
reward 0
""".encode()


def folder(task: TaskFacts) -> dict[str, bytes]:
    """The files of one task's folder."""
    name = "race/" + task.instance_id.lower()
    collect = (
        f"mkdir -p /logs/artifacts; cd {shlex.quote(task.workdir)}; git add -A; "
        f"git diff --binary --cached HEAD > {PATCH}"
    )
    about = f"{task.repo}: a concurrency bug to be fixed" + (" (sample)" if task.sample else "")
    toml = f"""\
# {task.canary_line}
schema_version = "1.4"
artifacts = [{_text(PATCH)}]

[task]
name = {_text(name)}
description = {_text(about)}

[metadata]
instance_id = {_text(task.instance_id)}
difficulty = {_text(task.tier or "unknown")}
complexity = {_text(task.complexity or "unclassified")}
merged_at = {_text(task.merged_at)}

[agent]
timeout_sec = 7200.0
user = {_text(AGENT)}

[environment]
docker_image = {_text(task.env_image)}
workdir = {_text(task.workdir)}
cpus = 2
memory_mb = 4096

[verifier]
timeout_sec = 1800.0
environment_mode = "separate"

[verifier.environment]
docker_image = {_text(verifier_image(task))}
workdir = {_text(task.workdir)}
cpus = 2
memory_mb = 4096

[[verifier.collect]]
command = {_text(collect)}
timeout_sec = 60.0
"""
    solve = f"""\
#!/bin/sh
# {task.canary_line}
cd {shlex.quote(task.workdir)} && git apply --whitespace=nowarn /solution/fix.patch
"""
    return {
        "task.toml": toml.encode(),
        "instruction.md": f"<!-- {task.canary_line} -->\n{task.statement}".encode(),
        "environment/docker-compose.yaml": compose(task.env_image),
        "tests/docker-compose.yaml": compose(verifier_image(task)),
        "tests/test.sh": test_script(task),
        "solution/solve.sh": solve.encode(),
        "solution/fix.patch": task.patch.encode(),
    }


def _text(value: str) -> str:
    """A TOML string; JSON's escapes are TOML's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
