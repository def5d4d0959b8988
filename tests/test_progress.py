"""What a person sees of long work."""

from __future__ import annotations

import pytest

from race.progress import Progress


def test_tasks_without_work_have_no_say_in_the_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight tasks pass at once, one of the other two takes a minute: about a minute is left."""
    clock = [0.0]
    monkeypatch.setattr("race.progress.time.monotonic", lambda: clock[0])
    progress = Progress("validate", 10)
    for number in range(8):
        progress.passed(f"t{number}", "nothing is due")
    assert "left" not in capsys.readouterr().err
    clock[0] = 60.0
    progress.finished("t8", "accepted")
    assert capsys.readouterr().err == "validate: [9/10] t8: accepted, about 1 min 0 s left\n"
    progress.finished("t9", "accepted")
    assert capsys.readouterr().err == "validate: [10/10] t9: accepted\n"
