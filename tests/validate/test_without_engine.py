"""The flow of matrix and repeats on an engine behind the port whose containers answer from a script."""

import itertools
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from race.core.classify import classify
from race.core.matrix import Suite
from race.errors import Accident, EngineDown, Rejection
from race.ports import ExecResult
from race.settings import ReliabilitySection
from race.work.cells import Subject
from race.work.failures import explained
from race.work.matrix_runs import run_matrix
from race.work.pace import Pace
from race.work.repeating import repeat, unsteady
from race.work.steadiness import unsteady_under_load
from race.work.trials import Work

TEST = "tests/test_a.py::test_it"


class ScriptedContainer:
    """Answers a launcher's request with what `decide(fixed, plan)` says; knows which patches it got."""

    def __init__(self, engine):
        self.id, self._engine, self._fixed, self._request = "scripted", engine, False, b""

    def put(self, path, files, **_):
        self._fixed |= any(name.endswith("fix.patch") for name in files)
        self._request = files.get("soma/grader/request.json", self._request)

    def put_tar(self, path, tar):
        raise NotImplementedError

    def get(self, path, *, limit=0):
        return None

    def run(self, argv, *, timeout, on_output=None, **_):
        if "launch.py" not in " ".join(argv):
            computed = b"usage_usec %d\n" % next(self._engine.computed)
            return ExecResult(0, computed if "usage_usec" in argv[-1] else b"", False, False, 0.0)
        for number, plan in enumerate(json.loads(self._request)["runs"]):
            events = self._engine.decide(self._fixed, plan)
            self._engine.ran.append((self._fixed, plan))
            for event in events:
                on_output(json.dumps({"run": number, **event}).encode() + b"\n")
        if self._engine.says_goodbye:
            on_output(b'{"event": "bye"}\n')
        return ExecResult(0, b"", False, False, 0.0)


class ScriptedEngine:
    """Meets as much of ports.Engine as running tests needs."""

    def __init__(self, decide, *, dies_after=None, says_goodbye=True):
        self.decide, self.says_goodbye, self.ran, self.made = decide, says_goodbye, [], 0
        self.computed = itertools.repeat(0)
        self._left = dies_after

    @contextmanager
    def container(self, spec):
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise EngineDown("the engine is gone")
        self.made += 1
        yield ScriptedContainer(self)


def _outcome(word, test_id=TEST, **more):
    return {"event": "outcome", "id": test_id, "outcome": word, "seconds": 0.01, "phase": "call", **more}


def _ended(how="finished"):
    return {
        "event": "ended",
        "how": how,
        "seconds": 0.02,
        "processes": 1,
        "output": "",
        "output_bytes": 0,
    }


def _good(fixed, plan):
    return [_outcome("passed" if fixed else "failed", error="AssertionError", message="no"), _ended()]


def _matrix(engine, **changes):
    values = {"runs": 3, "suite_seconds": 60, "say": lambda _: None} | changes
    touched = Suite(width="touched", paths=("tests/test_a.py",))
    whole = Suite(width="whole", paths=("tests",))
    subject = Subject("image", b"fix", b"test")
    return run_matrix(engine, subject, touched, whole, {"tests/test_a.py": "changed"}, **values)


def _work(engine, **settings):
    return Work(
        engine=engine,
        subject=Subject("image", b"fix", b"test"),
        instance_id="a__b-1",
        settings=ReliabilitySection(**settings),
        variants=("hash-seed", "jitter"),
    )


def test_the_suite_is_widened_only_while_it_fits_its_budget():
    """The whole suite when it finishes in time, else the touched files; a choice made before is kept."""
    wide = _matrix(ScriptedEngine(_good))
    assert (wide.suite.width, wide.suite.paths) == ("whole", ("tests",))
    assert [len(row) for row in wide.cells.values()] == [3, 3, 3, 3]

    def slow(fixed, plan):
        too_long = plan["files"] == ["tests"] and plan["run_seconds"] == 5
        return [_ended("run-limit")] if too_long else _good(fixed, plan)

    narrow = _matrix(ScriptedEngine(slow), suite_seconds=5)
    assert narrow.suite.width == "touched"
    assert "does not fit into 5 s" in narrow.suite.why
    assert [len(row) for row in narrow.cells.values()] == [3, 3, 3, 3]
    kept = _matrix(ScriptedEngine(_good), settled=narrow.suite)
    assert kept.suite == narrow.suite


def test_a_suite_that_is_far_too_slow_is_given_up_early():
    """With a quarter of the budget gone and less than a tenth done, the measuring run is cut off; what
    it took is told, and every cell of the touched files still gets its runs."""

    def slow(fixed, plan):
        if plan["files"] != ["tests"]:
            return _good(fixed, plan)
        return _slowly(30)

    def _slowly(count):
        yield {"event": "selected", "count": count}
        for number in range(count):
            time.sleep(0.05)
            yield _outcome("passed", f"tests/test_b.py::test_{number}")
        yield _ended()

    engine = ScriptedEngine(slow)
    narrow = _matrix(engine, suite_seconds=0.3)
    assert narrow.suite.width == "touched"
    assert 0.075 <= narrow.measuring_seconds < 1.5
    assert [len(row) for row in narrow.cells.values()] == [3, 3, 3, 3]
    assert all(TEST in seen.tests for row in narrow.cells.values() for seen in row)


def test_time_that_goes_into_collecting_is_no_sign_of_a_slow_suite():
    """Only the tests' own pace ends a measuring run early, however long they took to be found."""
    pace = Pace(0.2)
    assert not pace.hopeless({"event": "session"})
    time.sleep(0.1)
    assert not pace.hopeless({"event": "selected", "count": 100})
    assert not pace.hopeless(_outcome("passed"))
    time.sleep(0.06)
    assert pace.hopeless(_outcome("passed"))
    for number in range(8):
        pace.hopeless(_outcome("passed", str(number)))
    assert not pace.hopeless({"event": "start", "id": "x"})


def test_containers_wait_for_a_free_core_before_tests_run():
    """However many tasks run at once, no more launchers run at the same moment than there are cores."""
    running, most, lock = 0, 0, threading.Lock()

    def counted(fixed, plan):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return _good(fixed, plan)

    engine = ScriptedEngine(counted)
    with ThreadPoolExecutor(3) as pool:
        for job in [pool.submit(_matrix, engine, suite_seconds=0) for _ in range(3)]:
            job.result()
    assert len(engine.ran) == 36
    assert 1 <= most <= (os.cpu_count() or 1)


@pytest.mark.parametrize("after", [0, 1, 5])
def test_an_engine_that_dies_is_an_accident_whenever_it_does(after):
    """The engine's end comes out as such, from matrix and repeats, not as a verdict or a hang."""
    with pytest.raises(EngineDown):
        _matrix(ScriptedEngine(_good, dies_after=after))
    with pytest.raises(EngineDown):
        repeat(_work(ScriptedEngine(_good, dies_after=after % 2)), [TEST])


def test_a_launcher_that_ends_early_is_an_accident():
    """A stream that stops without a goodbye says nothing about the task."""
    with pytest.raises(Accident, match="launcher ended early"):
        _matrix(ScriptedEngine(_good, says_goodbye=False))


def test_an_environment_without_interpreter_is_a_rejection():
    """An image that cannot start pytest is a verdict about the task, named."""
    engine = ScriptedEngine(lambda fixed, plan: [_ended("no-interpreter")])
    with pytest.raises(Rejection, match="cannot start its test runner"):
        _matrix(engine)


FRAME = (
    'Traceback (most recent call last):\n  File "/soma/grader/worker.py", line 9, in <module>\n    x\n'
)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (FRAME + "NameError: name 'x' is not defined\n", Accident),
        ('  File "/soma/grader/session.py", line 1\n    (\nSyntaxError: never closed\n', Accident),
        (FRAME + "ImportError: cannot import name 'x' from 'seen' (/soma/grader/seen.py)\n", Accident),
        (FRAME + "ModuleNotFoundError: No module named 'pluggy'\n", Rejection),
        (FRAME + '  File "/opt/venv/lib/python3.11/site-packages/py.py", line 1, in <module>\n'
         "AttributeError: __spec__\n", Rejection),
        ('  File "/opt/venv/lib/python3.11/site-packages/pytest/a.py", line 1\n    (\nSyntaxError: no\n',
         Rejection),
        ("[Errno 2] No such file or directory: '/opt/venv/bin/python'", Rejection),
    ],
    ids=["name", "syntax", "own-import", "lacks", "breaks", "old-syntax", "absent"],
)  # fmt: skip
def test_a_fault_in_the_grader_is_no_verdict(said, error):
    """Only what the environment's own packages do wrong is held against the task."""
    engine = ScriptedEngine(lambda fixed, plan: [_ended("no-interpreter") | {"output": said}])
    with pytest.raises(error):
        _matrix(engine)
    if error is Accident:
        later = ScriptedEngine(lambda fixed, plan: [_ended("collection-failed") | {"output": said}])
        with pytest.raises(Accident, match="the grader itself failed"):
            _matrix(later)


def test_a_pytest_that_cannot_be_driven_is_said_to_be_just_that():
    """A run that dies on a part of pytest that an old one lacks rejects the environment by that name."""
    lacking = "cannot import name 'load_config' from '_pytest.config' (/opt/venv/lib/_pytest/config.py)"
    said = FRAME + f"ImportError: {lacking}\n"
    engine = ScriptedEngine(lambda fixed, plan: [_ended("collection-failed") | {"output": said}])
    with pytest.raises(Rejection, match="needs pytest 7 or later") as caught:
        _matrix(engine)
    assert caught.value.place.startswith("ImportError: cannot import name 'load_config'")


def test_a_suite_that_died_is_not_said_to_take_too_long():
    """Why only the touched files are run: the whole suite did not run to its end."""

    def decide(fixed, plan):
        return [_ended("collection-failed")] if plan["files"] == ["tests"] else _good(fixed, plan)

    suite = _matrix(ScriptedEngine(decide)).suite
    assert (suite.width, suite.why) == ("touched", "the whole suite did not run to its end")


@pytest.mark.parametrize(
    ("events", "place", "why"),
    [
        ([{"event": "collect-error", "path": "tests/a.py", "message": "ImportError: no b"}, _ended()],
         "tests/a.py", "ImportError: no b"),
        ([{"event": "collect-skip", "path": "tests/a.py", "message": "needs Windows"}, _ended()],
         "tests/a.py", "skips itself: needs Windows"),
        ([_ended("collection-failed") | {"output": "Traceback\n  x\nKeyError: 'HOME'\n"}],
         "", "the run died before it looked at a test file: KeyError: 'HOME'"),
        ([_ended("collection-failed") | {"output": "a/conftest.py:2: in <module>\nE   KeyError: 1\n"}],
         "", "the run died before it looked at a test file: KeyError: 1"),
        ([{"event": "internal-error", "message": "PytestConfigWarning: Unknown: a"}, _ended()],
         "", "pytest broke off: PytestConfigWarning: Unknown: a"),
        ([_ended("run-limit")], "", "nothing was collected within the limit of a run"),
        ([_ended()], "", "the files hold none"),
    ],
    ids=["import", "skip", "start", "conftest", "own-error", "limit", "empty"],
)  # fmt: skip
def test_a_task_without_any_test_says_why(events, place, why):
    """The finding names the file and the last line of what went wrong with tests and fix."""
    ran = _matrix(ScriptedEngine(lambda fixed, plan: events))
    found = explained(classify(ran.outcomes()), ran)
    assert [(one.rule, one.place) for one in found.findings] == [("nothing-collected", place)]
    assert found.findings[0].message == f"no test was collected with new tests and fix: {why}"


def _failing(error, message):
    return {"event": "outcome", "id": TEST, "outcome": "failed", "phase": "call", "seconds": 0.1,
            "error": error, "message": message}  # fmt: skip


@pytest.mark.parametrize(
    ("events", "rule", "place", "why"),
    [
        ([_failing("OSError", "[Errno 99] not this one\nmore")], "fails-with-the-fix", TEST,
         "; 1 fail even with it; this one by OSError: [Errno 99] not this one"),
        ([{"event": "collect-error", "path": "tests/a.py", "message": "x\nImportError: no speedups"},
          _failing("E", "")], "touched-not-collected", "tests/a.py",
         ": the file cannot be collected with it: ImportError: no speedups"),
    ],
    ids=["fails", "touched"],
)  # fmt: skip
def test_a_task_whose_tests_fail_with_the_fix_says_by_what(events, rule, place, why):
    """The finding quotes the error with the fix, or the change's test file that cannot be read."""
    ran = _matrix(ScriptedEngine(lambda fixed, plan: [*events, _ended()]))
    found = explained(classify(ran.outcomes()), ran, ("tests/a.py",))
    assert [(one.rule, one.place) for one in found.findings] == [(rule, place)]
    assert found.findings[0].message == f"no test passes only with the fix{why}"


def test_a_reliable_task_pays_exactly_the_planned_repeats():
    """59 plain ones each way and one per perturbation, with the seeds of the plan in the requests."""
    engine = ScriptedEngine(_good)
    done = repeat(_work(engine), [TEST])
    assert done.runs == len(engine.ran) == 2 * (59 + 2)
    assert done.bounds is not None
    perturbed = [plan for _, plan in engine.ran if plan["tools"]]
    assert len(perturbed) == 4
    assert all("RACE_PERTURB" in plan["environment"] for plan in perturbed)
    assert sum("PYTHONHASHSEED" in plan["environment"] for plan in perturbed) == 2
    assert len(done.failures[TEST]) == 59


def test_whoever_is_left_starts_again_from_zero():
    """After one test is out, the other gets 59 fresh repeats each way with new numbers."""
    other = "tests/test_a.py::test_other"

    def decide(fixed, plan):
        wobbly = _outcome("passed", other) if other in plan["ids"] else None
        return [event for event in (*_good(fixed, plan)[:1], wobbly, _ended()) if event]

    engine = ScriptedEngine(decide)
    done = repeat(_work(engine), [TEST, other])
    assert done.ids == (TEST,)
    assert done.out == {other: "unreliable"}
    again = [plan for _, plan in engine.ran if plan["ids"] == [TEST]]
    assert len(again) == 2 * (59 + 2)


def test_a_task_that_never_settles_is_not_kept():
    """When every round throws another test out, the rest is not listed on what is left of its luck."""
    ids = [f"tests/test_a.py::test_{number}" for number in range(8)]

    def decide(fixed, plan):
        worst = plan["ids"][0]
        return [_outcome("passed" if fixed or i == worst else "failed", i) for i in plan["ids"]] + [
            _ended()
        ]

    done = repeat(_work(ScriptedEngine(decide)), ids)
    assert done.ids == ()
    assert done.bounds is None
    assert set(done.out) == set(ids)


def _slow(work, ids, seconds):
    """The work when these ids hung in the matrix and its slowest test asked for this limit."""
    return replace(work, slow_ids=frozenset(ids), slow_seconds=seconds, empty_seconds=seconds)


def _until_a_hang(fixed, plan, hanging):
    """A run whose hanging tests end it when it is asked to stop there."""
    events = []
    for test_id in plan["ids"]:
        hangs = not fixed and test_id in hanging
        word = "passed" if fixed else "hang" if hangs else "failed"
        events += [{"event": "start", "id": test_id}, _outcome(word, test_id)]
        if hangs and plan["stop_at_hang"]:
            break
    return [*events, _ended()]


def test_where_all_tests_hang_a_repeat_costs_one_hang_under_the_short_limit():
    """Five hanging tests: every repeat without the fix ends at the first; both rates are bounded."""
    ids = [f"tests/test_a.py::test_{number}" for number in range(5)]
    engine = ScriptedEngine(lambda fixed, plan: _until_a_hang(fixed, plan, ids))
    done = repeat(_slow(_work(engine), ids, 2.0), ids)
    assert done.ids == tuple(ids)
    assert done.out == {}
    assert done.bounds is not None
    assert done.bounds.not_repeated == ()
    assert done.bounds.empty_bound < 0.05
    assert all(plan["stop_at_hang"] is not fixed for fixed, plan in engine.ran)
    plain = [plan for _, plan in engine.ran if "perturb" not in plan["tools"]]
    assert {plan["test_seconds"] for plan in plain} == {2.0, 60.0}
    assert {plan["test_seconds"] for fixed, plan in engine.ran if fixed} == {60.0}


def test_hanging_tests_are_not_repeated_without_the_fix_while_another_fails_at_once():
    """The test that fails at once bounds the rate; the record names those that stand on the matrix."""
    ids = [f"tests/test_a.py::test_{number}" for number in range(3)]
    engine = ScriptedEngine(lambda fixed, plan: _until_a_hang(fixed, plan, ids[:2]))
    done = repeat(_slow(_work(engine), ids[:2], 2.0), ids)
    assert done.ids == tuple(ids)
    assert done.bounds is not None
    assert done.bounds.not_repeated == tuple(ids[:2])
    assert {tuple(plan["ids"]) for fixed, plan in engine.ran if not fixed} == {(ids[2],)}
    assert {tuple(plan["ids"]) for fixed, plan in engine.ran[3:] if fixed} == {tuple(ids)}


def test_a_test_that_leans_on_a_hanging_one_is_not_repeated_without_it():
    """With the fix the second test fails when the first is left out: so it says nothing by itself, and
    both are repeated."""
    ids = [f"tests/test_a.py::test_{number}" for number in range(2)]

    def decide(fixed, plan):
        if plan["ids"] == ids[1:]:
            return [_outcome("failed", ids[1]), _ended()]
        return _until_a_hang(fixed, plan, ids[:1])

    engine = ScriptedEngine(decide)
    done = repeat(_slow(_work(engine), ids[:1], 2.0), ids)
    assert done.bounds is not None
    assert done.bounds.not_repeated == ()
    assert {tuple(plan["ids"]) for fixed, plan in engine.ran if not fixed} == {tuple(ids)}


def test_hanging_tests_are_repeated_when_the_others_turn_out_to_be_unreliable():
    """When the one that fails at once passes now and then, it goes; the next round waits for hangs."""
    hanging, wobbly = TEST, "tests/test_a.py::test_wobbly"

    def decide(fixed, plan):
        if wobbly in plan["ids"] and not fixed:
            return [_outcome("passed", wobbly), _ended()]
        return _until_a_hang(fixed, plan, [hanging])

    done = repeat(_slow(_work(ScriptedEngine(decide)), [hanging], 2.0), [hanging, wobbly])
    assert done.ids == (hanging,)
    assert done.out == {wobbly: "unreliable"}
    assert done.bounds is not None
    assert done.bounds.not_repeated == ()


def test_a_slow_pass_is_not_taken_for_a_hang():
    """Without the fix the test passes after four seconds, with it after one: the short limit of two
    would hide that; the round is made again with a longer one, and the test goes as unreliable."""

    def decide(fixed, plan):
        seconds = 1.0 if fixed else 4.0
        word = "passed" if seconds < plan["test_seconds"] else "hang"
        return [{"event": "start", "id": TEST}, _outcome(word, seconds=seconds), _ended()]

    engine = ScriptedEngine(decide)
    done = repeat(_slow(_work(engine), [TEST], 2.0), [TEST])
    assert done.out == {TEST: "unreliable"}
    assert done.ids == ()
    plain = {plan["test_seconds"] for fixed, plan in engine.ran if not fixed and not plan["tools"]}
    assert plain == {2.0, 10.0}


def test_a_side_that_takes_long_gets_another_container(monkeypatch):
    """What is left after a while is shared; every planned repeat is made once, none twice."""
    monkeypatch.setattr("race.work.sides.PATIENCE", 0.0)
    monkeypatch.setattr("race.work.sides.HELPERS", 2)

    def decide(fixed, plan):
        time.sleep(0.002)
        return _good(fixed, plan)

    engine = ScriptedEngine(decide)
    done = repeat(_work(engine), [TEST])
    assert done.bounds is not None
    assert done.runs == len(engine.ran) == 2 * (59 + 2)
    assert engine.made > 2


@pytest.mark.parametrize(("step", "more"), [(100, True), (10_000_000, False)], ids=["wait", "spin"])
def test_tests_that_hang_and_compute_nothing_get_containers_without_a_slot(monkeypatch, step, more):
    """Most of a deadlock is waiting: more containers share its repeats, each made once. Tests that
    spin while they hang get none, for they would take the cores of others."""
    monkeypatch.setattr("race.work.sides.WORTH", 0.01)
    monkeypatch.setattr("race.work.sides.MOST", 2)
    monkeypatch.setattr("race.work.cells.SLOTS", threading.BoundedSemaphore(2))

    def decide(fixed, plan):
        time.sleep(0.0 if fixed else 0.05)
        return _until_a_hang(fixed, plan, [TEST])

    engine = ScriptedEngine(decide)
    engine.computed = itertools.count(0, step)
    done = repeat(_slow(_work(engine, limit=0.2, repeats=14), [TEST], 2.0), [TEST])
    assert done.bounds is not None
    assert done.runs == len(engine.ran) == 2 * (14 + 2)
    assert (engine.made > 4) is more


def test_a_failure_in_another_container_of_a_side_is_not_lost(monkeypatch):
    """When the engine dies under the container that helps, the repeats end with that accident."""
    monkeypatch.setattr("race.work.sides.PATIENCE", 0.0)

    def decide(fixed, plan):
        time.sleep(0.002)
        return _good(fixed, plan)

    with pytest.raises(EngineDown):
        repeat(_work(ScriptedEngine(decide, dies_after=2)), [TEST])


def test_a_regression_behind_a_hang_stays_a_regression():
    """A test that is not reached because another hangs has not failed: it is not called flaky. Tests
    that may have broken have the full limit, whatever the fail-to-pass tests get."""
    first, second = TEST, "tests/test_a.py::test_behind"

    def decide(fixed, plan):
        if fixed:
            return [_outcome("failed", first), _outcome("failed", second), _ended()]
        return [_outcome("hang", first), _ended()]

    engine = ScriptedEngine(decide)
    work = _slow(_work(engine), [], 2.0)
    assert unsteady(work, [first, second]) == (first,)
    assert {plan["test_seconds"] for _, plan in engine.ran} == {60.0}


@pytest.mark.parametrize(("seconds", "runs"), [(0.5, 2), (50, 1)])
def test_what_passes_on_an_idle_machine_alone_is_found(seconds, runs):
    """Tests that fail beside busy processes in any run with the fix, round by round until one finds
    nothing more; a long suite has one run a round. What was not reached is not held against a test."""
    ids = ["t.py::steady", "t.py::timed", "t.py::later", "t.py::never"]

    def decide(fixed, plan):
        assert fixed
        assert json.loads(plan["environment"]["RACE_PERTURB"])["variant"] == "competing-load"
        late = {runs - 1: "t.py::timed", 2 * runs - 1: "t.py::later"}.get(len(engine.ran))
        words = {one: "failed" if one == late else "passed" for one in plan["ids"] if one != ids[3]}
        return [*(_outcome(word, one) for one, word in words.items()), _ended()]

    engine = ScriptedEngine(decide)
    assert unsteady_under_load(_work(engine), ids, seconds) == ("t.py::timed", "t.py::later")
    assert [len(plan["ids"]) for _, plan in engine.ran] == [4] * runs + [3] * runs + [2] * runs
    assert unsteady_under_load(_work(engine), [], seconds) == ()
