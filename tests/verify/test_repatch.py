"""Files that stand in the wrong patch are moved, and the move is told."""

from __future__ import annotations

from race.core.paths import Layout
from race.core.repatch import completed, separated


def part(path: str) -> bytes:
    """A small git diff of one file."""
    return (
        f"diff --git a/{path} b/{path}\nindex 1111111..2222222 100644\n--- a/{path}\n+++ b/{path}\n"
        "@@ -1 +1 @@\n-a\n+b\n"
    ).encode()


LAYOUT = Layout(["pkg/__init__.py", "pkg/core.py", "tests/test_core.py", "tests/helpers.py"])


def test_right_patches_stay_byte_for_byte() -> None:
    """Nothing is rewritten when nothing is wrong."""
    fix, tests = part("pkg/core.py"), part("tests/test_core.py")
    done = separated(fix, tests, LAYOUT)
    assert (done.fix, done.tests, done.corrections) == (fix, tests, ())


def test_a_test_file_in_the_fix_patch_moves() -> None:
    """It becomes hidden, and the correction names it before and after."""
    done = separated(part("pkg/core.py") + part("tests/helpers.py"), part("tests/test_core.py"), LAYOUT)
    assert done.fix == part("pkg/core.py")
    assert done.tests == part("tests/helpers.py") + part("tests/test_core.py")
    assert done.corrections[0].before == ("tests/helpers.py",)


def test_a_fix_of_test_files_alone_is_left() -> None:
    """A fix patch is never emptied."""
    only = part("tests/helpers.py")
    assert separated(only, part("tests/test_core.py"), LAYOUT).fix == only


def test_a_missing_helper_comes_from_the_whole_change() -> None:
    """Test-side files that neither patch has are added; documentation is not."""
    fix, tests = part("pkg/core.py"), part("tests/test_core.py")
    whole = part("README.md") + fix + part("tests/helpers.py") + tests
    done = completed(tests, fix, whole, LAYOUT)
    assert done.tests == part("tests/helpers.py") + part("tests/test_core.py")
    assert done.corrections[0].rule == "helper-file-missing"
    assert completed(tests, fix, fix + tests, LAYOUT).corrections == ()
