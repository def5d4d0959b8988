"""`race validate` on projects and machines that are not as they should be: one clear line each.

What is wrong with the project is a recorded rejection, what is wrong with this machine or its index
leaves the task pending, and neither is ever taken for the other.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from race.cli import run
from race.core.records import Mined
from race.errors import Accident
from race.ports import Engine
from race.store import Store

pytestmark = pytest.mark.engine

RELEASE = """\
[release]
name = "badinput"
canary = "00000000-0000-4000-8000-000000000000"
[validate]
runs = 1
[validate.reliability]
limit = 0.6
repeats = 4
perturb = false
"""
PROJECT = '[project]\nname = "thing"\nversion = "1"\nrequires-python = ">=3.9"\n'
BROKEN = "WHOLE = False\n"
TEST = "import thing\n\ndef test_whole():\n    assert thing.WHOLE\n"


def git(folder: Path, *words: str) -> bytes:
    """What git says in a folder."""
    person = ("-c", "user.name=Sample", "-c", "user.email=sample@example.invalid")
    return subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True).stdout


@dataclass
class Case:
    """A release with one mined task of a project, and what became of validating it."""

    store: Store
    clone: Path

    @property
    def task(self) -> Path:
        return self.store.folder / "sample__thing-1"

    def validate(self, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
        """Exit code and everything that was said."""
        code = run(["validate", str(self.store.folder), "sample__thing-1"])
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return code, said.out + said.err

    def rejected(self) -> dict[str, str]:
        """The findings of the record, which must be a rejection: rule -> message."""
        record = json.loads((self.task / "validate.json").read_text())
        assert record["accepted"] is False
        return {finding["rule"]: finding["message"] for finding in record["findings"]}


@pytest.fixture
def case(tmp_path: Path, engine: Engine) -> Iterator[Callable[..., Case]]:
    """Makes a release of a project with these files, whose bug one test shows."""

    def make(files: dict[str, str], tests: dict[str, str] | None = None, release: str = "") -> Case:
        clone, folder = tmp_path / "thing", tmp_path / "release"
        folder.mkdir()
        (folder / "release.toml").write_text(RELEASE + release)
        git(tmp_path, "init", "-q", "-b", "main", str(clone))
        commits = []
        for more in (
            {"thing.py": BROKEN, **files},
            {"thing.py": "WHOLE = True\n"},
            tests or {"tests/test_thing.py": TEST},
        ):
            for name, text in more.items():
                (clone / name).parent.mkdir(exist_ok=True)
                (clone / name).write_text(text)
            git(clone, "add", "-A")
            git(clone, "commit", "-qm", "step")
            commits.append(git(clone, "rev-parse", "HEAD").decode().strip())
        store = Store(folder)
        store.write_local("clones.json", {"sample/thing": str(clone)})
        task = store.task("sample__thing-1")
        fix, test = (git(clone, "diff", *commits[i : i + 2], "--full-index") for i in (0, 1))
        task.write(
            Mined(
                instance_id=task.id, accepted=True, repo="sample/thing", pr=1, title="Fix",
                licence="MIT",
                merged_at="2025-06-01T12:00:00Z", authored_at="2025-06-01T12:00:00Z",
                base_commit=commits[0], merge_commit=commits[-1], merge_style="squash",
                fix_patch=task.write_file("fix.patch", fix),
                test_patch=task.write_file("test.patch", test),
            )
        )  # fmt: skip
        return Case(store, clone)

    yield make
    engine.remove_image("race-badinput:sample__thing-1.env")


@pytest.fixture
def own_index(index: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An index on this machine that has a `pytest` and little else, asked by race with a fresh cache."""
    for name in ("pytest", "setuptools"):
        index.add(name, "8.0")
    monkeypatch.setenv("RACE_INDEX_URL", index.url)
    monkeypatch.setenv("RACE_CACHE", str(tmp_path / "cache"))
    return index


def test_requirements_that_contradict_each_other(
    case: Callable[..., Case], own_index: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rejection with the resolver's words; both sides are named."""
    made = case({"pyproject.toml": PROJECT + 'dependencies = ["alpha<1.5", "beta", "alpha>1.5"]\n'})
    code, said = made.validate(capsys)
    assert (code, list(made.rejected())) == (0, ["unresolvable"])
    assert "alpha" in made.rejected()["unresolvable"]
    assert "rejected" in said


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"pyproject.toml": PROJECT + '[dependency-groups]\ntest = [{include-group = "a"}]\n'
          'a = [{include-group = "test"}]\n'}, "test -> a -> test"),
        ({"pyproject.toml": PROJECT, "requirements-test.txt": "pytest\n-r requirements-dev.txt\n",
          "requirements-dev.txt": "-r requirements-test.txt\n"}, "requirements-"),
        ({"pyproject.toml": PROJECT + "[project\n"}, "pyproject.toml"),
    ],
    ids=["groups", "files", "not-toml"],
)  # fmt: skip
def test_requirements_that_lead_back_to_themselves(
    case: Callable[..., Case],
    own_index: Any,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    words: str,
) -> None:
    """Groups or files in a cycle, and a project file that does not parse, are rejections by name."""
    made = case(files)
    assert made.validate(capsys)[0] == 0
    assert words in made.rejected()["malformed-project"]


def test_extras_that_lead_back_to_themselves_are_no_cycle(
    case: Callable[..., Case], own_index: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`all` and `test` that name each other mean the sum of both, and are resolved."""
    extras = '[project.optional-dependencies]\nall = ["thing[test]", "delta"]\ntest = ["thing[all]"]\n'
    made = case({"pyproject.toml": PROJECT + extras})
    own_index.add("delta", "1.0")
    own_index.tampered = True  # ends the test before anything is built
    code, said = made.validate(capsys)
    assert code == 4, said
    assert "the index sent bytes" in said, "it was resolved"


def test_a_resolver_without_network(
    case: Callable[..., Case], own_index: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The index does not answer: one line, exit 4, no record; the task stays pending."""
    made = case({"pyproject.toml": PROJECT})
    own_index.close()
    code, said = made.validate(capsys)
    assert code == 4
    assert "the package index does not answer" in said
    assert "1 pending" in said
    assert not (made.task / "validate.json").exists()


def test_a_file_whose_hash_differs(
    case: Callable[..., Case], own_index: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The index sends other bytes than it lists: named, exit 4, no record, nothing of it installed."""
    made = case({"pyproject.toml": PROJECT})
    own_index.tampered = True
    code, said = made.validate(capsys)
    assert code == 4
    assert "the index sent bytes with sha256" in said
    assert not (made.task / "validate.json").exists()


def test_a_python_that_has_no_base_image(
    case: Callable[..., Case], own_index: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wish in release.toml that this machine cannot meet is about us, not about the task."""
    wish = '[projects."sample/thing"]\npython = "3.5"\n'
    made = case({"pyproject.toml": PROJECT}, release=wish)
    code, said = made.validate(capsys)
    assert code == 3
    assert "release.toml asks for Python 3.5; there are 3.11" in said
    assert not (made.task / "validate.json").exists()


def test_a_project_for_another_python(
    case: Callable[..., Case], own_index: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """requires-python that none of ours meets is about the task, and names what it wanted."""
    made = case({"pyproject.toml": PROJECT.replace(">=3.9", "<3.9")})
    assert made.validate(capsys)[0] == 0
    assert "<3.9 allows none of the Pythons here" in made.rejected()["unresolvable"]


@pytest.mark.parametrize(
    "line", ["FROM race-tests-none:x", "FROM {base}\nCOPY --from=race-tests-none:x / /"]
)
def test_a_base_image_that_is_gone(engine: Engine, base: str, line: str) -> None:
    """An image that a build starts or copies from is ours to bring: an accident, not a failed build."""
    with pytest.raises(Accident, match="race-tests-none:x is not on this engine"):
        engine.build({"Dockerfile": line.format(base=base).encode()}, tag="race-tests-none:made")


BAD_TESTS = {
    "tests/test_thing.py": TEST,
    "tests/test_online.py": "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=2)\n"
    "def test_online(): pass\n",
    "tests/test_module.py": "import thing_that_nobody_wrote_yet\ndef test_module(): pass\n",
    "tests/test_machine.py": """
import locale, os, subprocess, sys, tempfile
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo
def test_locale_of_containers():
    assert locale.setlocale(locale.LC_ALL, "C.UTF-8") and sys.getfilesystemencoding() == "utf-8"
def test_time_zones():
    there = datetime(2025, 7, 1, tzinfo=ZoneInfo("America/New_York"))
    assert there.utcoffset().total_seconds() == -14400
def test_terminal(): os.open("/dev/tty", os.O_RDWR)
def test_outside(): Path("/outside").write_text("x")
def test_beside(): Path(__file__).write_text("x")
def test_temporary(): assert tempfile.mkdtemp()
def test_leaves_children():
    for _ in range(5):
        subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(999)"])
def test_finds_no_children():
    asleep = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            asleep += b"sleep(999)" in Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            pass
    assert asleep <= 5  # those of this run, of no run before it
""",
}


@pytest.mark.network
def test_what_tests_want_of_the_machine_is_told(
    case: Callable[..., Case], capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that cannot be collected are named with the reason, in the record and by `explain`; tests
    that want what a sandbox refuses are dropped, and none of it changes what the bug's test shows."""
    made = case(
        {"pyproject.toml": PROJECT + '[dependency-groups]\ntest = ["pytest"]\n'}, tests=BAD_TESTS
    )
    code, said = made.validate(capsys)
    assert code == 0, said
    record = json.loads((made.task / "validate.json").read_text())
    assert record["accepted"] is True, record["findings"]
    assert record["fail_to_pass"] == ["tests/test_thing.py::test_whole"]
    machine = "tests/test_machine.py::test_"
    assert {name.removeprefix(machine) for name in record["pass_to_pass"]} == {
        "locale_of_containers", "time_zones", "temporary", "leaves_children", "finds_no_children"
    }  # fmt: skip
    assert {drop["id"].removeprefix(machine) for drop in record["dropped"]} == {
        "terminal", "outside", "beside"
    }  # fmt: skip
    lost = {one["place"]: one["message"] for one in record["findings"] if one["rule"] == "not-collected"}
    assert "unreachable" in lost["tests/test_online.py"]
    assert "No module named 'thing_that_nobody_wrote_yet'" in lost["tests/test_module.py"]
    assert run(["explain", str(made.store.folder), "sample__thing-1"]) == 0
    shown = capsys.readouterr().out
    assert "tests/test_online.py" in shown
    assert "thing_that_nobody_wrote_yet" in shown
