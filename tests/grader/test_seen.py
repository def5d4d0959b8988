"""What is made of a test process that ended before its run was over."""

from __future__ import annotations

import importlib
import signal
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from race.ports import ContainerSpec, Limits
from race.workbench import Workbench

FOLDER = Path(__file__).parent.parent.parent / "images" / "grader"
KILLED, LEFT = int(signal.SIGKILL), 3 << 8


@pytest.fixture(scope="module")
def grader() -> Any:
    """The grader's modules, imported as the grader does it."""
    sys.path.insert(0, str(FOLDER))
    try:
        names = ("seen", "cage", "grade", "submission", "supervise")
        return types.SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))


def closed(grader: Any, **how: Any) -> Any:
    """What a run of one process showed that was gone between tests, unless told otherwise."""
    facts = {"garbled": 0, "ended": False, "reason": "gone", "place": ("between", ""), "left": LEFT,
             "memory_kills": 0, **how}  # fmt: skip
    seen = grader.seen.Seen([], None)
    seen.close(types.SimpleNamespace(how="crashed", attempts=[types.SimpleNamespace(**facts)]))
    return seen


@pytest.mark.parametrize(
    ("reason", "place", "doubted"),
    [
        ("gone", ("between", ""), True),
        ("gone", ("test", "tests/test_a.py::test_b"), False),
        ("enough", ("between", ""), False),
        ("run-limit", ("between", ""), False),
    ],
)
def test_a_run_that_does_not_say_its_end_is_doubted(
    grader: Any, reason: str, place: tuple[str, str], doubted: bool
) -> None:
    """A process that is gone between tests without a last event is doubted; an ended one is not."""
    assert bool(closed(grader, reason=reason, place=place).doubts) is doubted


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, ["left its process with exit status 3", "code of the submission did that"]),
        ({"left": None}, ["closed its channel", "code of the submission did that"]),
        ({"left": KILLED}, ["SIGKILL", "or something outside", "did not run out of memory"]),
        ({"left": KILLED, "memory_kills": None}, ["SIGKILL", "cannot be read here"]),
        ({"left": int(signal.SIGSEGV)}, ["SIGSEGV", "code of the submission did that"]),
    ],
)
def test_what_is_known_of_an_end_is_said(grader: Any, how: dict[str, Any], words: list[str]) -> None:
    """The reason names signal or status, and whether memory can be the cause."""
    seen = closed(grader, **how)
    assert len(seen.doubts) == 1
    assert all(word in seen.doubts[0] for word in words)
    assert not seen.starved


@pytest.mark.parametrize("how", [{"left": KILLED, "memory_kills": 2}, {"reason": "memory-limit"}])
def test_want_of_memory_is_no_doubt(grader: Any, how: dict[str, Any]) -> None:
    """What the kernel or the limit ended for its memory is told as that, and casts no doubt."""
    seen = closed(grader, **how)
    assert (seen.doubts, len(seen.starved), seen.cut) == ([], 1, True)
    assert "memory" in seen.starved[0]


def test_memory_of_a_process_that_went_on(grader: Any) -> None:
    """A run that came to its end although the kernel ended some child of it is not cut."""
    seen = grader.seen.Seen([], None)
    whole = types.SimpleNamespace(garbled=0, ended=True, reason="gone", memory_kills=1, selected=None,
                                  hurried=[], reported=5, status=5 << 8, done=[], collect_errors=0,
                                  place=("between", ""))  # fmt: skip
    seen.close(types.SimpleNamespace(how="finished", attempts=[whole]))
    assert (seen.doubts, seen.cut, len(seen.starved)) == ([], False, 1)


class Cut:
    """A grading of one test whose later runs show what they are told to."""

    def __init__(self, grader: Any, later: Any) -> None:
        self.task = {"fail_to_pass": ["t.py::test_one"], "pass_to_pass": []}
        self.trial: dict[str, Any] = {}
        self.nonce, self.seconds, self.checks = "1", {"t.py::test_one": 0.1}, [{"how": "finished"}]
        self._later = later

    def content(self, paths: set[str]) -> dict[str, bytes]:
        return {}

    def sources(self) -> dict[str, bytes]:
        return {"t.py": b"def test_one():\n    assert 1 == 1\n"}

    def place(self, variants: object = None) -> dict[str, bytes]:
        return {}

    def run(self, *_: object, **__: object) -> Any:
        return self._later


IDS = ["t.py::test_a", "t.py::test_a[1 2]", "t.py::test_b", "t.py::test_c", "t.py::test_d"]


def test_what_kept_all_tests_from_running_is_the_reason(grader: Any) -> None:
    """When a conftest cannot be imported, each missing test quotes the error that pytest printed."""
    seen = grader.seen.Seen(IDS, None)
    seen.take({"event": "ended", "output": "ImportError while loading conftest\nE   KeyError: 'x'\n\n"})
    seen.close(types.SimpleNamespace(how="crashed", attempts=[]))
    task = {"fail_to_pass": IDS[:1], "pass_to_pass": []}
    assert grader.seen.why_not(task, seen, IDS) == [f"{IDS[0]} is still missing: KeyError: 'x'"]


def test_tests_that_were_not_run_for_want_of_time_are_counted(grader: Any) -> None:
    """A run that is ended at its limit says so, and how many tests were left."""
    seen = grader.seen.Seen(IDS, None)
    seen.outcomes["t.py::test_a"] = "hang"
    seen.close(types.SimpleNamespace(how="run-limit", attempts=[]))
    reasons = grader.seen.why_not({"fail_to_pass": IDS[:1], "pass_to_pass": []}, seen, IDS[:1])
    assert reasons == [
        "t.py::test_a is still hang",
        "the run was ended at its limit of time: 4 tests were not run",
    ]


def test_what_is_said_of_many_tests_is_said_of_three(grader: Any) -> None:
    """Reasons that differ in the test's id alone are joined, also for ids that begin another."""
    reasons = [f"{name} still passes" for name in IDS] + [
        "a file was changed",
        f"{IDS[0]}: two outcomes",
    ]
    assert grader.seen.joined(reasons, IDS) == [
        *reasons[:3], "and the same of 2 more tests", "a file was changed", f"{IDS[0]}: two outcomes",
    ]  # fmt: skip


@pytest.mark.parametrize(("outcome", "short"), [("crashed", True), ("passed", False)])
def test_a_test_alone_without_memory_is_not_tampered_with(
    grader: Any, monkeypatch: pytest.MonkeyPatch, outcome: str, short: bool
) -> None:
    """A test that fails alone for want of memory casts no doubt; one that passes needs no excuse."""
    seen = grader.seen.Seen(["t.py::test_one"], None)
    seen.outcomes["t.py::test_one"] = outcome
    seen.starved.append("the test process used more memory than its limit, and was ended")
    monkeypatch.setattr(grader.grade, "secret", lambda: b"s")
    checks = grader.grade.Checks(Cut(grader, seen))
    checks.alone([("t.py", ("test_one",))])
    assert (checks.doubts, bool(checks.starved)) == ([], short)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 7\noom 3\noom_kill 3\noom_group_kill 0\n", 3),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1),
        ("oom_kill_disable 0\nunder_oom 0\n", None),
        ("", None),
    ],
)
def test_both_versions_of_control_groups_are_read(
    grader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, count: int | None
) -> None:
    """The kernel's count of processes ended for memory is read where it is told; else it is unknown."""
    (tmp_path / "events").write_text(text)
    monkeypatch.setattr(grader.cage, "MEMORY_EVENTS", (str(tmp_path / "none"), str(tmp_path / "events")))
    assert grader.cage.memory_kills() == count


HUNGRY = """
import os, sys
sys.path.insert(0, "/repo")
import cage
before = cage.memory_kills()
child = os.fork()
if child == 0:
    kept = [bytearray(2**20) for _ in range(400)]
    os._exit(0)
status = os.waitpid(child, 0)[1]
print(os.WTERMSIG(status), cage.memory_kills() - before)
"""


@pytest.mark.engine
def test_the_kernel_tells_of_want_of_memory(
    bench: Workbench, counter_image: Callable[[str], str]
) -> None:
    """In a container with little memory, the end of a greedy process is counted."""
    spec = ContainerSpec(image=counter_image("9"), limits=Limits(memory_mb=64, pids=64), lifetime=60)
    opened: AbstractContextManager[Any] = bench.engine.container(spec)
    with opened as container:
        container.put("/repo", {"cage.py": (FOLDER / "cage.py").read_bytes()})
        result = container.run(["python3", "-c", HUNGRY], timeout=30)
    assert result.output.split() == [b"9", b"1"]
