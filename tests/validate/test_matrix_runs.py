import pytest

from race.core.classify import classify
from race.core.matrix import touched_files, touched_suite
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
    one = subject({"tests/test_kinds.py": KINDS}, test_seconds=1.0)
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
