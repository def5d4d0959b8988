"""Applying a git diff in memory gives what git gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from race.core.interface.applying import apply_diff, parse_diff
from race.errors import Malformed

BEFORE = {
    "a.py": b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n",
    "no-newline.txt": b"last line",
    "gone.py": b"old\n",
    "crlf.py": b"one\r\ntwo\r\nthree\r\n",
    "empty.py": b"",
    "caf\u00e9 x.py".encode().decode(): b"x = 1\n",
    "binary.bin": bytes(range(256)),
    "feed.py": b"a\x0cb\nc\x1cd\n",
}
AFTER = {
    "a.py": b"zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten!\n",
    "no-newline.txt": b"last line, with more\n",
    "crlf.py": b"one\r\n2\r\nthree\r\n",
    "empty.py": b"x\n",
    "caf\u00e9 x.py": b"x = 2\n",
    "sub/new.py": b"def f():\n    return 1",
    "binary.bin": b"",
    "feed.py": b"a\x0cb\nc\x1cD\n",
}


def test_like_git(patch_between: Callable[..., bytes]) -> None:
    """Added, deleted, changed, CRLF, without final newline, odd names: the tree afterwards is git's."""
    patch = patch_between(BEFORE, AFTER)
    assert apply_diff(BEFORE, patch) == AFTER
    changed = {change.path: change for change in parse_diff(patch)}
    assert changed["gone.py"].new is None
    assert changed["sub/new.py"].old is None
    assert changed["a.py"].lines(b"+") == ["zero", "ten!"]
    assert changed["a.py"].lines(b"-") == ["ten"]


def test_a_patch_for_another_tree_is_refused(patch_between: Callable[..., bytes]) -> None:
    """No fuzz: a line that is not there is an error that names file and line."""
    patch = patch_between(BEFORE, AFTER)
    with pytest.raises(Malformed, match=r"a.py line \d+: does not match"):
        apply_diff(BEFORE | {"a.py": b"one\nTWO\nthree\n"}, patch)
    without = {path: data for path, data in BEFORE.items() if path != "gone.py"}
    with pytest.raises(Malformed, match="does not have"):
        apply_diff(without, patch)


def test_a_cut_off_patch_is_refused(patch_between: Callable[..., bytes]) -> None:
    """A hunk that ends early, or holds garbage, is an error and no half-applied tree."""
    patch = patch_between({"a.py": b"1\n2\n3\n"}, {"a.py": b"1\n2\n4\n"})
    with pytest.raises(Malformed, match="cut off"):
        parse_diff(patch[: patch.rindex(b"+4")])
    with pytest.raises(Malformed, match="neither"):
        parse_diff(patch.replace(b"+4", b"*4"))


def test_nothing_to_apply() -> None:
    """An empty patch, and text that is no patch, change nothing."""
    assert apply_diff(BEFORE, b"") == BEFORE
    assert apply_diff(BEFORE, b"hello\nworld\n") == BEFORE
