import pytest

from race.core.classify import classify
from race.core.matrix import touched_files, touched_suite
from race.errors import Rejection
from race.work.matrix_runs import run_matrix

pytestmark = [pytest.mark.engine, pytest.mark.network]

KINDS = """
import os, random, sys, threading, time
import pytest
from gate import FIXED

def test_plain(): assert FIXED, "lost 3 updates"
def test_always(): pass
def test_never(): raise OSError("no such thing")
def test_sometimes(): assert FIXED or int.from_bytes(os.urandom(1), "big") < 128
def test_hang():
    if not FIXED: threading.Lock().acquire(); threading.Event().wait()
def test_exit():
    if not FIXED: os._exit(3)
@pytest.fixture
def slow():
    yield
    if not FIXED: time.sleep(60)
def test_hang_in_teardown(slow): pass
def test_broken_by_fix(): assert not FIXED
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert FIXED
"""


def _run(bench, subject, runs=3, **more):
    touched = touched_suite(subject.test_patch)
    return run_matrix(
        bench.engine, subject, touched, None, touched_files(subject.test_patch),
        runs=runs, suite_seconds=0, say=lambda _: None, **more,
    )  # fmt: skip


def test_every_kind_of_test_ends_in_its_list(bench, subject):
    """Real runs of hanging, crashing, wobbling, broken and good tests are told apart."""
    one = subject({"tests/test_kinds.py": KINDS}, test_seconds=3.0)
    ran = _run(bench, one)
    assert [len(ran.cells[cell]) for cell in ("old-without", "old-with")] == [0, 0]
    done = classify(ran.outcomes())
    name = "tests/test_kinds.py::test_"
    sure = {f"{name}{kind}" for kind in ("plain", "hang", "exit", "hang_in_teardown")}
    assert sure <= set(done.fail_to_pass) <= sure | {f"{name}sometimes"}
    assert done.pass_to_pass == (f"{name}always",) or f"{name}sometimes" in done.pass_to_pass
    assert done.regressions == (f"{name}broken_by_fix",)
    reasons = {drop.id: drop.reason for drop in done.dropped}
    assert reasons[f"{name}never"] == "broken"
    assert reasons[f"{name}skipped"] == "skipped"
    assert reasons[f"{name}expected"] == "expected-failure"
    hang = ran.cells["new-without"][0].tests[f"{name}hang"]
    assert hang.outcome == "hang"
    assert "acquire" in hang.stacks or "test_hang" in hang.stacks


def test_a_file_that_cannot_be_imported_without_the_fix_has_failed(bench, subject):
    """A test of a name that the fix adds fails without it, though no test was ever collected."""
    source = "import gate\nif not gate.FIXED:\n    from gate import Later\ndef test_it(): pass\n"
    ran = _run(bench, subject({"tests/test_import.py": source}), runs=1)
    assert "cannot import name 'Later'" in str(ran.cells["new-without"][0].uncollectable)
    assert classify(ran.outcomes()).fail_to_pass == ("tests/test_import.py::test_it",)


def test_a_file_that_skips_itself_without_the_fix_is_skipped_not_failed(bench, subject):
    """A module-level skip without the fix is no failure that shows a bug."""
    source = (
        "import pytest, gate\nif not gate.FIXED:\n    pytest.skip('later', allow_module_level=True)\n"
    )
    one = subject({"tests/test_skip.py": source + "def test_it(): pass\n"})
    done = classify(_run(bench, one, runs=1).outcomes())
    assert [(drop.id, drop.reason) for drop in done.dropped] == [
        ("tests/test_skip.py::test_it", "skipped")
    ]
    assert [finding.rule for finding in done.findings] == ["only-skipped"]


HANGS = {
    "tests/test_hangs.py": """
import ctypes, subprocess, sys, threading, time
import pytest
from gate import FIXED

@pytest.fixture
def stuck():
    if not FIXED: threading.Event().wait()
def test_fixture(stuck): pass

def test_native():
    # sem_wait restarts by itself: no Python code runs, so no handler of Python's can end it
    if not FIXED:
        libc, room = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        libc.sem_init(room, 0, 0)
        while True: libc.sem_wait(room)

def test_child():
    if not FIXED: subprocess.run([sys.executable, "-c", "import time; time.sleep(999)"])

def test_task():
    import asyncio
    async def waits_for_nobody(): await asyncio.Event().wait()
    if not FIXED: asyncio.run(waits_for_nobody())
""",
    "tests/test_exit.py": """
import atexit, threading, time
from gate import FIXED
def test_leaves_a_thread():
    if not FIXED: threading.Thread(target=time.sleep, args=(999,)).start()
    atexit.register(lambda: FIXED or time.sleep(999))
""",
    "tests/test_import.py": """
import time
from gate import FIXED
if not FIXED: time.sleep(999)
def test_imported(): pass
""",
}


def test_every_kind_of_hang_ends_in_a_named_outcome_with_stacks(bench, subject):
    """Fixture, native code, child and task cost their limit; a hang at exit costs nothing."""
    one = subject(HANGS, test_seconds=3.0)
    ran = _run(bench, one, runs=1)
    seen = ran.cells["new-without"][0]
    names = {
        f"tests/test_hangs.py::test_{kind}": kind for kind in ("fixture", "native", "child", "task")
    }
    assert {kind: seen.outcome(name) for name, kind in names.items()} == dict.fromkeys(
        names.values(), "hang"
    )
    for name, kind in names.items():
        assert f"test_{kind}" in seen.tests[name].stacks or kind == "fixture"
    assert "stuck" in seen.tests["tests/test_hangs.py::test_fixture"].stacks
    assert "waits_for_nobody" in seen.tests["tests/test_hangs.py::test_task"].stacks
    assert seen.outcome("tests/test_exit.py::test_leaves_a_thread") == "passed"
    assert "did not end" in seen.uncollectable["tests/test_import.py"].message
    assert "test_import.py" in seen.uncollectable["tests/test_import.py"].stacks
    done = classify(ran.outcomes())
    assert set(done.fail_to_pass) == {*names, "tests/test_import.py::test_imported"}


NEEDY = """
import locale, os, subprocess, sys, time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo
from gate import FIXED

def test_bug(): assert FIXED
def test_writes_into_the_environment(): Path("/opt/venv/x").write_text("x")
def test_writes_into_etc(): Path("/etc/x").write_text("x")
def test_changes_the_product(): Path("gate.py").write_text("FIXED = True")
def test_home_and_temporary_files_are_its_own():
    for folder in (Path.home(), Path("/tmp")):
        left = folder / "left-behind"
        assert not left.exists()
        left.write_text("x")
def test_needs_a_terminal(): os.get_terminal_size(0)
def test_asks(): input("well? ")
def test_time_zone():
    assert time.tzname[0] == "UTC"
    assert datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")).utcoffset().seconds == 7200
def test_locale(): locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
def test_leaves_a_process(): subprocess.Popen(["sleep", "999"], start_new_session=True)
def test_spawns():
    import multiprocessing
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
def test_network():
    import socket
    socket.create_connection(("192.0.2.1", 80), timeout=1)
"""


def test_what_tests_want_of_the_machine_never_makes_a_wrong_verdict(bench, subject):
    """What the sandbox refuses fails both ways and is dropped; what is harmless is listed."""
    done = classify(_run(bench, subject({"tests/test_needy.py": NEEDY}), runs=2).outcomes())
    name = "tests/test_needy.py::test_"
    assert done.fail_to_pass == (f"{name}bug",)
    assert {drop.id.removeprefix(name): drop.reason for drop in done.dropped} == dict.fromkeys(
        ("writes_into_the_environment", "writes_into_etc", "changes_the_product", "needs_a_terminal",
         "asks", "locale", "network"),
        "broken",
    )  # fmt: skip
    assert {test_id.removeprefix(name) for test_id in done.pass_to_pass} == {
        "home_and_temporary_files_are_its_own", "time_zone", "leaves_a_process", "spawns"
    }  # fmt: skip


def test_a_patch_that_does_not_apply_rejects(bench, subject):
    """A fix patch for another tree is a verdict about the task, and named."""
    one = subject(
        {"tests/test_it.py": "def test_it(): pass\n"},
        fix_patch=b"""\
diff --git a/gate.py b/gate.py
--- a/gate.py
+++ b/gate.py
@@ -1 +1 @@
-OPEN = False
+OPEN = True
""",
    )
    with pytest.raises(Rejection, match=r"fix\.patch does not apply"):
        _run(bench, one)
