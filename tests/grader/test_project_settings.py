"""What a project asks of pytest still means something when plugins of it are left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GRADER = Path(__file__).parents[2] / "images" / "grader"
DRIVER = """
import os, sys
sys.path.append(sys.argv[1])
import reporter, session
class Snapshot:
    size = [0, 0]
    def differences(self): return []
    def watch_tests(self, root): pass
order = {"root": os.getcwd(), "tell_imports": False, "ids": None, "ordered": False, "skipped": [],
         "deselected": [], "files": ["test_a.py"], "traceback": "short", "arguments": []}
channel = reporter.Channel(os.dup(1), "n")
with open(os.devnull, "w") as stacks:
    told = reporter.Reporter(order, channel, stacks, Snapshot())
    import pytest
    channel.end(pytest.main(session._arguments(order), plugins=[told]))
"""


def events(folder: Path, settings: str, test: str) -> list[dict[str, Any]]:
    """What the grader's plugin tells of a run in a small project with these settings."""
    (folder / "pytest.ini").write_text(f"[pytest]\n{settings}")
    (folder / "test_a.py").write_text(test)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, str(GRADER)],
        cwd=folder, env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    lines = [line.partition("n {")[2] for line in ran.stdout.splitlines() if "n {" in line]
    return [json.loads("{" + line) for line in lines]


@pytest.mark.parametrize(
    ("settings", "test"),
    [
        ("filterwarnings = error\njunit_family = xunit2\ncache_dir = .cache\nreruns = 2\n",
         "def test_a(record_property): record_property('size', 1)\n"),
        ("addopts = --strict-markers\n",
         "import pytest\n@pytest.mark.flaky(reruns=2)\n@pytest.mark.repeat(3)\ndef test_a(): pass\n"),
    ],
    ids=["settings", "markers"],
)  # fmt: skip
def test_what_left_out_plugins_declare_is_known_all_the_same(tmp_path, settings, test):
    """Their settings and markers are no reason to run nothing where a project is strict about them."""
    told = events(tmp_path, settings, test)
    outcomes = [event["outcome"] for event in told if event["event"] == "outcome"]
    assert (outcomes, told[-1]) == (["passed"], {"event": "end", "exit": 0})


def test_an_error_of_pytest_itself_is_told(tmp_path):
    """A setting that nothing declares, with warnings as errors, breaks the run off: the line says so."""
    told = events(tmp_path, "filterwarnings = error\nno_such_thing = 1\n", "def test_a(): pass\n")
    said = [event["message"] for event in told if event["event"] == "internal-error"]
    assert said == ["pytest.PytestConfigWarning: Unknown config option: no_such_thing"]
