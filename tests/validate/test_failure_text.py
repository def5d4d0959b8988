import pytest

from race.core.failure_text import ObservedFailure, agree, normalise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<Lock object at 0x7f11aa22bb33> is held", "<Lock object at 0x7f9900aa1122> is held"),
        ("no file /tmp/pytest-of-agent/pytest-0/x/a", "no file /tmp/pytest-of-agent/pytest-7/x/a"),
        ("Task-12 never ended", "Task-9 never ended"),
        ("took 1.234s", "took 1.3s"),
        ("pid 4711 is alive", "pid 12 is alive"),
        ("<Thread(x, started daemon 139712345678)>", "<Thread(x, started daemon 140112345678)>"),
        ("assert [1] == [2]\n\n  At 0\n  Use -v to get more diff", "assert [1] == [2]\n\n  At 0"),
        ("connect to 127.0.0.1:40123 refused", "connect to 127.0.0.1:4012 refused"),
        ("at 2026-01-02T03:04:05.678Z", "at 2026-11-30T13:00:00Z"),
        ("module.py:12: boom", "module.py:14: boom"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("id 6f1c2f6e-9f1a-4a55-8a8e-0123456789ab", "id 00000000-9f1a-4a55-8a8e-0123456789ab"),
    ],
)
def test_what_differs_between_runs_goes_and_the_words_stay(one, other):
    """Two runs of one failure give one text."""
    assert normalise(one) == normalise(other)
    assert normalise(one)


def test_small_numbers_and_text_are_kept():
    """What the failure says is not blurred."""
    assert normalise("assert 3 == 4\n +  where 3 = len([1, 2, 3])") == (
        "assert 3 == 4\n +  where 3 = len([1, 2, 3])"
    )
    assert len(normalise("x" * 5000)) == 400


def test_of_a_traceback_the_error_is_kept():
    """Frames say nothing of the failure and would leave no room for what does."""
    frames = "".join(f'  File "a.py", line {n}, in f\n    f({n})\n' for n in range(40))
    text = (
        f"Exception in thread Thread-1 (f)\n\nTraceback (most recent call last):\n{frames}KeyError: 3\n"
    )
    assert normalise(text) == "Exception in thread Thread-N (f)\nKeyError: 3"


def test_normalising_twice_changes_nothing():
    """The recorded text is a fixed point."""
    text = "Task-3 at 0x7f11aa22bb33 in /repo/src/a.py:12 on port 8080 after 2.5 seconds"
    assert normalise(normalise(text)) == normalise(text)


def _failure(message, error_type="AssertionError", outcome="failed"):
    return ObservedFailure(outcome=outcome, phase="call", error_type=error_type, message=message)


def test_runs_that_agree_are_recorded_as_they_are():
    """Three alike are one."""
    assert agree([_failure("assert 1 == 2")] * 3) == _failure("assert 1 == 2")


def test_numbers_that_differ_are_written_n():
    """A lost update loses a different number each time; the words are kept."""
    both = agree([_failure("assert 7 == 10"), _failure("assert 8 == 10")])
    assert both.message == "assert N == N"
    assert both.varies


def test_failures_of_different_kinds_keep_only_what_they_share():
    """A hang in one run and an assertion in another leave neither type nor message."""
    both = agree([_failure("assert 1 == 2"), _failure("", "", "hang")])
    assert (both.outcome, both.error_type, both.message, both.varies) == ("failed", "", "", True)
    with pytest.raises(ValueError, match="no failure"):
        agree([])
