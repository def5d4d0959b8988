"""Observing test runs in real containers, with projects that do their worst."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from race.core.outcomes import EventReader, Observation, Plan
from race.ports import Container
from race.work.observing import GRADER, LAUNCH, grader_files, observe, observe_many

pytestmark = [pytest.mark.engine, pytest.mark.network]
LIMIT = 3.0
"""Seconds that no test here needs, even on a machine that is busy with other things."""
Opener = Callable[..., AbstractContextManager[Container]]
CORE = [
    "tests/test_core.py::test_add_returns_the_value",
    "tests/test_core.py::test_closed_counter_refuses",
    "tests/test_core.py::test_wait_on_closed",
    "tests/test_core.py::TestStart::test_start[0]",
    "tests/test_core.py::TestStart::test_start[7]",
    "tests/test_core.py::TestStart::test_start[-1]",
]


def outcomes(seen: Observation) -> dict[str, str]:
    """Short names of ids with their outcomes."""
    return {name.rpartition("::")[2]: test.outcome for name, test in seen.tests.items()}


@pytest.mark.parametrize("version", ["7", "8", "9"])
def test_every_pytest_tells_the_same(open_container: Opener, version: str) -> None:
    """Outcomes, phases, errors and messages come out alike from pytest 7, 8 and 9."""
    kinds = """
import asyncio, pytest, unittest

@pytest.fixture
def bad():
    raise LookupError("no fixture today")

@pytest.fixture
def late():
    yield
    raise OSError("cannot put away")

def test_pass(): pass
def test_fail(): assert 1 + 1 == 3
def test_raise(): raise ValueError("because")
def test_long(): raise ValueError("a" * 3000 + "the end")
def test_setup(bad): pass
def test_teardown(late): pass
@pytest.mark.skip(reason="not today")
def test_skip(): pass
@pytest.mark.xfail
def test_xfail(): assert False
@pytest.mark.xfail
def test_xpass(): pass
@pytest.mark.xfail(strict=True)
def test_strict(): pass
def test_group(): raise ExceptionGroup("many", [KeyError("inner")])
def test_localhost():
    async def listen():
        (await asyncio.start_server(print, "localhost", 0)).close()
    asyncio.run(listen())
class TestUnit(unittest.TestCase):
    def test_sub(self):
        for n in (1, 2):
            with self.subTest(n=n):
                self.assertEqual(n, 1)
"""
    with open_container(version, {"tests/test_kinds.py": kinds}) as container:
        seen = observe(container, Plan())
    assert seen.ended == "finished"
    assert seen.processes == 1
    assert seen.pytest.startswith(version)
    assert [name for name in seen.tests if "test_core" in name] == CORE
    found = outcomes(seen)
    assert {name: found[name] for name in found if f"def {name}(" in kinds} == {
        "test_pass": "passed",
        "test_fail": "failed",
        "test_raise": "failed",
        "test_long": "failed",
        "test_setup": "error",
        "test_teardown": "error",
        "test_skip": "skipped",
        "test_xfail": "xfailed",
        "test_xpass": "xpassed",
        "test_strict": "failed",
        "test_group": "failed",
        "test_localhost": "passed",
        "test_sub": "failed",
    }
    assert "test_left_out" not in found
    of = {name.rpartition("::")[2]: test for name, test in seen.tests.items()}
    assert (of["test_raise"].error, of["test_raise"].message) == ("ValueError", "because")
    assert of["test_long"].message.endswith("the end")
    assert of["test_fail"].error == "AssertionError"
    assert "assert (1 + 1) == 3" in of["test_fail"].message
    assert (of["test_setup"].phase, of["test_teardown"].phase) == ("setup", "teardown")
    assert "KeyError" in of["test_group"].message


HANGS = """
import asyncio, os, signal, subprocess, sys, threading, time
import pytest

kept = []

def test_before(): pass

async def test_async_deadlock():
    lock = asyncio.Lock()
    async def holder_of_lock():
        async with lock:
            await asyncio.Event().wait()
    task = asyncio.create_task(holder_of_lock())
    await asyncio.sleep(0)
    async with lock:
        pass

def test_between(): pass

def test_thread_deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

@pytest.fixture
def stuck():
    yield
    threading.Event().wait()

def test_stuck_teardown(stuck): pass

def test_ignores_signals():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        sum(range(10**9))

def test_children():
    kept.append(subprocess.Popen(["sleep", "1000"]))
    kept.append(subprocess.Popen(["setsid", "sleep", "1000"]))
    if os.fork() == 0:
        time.sleep(1000)
    threading.Thread(target=lambda: time.sleep(1000)).start()

def test_after(): pass
"""


MANY_HANGS = """
import pytest, threading

@pytest.mark.parametrize("number", range(4))
def test_one(number):
    if number:
        threading.Event().wait()
"""


def test_after_a_hang_the_others_get_less(open_container: Opener) -> None:
    """Once a test hung, others have the limits given for that, and the whole run its own."""
    ids = [f"tests/test_many.py::test_one[{n}]" for n in range(4)]
    plan = Plan(ids=ids, test_seconds=2, run_seconds=60).as_json()
    hung = {"hung_seconds": {ids[2]: 0.5}, "hung_run_seconds": 1.5}
    files = {f"{GRADER[1:]}/{name}": data for name, data in grader_files().items()}
    files[f"{GRADER[1:]}/request.json"] = json.dumps({"runs": [{**plan, **hung}]}).encode()
    reader = EventReader()
    with open_container("9", {"tests/test_many.py": MANY_HANGS}) as container:
        container.put("/", files, mode=0o600)
        result = container.run(["sh", "-c", LAUNCH], timeout=30, user="root", workdir="/")
    assert list(reader.feed(result.output))
    seen = reader.observation(0)
    assert seen.ended == "run-limit"
    assert [seen.tests[name].outcome for name in ids] == ["passed", "hang", "hang", "hang"]
    assert "at its limit of 2 s" in seen.tests[ids[1]].message
    assert "at its limit of 0.5 s" in seen.tests[ids[2]].message
    assert "1.5 s after a test had hung" in seen.tests[ids[3]].message


def test_a_hang_costs_its_own_limit(open_container: Opener) -> None:
    """Hangs of every kind are named, with the place where they stood, and the rest still runs."""
    with open_container("9", {"tests/test_hangs.py": HANGS}) as container:
        started = time.monotonic()
        seen = observe(container, Plan(files=["tests/test_hangs.py"], test_seconds=LIMIT))
        spent = time.monotonic() - started
        left = container.run(["sh", "-c", "ps -e -o user,comm | grep -c tester || true"], timeout=10)
        traces = container.run(["sh", "-c", "ls -A /tmp /dev/shm | grep -v :"], timeout=10)
    assert seen.ended == "finished"
    assert outcomes(seen) == {
        "test_before": "passed",
        "test_async_deadlock": "hang",
        "test_between": "passed",
        "test_thread_deadlock": "hang",
        "test_stuck_teardown": "hang",
        "test_ignores_signals": "hang",
        "test_children": "passed",
        "test_after": "passed",
    }
    assert spent < 4 * LIMIT + 30
    of = {name.rpartition("::")[2]: test for name, test in seen.tests.items()}
    assert "in test_async_deadlock" in of["test_async_deadlock"].stacks
    assert "in holder_of_lock" in of["test_async_deadlock"].stacks
    assert "in test_thread_deadlock" in of["test_thread_deadlock"].stacks
    assert of["test_stuck_teardown"].phase == "teardown"
    assert left.output.strip() == b"0"
    assert traces.output.strip() == b""


def test_a_lost_process_costs_one_test(open_container: Opener) -> None:
    """os._exit, signals, pytest.exit, interrupts and broken imports take one test or file each."""
    files = {
        "tests/test_a.py": """
import ctypes, os, signal, sys, pytest
def test_one(): pass
def test_exit(): os._exit(0)
def test_two(): pass
def test_crash(): ctypes.string_at(0)
def test_quit(): pytest.exit("enough", returncode=0)
def test_interrupt(): raise KeyboardInterrupt
def test_system_exit(): sys.exit(0)
def test_three(): pass
""",
        "tests/test_b.py": "import os\nos._exit(0)\n",
        "tests/test_c.py": "import threading\nthreading.Event().wait()\n",
        "tests/test_d.py": "import nothing_of_that_name\n",
        "tests/test_e.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    }
    with open_container("9", files) as container:
        seen = observe(container, Plan(test_seconds=2 * LIMIT))
    found = outcomes(seen)
    assert seen.ended == "finished"
    assert {name: found[name] for name in found if name in files["tests/test_a.py"]} == {
        "test_one": "passed",
        "test_exit": "crashed",
        "test_two": "passed",
        "test_crash": "crashed",
        "test_quit": "crashed",
        "test_interrupt": "crashed",
        "test_system_exit": "failed",
        "test_three": "passed",
    }
    assert found["test_describe"] == "passed"
    assert "exit status 0" in seen.uncollectable["tests/test_b.py"].message
    assert "did not end" in seen.uncollectable["tests/test_c.py"].message
    assert "in <module>" in seen.uncollectable["tests/test_c.py"].stacks
    assert "nothing_of_that_name" in seen.uncollectable["tests/test_d.py"].message
    assert seen.uncollectable["tests/test_e.py"].skipped
    assert "SIGSEGV" in seen.tests["tests/test_a.py::test_crash"].message


FLOODS = """
import os, sys, time
def test_gigabyte():
    block = b"x" * 2**20
    for _ in range(1024):
        os.write(1, block)
def test_big_file():
    with open("/tmp/big", "wb") as stream:
        for _ in range(3 * 1024):
            stream.write(b"x" * 2**20)
def test_after(): pass
"""


BOMB = """
import os
def test_fork_bomb():
    while True:
        try:
            os.fork()
        except OSError:
            pass
def test_after(): pass
"""


def test_floods_are_contained(open_container: Opener) -> None:
    """A gigabyte of output, a fork bomb and a huge file neither stop the run nor outlive it."""
    files = {"tests/test_floods.py": FLOODS, "tests/test_bomb.py": BOMB}
    with open_container("9", files) as container:
        plan = Plan(files=["tests/test_floods.py"], test_seconds=60.0, output_bytes=1000)
        seen = observe(container, plan)
        bomb = observe(container, Plan(files=["tests/test_bomb.py"], test_seconds=LIMIT))
        left = container.run(["sh", "-c", "ps -e -o user,comm | grep -c tester || true"], timeout=10)
    found = outcomes(seen)
    assert found["test_gigabyte"] == "passed"
    assert bomb.tests["tests/test_bomb.py::test_fork_bomb"].outcome == "hang"
    assert bomb.tests["tests/test_bomb.py::test_after"].outcome == "passed"
    assert found["test_big_file"] == "failed"
    assert found["test_after"] == "passed"
    assert seen.output_bytes >= 2**30
    assert len(seen.output) <= 1000
    assert left.output.strip() == b"0"


def test_limits_of_a_whole_run(open_container: Opener) -> None:
    """At the run's limit the test that was running is named and what came before is kept."""
    slow = "import time\n" + "".join(f"def test_{n}(): time.sleep(0.6)\n" for n in range(9))
    with open_container("9", {"tests/test_slow.py": slow}) as container:
        seen = observe(container, Plan(files=["tests/test_slow.py"], run_seconds=2.0))
    assert seen.ended == "run-limit"
    assert outcomes(seen)["test_0"] == "passed"
    assert list(outcomes(seen).values())[-1] == "hang"
    assert "in test_" in seen.stacks


def test_repeats_share_nothing(open_container: Opener) -> None:
    """Many runs in one container each get a fresh process, user, floor and the asked hash seed."""
    state = """
import os, pathlib, sys
def test_state():
    for place in (pathlib.Path("/tmp/left"), pathlib.Path("left"), pathlib.Path.home() / "left"):
        assert not place.exists()
        place.write_text("x")
def test_seed():
    print("seed", hash("race"), file=sys.stderr)
    assert "PYTEST_CURRENT_TEST" not in os.environ and sys.argv == ["pytest"]
    assert os.environ.get("MODE") == "on"
"""
    name = "tests/test_state.py"
    plans = [
        Plan(files=[name], environment={"PYTHONHASHSEED": seed, "MODE": "on"})
        for seed in ("1", "1", "2")
    ]
    more = [Plan(ids=[f"{name}::test_seed", f"{name}::test_state"], ordered=True)] * 20
    with open_container("9", {name: state}) as container:
        first = observe_many(container, plans)
        repeated = observe_many(container, more)
    assert [outcomes(seen) for seen in first] == [{"test_state": "passed", "test_seed": "passed"}] * 3
    seeds = [re.findall(r"seed (-?\d+)", seen.output) for seen in first]
    assert seeds[0] == seeds[1] != seeds[2]
    assert [list(outcomes(seen)) for seen in repeated] == [["test_seed", "test_state"]] * 20
    assert {outcomes(seen)["test_seed"] for seen in repeated} == {"failed"}
    assert [seen.processes for seen in repeated] == [1] * 20


def test_broken_start_is_told(open_container: Opener) -> None:
    """A conftest that ends the process gives `collection-failed`; an absent interpreter says so."""
    with open_container("9", {"tests/conftest.py": "import os\nos._exit(3)\n"}) as container:
        seen = observe(container, Plan())
        absent = observe(container, Plan(python="/opt/none/bin/python"))
    assert seen.ended == "collection-failed"
    assert absent.ended == "no-interpreter"
