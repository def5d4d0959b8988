import pytest

from race.core.reliability import variants_for
from race.settings import ReliabilitySection
from race.work.repeating import repeat
from race.work.trials import Work

pytestmark = [pytest.mark.engine, pytest.mark.network]

FILE = "tests/test_race.py"
HEAD = "import os\nfrom gate import FIXED\nLUCK = int.from_bytes(os.urandom(2), 'big') / 65536\n"


SHORT = {"limit": 0.2, "repeats": 14}


def _work(bench, subject, ids, slow=(), **settings):
    return Work(
        engine=bench.engine,
        subject=subject,
        instance_id="gate__gate-1",
        settings=ReliabilitySection(**settings),
        variants=variants_for(ids, uvloop=False),
        slow_ids=frozenset(slow),
        slow_seconds=0.8,
    )


def test_a_reliable_task_is_bounded_within_130_runs(bench, subject):
    """At most 130 repeats, plain and perturbed, bound both rates at 5%."""
    one = subject({FILE: HEAD + "def test_it(): assert FIXED\n"})
    done = repeat(_work(bench, one, 2), [f"{FILE}::test_it"])
    assert done.out == {}
    assert done.bad_runs == []
    assert done.runs <= 130
    assert done.bounds is not None
    assert done.bounds.empty_bound <= 0.05
    assert done.bounds.gold_bound <= 0.05
    assert set(done.bounds.perturbed) == set(variants_for(2, uvloop=False))
    assert done.bounds.gold_fails_under == ()


def test_a_wobbly_test_goes_early_and_a_reliable_one_stays(bench, subject):
    """A test that passes half the time without the fix is out after a few runs, the other is bounded."""
    source = HEAD + "def test_sure(): assert FIXED\ndef test_wobbly(): assert FIXED or LUCK < 0.5\n"
    done = repeat(
        _work(bench, subject({FILE: source}), 2, **SHORT),
        [f"{FILE}::test_sure", f"{FILE}::test_wobbly"],
    )
    assert done.ids == (f"{FILE}::test_sure",)
    assert done.out == {f"{FILE}::test_wobbly": "unreliable"}
    assert done.bounds is not None
    assert done.bad_runs[0].trial.side == "without"


def test_a_task_of_one_wobbly_test_stops_at_once(bench, subject):
    """Nothing is left when the only test passes every second time without the fix; few runs say so."""
    done = repeat(
        _work(bench, subject({FILE: HEAD + "def test_it(): assert FIXED or LUCK < 0.5\n"}), 1),
        [f"{FILE}::test_it"],
    )
    assert done.ids == ()
    assert done.bounds is None
    assert done.runs < 60


def test_a_fix_that_sometimes_fails_is_thrown_out(bench, subject):
    """A test that fails one time in three with the fix is flaky."""
    done = repeat(
        _work(bench, subject({FILE: HEAD + "def test_it(): assert FIXED and LUCK < 0.67\n"}), 1),
        [f"{FILE}::test_it"],
    )
    assert done.out == {f"{FILE}::test_it": "flaky"}


def test_a_perturbation_that_the_fix_does_not_stand_is_not_held_against_the_task(bench, subject):
    """With another hash seed the fix fails and the bug hides: reported, not counted."""
    source = HEAD + (
        "SEEDED = os.environ.get('PYTHONHASHSEED') is not None\n"
        "def test_it(): assert FIXED is not SEEDED\n"
    )
    done = repeat(_work(bench, subject({FILE: source}), 1, **SHORT), [f"{FILE}::test_it"])
    assert done.ids == (f"{FILE}::test_it",)
    assert done.bounds is not None
    assert done.bounds.gold_fails_under == ("hash-seed",)


def test_a_perturbation_that_hides_the_bug_counts_when_the_fix_stands_it(bench, subject):
    """Without the fix the test passes under fast switching, with it always: unreliable."""
    source = HEAD + "import sys\ndef test_it(): assert FIXED or sys.getswitchinterval() < 1e-4\n"
    done = repeat(_work(bench, subject({FILE: source}), 1, **SHORT), [f"{FILE}::test_it"])
    assert done.ids == ()
    assert done.out == {f"{FILE}::test_it": "unreliable"}
    assert {bad.trial.key for bad in done.bad_runs} == {"without/switch-interval/0"}


def test_tests_that_hang_without_the_fix_cost_one_short_limit_a_repeat(bench, subject):
    """Each of six repeats ends at its first hang and pays the short limit for it, not the test's own of
    twenty seconds; the test behind it is not waited for."""
    source = HEAD + (
        "import threading\ndef wait():\n    if not FIXED: threading.Event().wait()\n"
        "def test_a(): wait()\ndef test_b(): wait()\n"
    )
    ids = [f"{FILE}::test_a", f"{FILE}::test_b"]
    done = repeat(_work(bench, subject({FILE: source}), 1, slow=ids, limit=0.4, repeats=6), ids)
    assert done.ids == tuple(ids)
    assert done.bounds is not None
    assert done.bounds.not_repeated == ()
    assert set(done.failures) == {ids[0]}
    assert {failure.outcome for failure in done.failures[ids[0]]} == {"hang"}
    assert done.seconds < 6 * 15
