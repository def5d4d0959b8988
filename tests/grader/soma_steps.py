"""A SOMA validator's grading steps with the plain docker command, as its specification lists them."""

from __future__ import annotations

import json
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

APPLY = (
    "git apply --verbose --whitespace=nowarn /tmp/soma-agent.patch",
    "git apply --3way --whitespace=nowarn /tmp/soma-agent.patch",
    "patch --batch --fuzz=5 -p1 -i /tmp/soma-agent.patch",
)


def docker(
    *arguments: str, check: bool = True, timeout: float = 600
) -> subprocess.CompletedProcess[bytes]:
    """One docker command."""
    return subprocess.run(["docker", *arguments], check=check, capture_output=True, timeout=timeout)


def soma_grade(image: str, patch: bytes, listed: tuple[str, ...]) -> tuple[bool, dict[str, Any]]:
    """Is the patch resolved, and the report that said so (empty when none was needed)."""
    text = patch.decode(errors="replace")
    if not text.strip() or ("diff --git" not in text and "\n+++ " not in text):
        return False, {}
    name = f"race-tests-soma-{uuid.uuid4().hex[:12]}"
    docker(
        "run", "-d", "--name", name, "--network", "none", "--entrypoint", "sh", image, "-lc", "sleep 720"
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "soma-agent.patch"
            file.write_bytes(patch)
            docker("cp", str(file), f"{name}:/tmp/soma-agent.patch")
        inside = ("exec", "-w", "/repo", name, "sh", "-lc")
        docker(*inside, "git config --global --add safe.directory /repo")
        if not any(docker(*inside, command, check=False).returncode == 0 for command in APPLY):
            return False, {}
        docker(*inside, "/soma/run_tests.sh", check=False)
        report = json.loads(docker("exec", name, "cat", "/tmp/report.json").stdout)
    finally:
        docker("rm", "-f", name, check=False)
    passed = {test["nodeid"] for test in report["tests"] if test["outcome"] == "passed"}
    return all(nodeid in passed for nodeid in listed), report
