"""Reading unified diffs, in whatever form they come."""

from __future__ import annotations

import pytest

from race.core.patches import Surroundings, judge
from race.core.unified_diff import (
    Unreadable,
    header_paths,
    read_patch,
    without_carriage_returns,
)

CHANGED = (
    b"diff --git a/src/brook/queue.py b/src/brook/queue.py\nindex 1111111..2222222 100644\n"
    b"--- a/src/brook/queue.py\n+++ b/src/brook/queue.py\n@@ -1 +1 @@\n-one\n+two\n"
)


def test_forms_of_patches() -> None:
    """Mails, plain diffs, carriage returns, quoted paths and header-like content all parse."""
    inner = (
        b"diff --git a/q.py b/q.py\n--- a/q.py\n+++ b/q.py\n@@ -1,3 +1,3 @@\n--- a/x\n+++ b/x\n b\n c\n"
    )
    (change,) = read_patch(inner)
    assert change.paths == ("q.py",)
    mail = b"From: x\nSubject: y\n\n---\n 1 file\n\n" + CHANGED + b"-- \n2.39\n\n"
    assert [c.paths for c in read_patch(mail)] == [("src/brook/queue.py",)]
    plain = b"--- a/src/brook/queue.py\t2026\n+++ b/src/brook/queue.py\t2026\n@@ -1 +1 @@\n-a\n+b\n"
    assert read_patch(plain)[0].paths == ("src/brook/queue.py",)
    cr = CHANGED.replace(b"\n", b"\r\n")
    assert without_carriage_returns(cr) == CHANGED
    kept = CHANGED.replace(b"one", b"one\r").replace(b"two", b"two\r")
    assert without_carriage_returns(kept) == kept
    quoted = b'diff --git "a/src/brook/caf\\303\\251.py" "b/src/brook/caf\\303\\251.py"\n'
    quoted += b"new file mode 100644\n"
    assert read_patch(quoted)[0].new == "src/brook/café.py"
    assert header_paths(b"diff --git a/with space.py b/with space.py") == ("with space.py",) * 2


@pytest.mark.parametrize(
    "patch",
    [
        b"diff --git a/q.py b/q.py\n--- a/q.py\n+++ b/q.py\n@@ -1,9 +1 @@\n-a\n+b\n",
        b"diff --git a/q.py b/q.py\n--- a/q.py\n+++ b/q.py\n@@ -1,2 +1,2 @@\n a\ndiff --git a/z b/z\n",
        b"--- a/q.py\n+++ b/q.py\nno hunk\n",
        b"--- a/q.py\n+++ b/q.py\n@@ -1," + b"1" * 5000 + b" +1 @@\n-a\n+b\n",
        b"diff --git a/q.py b/q.py\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_broken_hunks_are_refused_with_a_line(patch: bytes) -> None:
    """A hunk that is not as long as it says names its line; nothing behind it is guessed at."""
    with pytest.raises(Unreadable, match=r"line \d+"):
        read_patch(patch)
    assert judge(patch, Surroundings()).verdict == "refused"
