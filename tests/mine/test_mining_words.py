"""Numbers in messages, and the split of a diff."""

from __future__ import annotations

import pytest

from race.core.mining.diffs import sections
from race.core.mining.links import linked_issues, numbered


@pytest.mark.parametrize(
    ("subject", "body", "merge", "number", "title"),
    [
        ("Fix it (#12)", "", False, 12, "Fix it"),
        ('Revert "Fix it (#12)" (#13)', "", False, 13, 'Revert "Fix it (#12)"'),
        ("Fix it (GH-7)", "", False, 7, "Fix it"),
        ("Merge pull request #5 from a/b", "Close the door\n\nMore.", True, 5, "Close the door"),
        ("Merge branch 'x'", "Close it\n\nSee merge request a/b!9", True, 9, "Close it"),
    ],
)
def test_messages_that_name_a_pull_request(
    subject: str, body: str, merge: bool, number: int, title: str
) -> None:
    """Merge commits and squash commits of the usual forges."""
    found = numbered(subject, body, merge=merge)
    assert found is not None
    assert (found.number, found.title) == (number, title)


@pytest.mark.parametrize("subject", ["Fix #12", "Release 1.0", "Merge branch 'main'", "(#12) first"])
def test_messages_that_name_none(subject: str) -> None:
    """An issue's number in a sentence does not make a commit a pull request."""
    assert numbered(subject, "", merge=False) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Fixes #3", ("a/b#3",)),
        ("closes: #3, #4 and #5.", ("a/b#3", "a/b#4", "a/b#5")),
        ("Resolved other/place#8", ("other/place#8",)),
        ("fix https://forge.example/x/y/issues/6", ("x/y#6",)),
        ("Fixed #535: text (fixes gh-9)", ("a/b#535", "a/b#9")),
        ("See #3. Prefix #4", ()),
    ],
)
def test_closing_keywords(text: str, found: tuple[str, ...]) -> None:
    """Only what a keyword closes is linked."""
    assert linked_issues(text, "a/b") == found


def test_sections_are_the_diff_again() -> None:
    """Cutting loses no byte, and odd names come out as they are."""
    diff = (
        b'diff --git "a/t\\303\\244 b.py" "b/t\\303\\244 b.py"\nold mode 100644\nnew mode 100755\n'
        b"diff --git a/x y.py b/x y.py\nindex 1..2 100644\n--- a/x y.py\n+++ b/x y.py\n"
        b"@@ -1 +1 @@\n-diff --git a/no b/no\n+\xff\r\n"
        b"diff --git a/z.bin b/z.bin\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZ\n\n"
    )
    parts = list(sections(diff))
    assert b"".join(part.data for part in parts) == diff
    assert [part.path for part in parts] == ["tä b.py", "x y.py", "z.bin"]
    assert parts[0].modes == {"old mode": "100644", "new mode": "100755"}
    assert parts[1].changed_lines() == (["diff --git a/no b/no"], ["\ufffd\r"])
    assert parts[2].binary
