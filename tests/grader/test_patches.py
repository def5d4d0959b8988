"""Judging patches: what is graded, what is set aside, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from race.core.patches import Surroundings, judge, nothing_to_apply

TREE = (
    "src/brook/__init__.py", "src/brook/queue.py", "src/brook/pool.py", "tests/conftest.py",
    "tests/test_queue.py", "pyproject.toml", "README.md", "docs/guide.md",
)  # fmt: skip
AROUND = Surroundings(
    TREE, ("tests/test_pool.py", "tests/data/case.json"), {"asyncio", "pytest", "json"}
)


def changed(path: str, *, old: str = "one", new: str = "two") -> bytes:
    """A git diff that changes a line of a file."""
    return (
        f"diff --git a/{path} b/{path}\nindex 1111111..2222222 100644\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -1 +1 @@\n-{old}\n+{new}\n"
    ).encode()


def added(path: str, mode: str = "100644", text: str = "x = 1") -> bytes:
    """A git diff that adds a file of one line."""
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex 0000000..1234567\n"
        f"--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1 @@\n+{text}\n"
    ).encode()


@pytest.mark.parametrize("patch", [b"", b"  \n\n", b"I fixed the bug.", b"--- only a line\n"])
def test_what_says_nothing_is_unresolved(patch: bytes) -> None:
    """An empty submission or one that is no diff is unresolved, as in SOMA, with a reason."""
    assert nothing_to_apply(patch)
    assert judge(patch, AROUND).verdict == "unresolved"


def test_product_is_graded_and_the_rest_set_aside() -> None:
    """Tests, configuration, packaging, docs and caches are listed; product code is graded."""
    product = changed("src/brook/queue.py")
    aside = [
        "tests/test_queue.py", "tests/conftest.py", "conftest.py", "src/brook/conftest.py", "pytest.ini",
        "pyproject.toml", "setup.cfg", "tox.ini", ".gitattributes", "docs/guide.md", "README.md",
        "src/brook.egg-info/entry_points.txt", "x.dist-info/entry_points.txt", ".env", "setup.py",
        "tests/test_pool.py", "tests/data/case.json", ".github/workflows/ci.yml",
        "src/brook/.coveragerc",
    ]  # fmt: skip
    found = judge(product + b"".join(changed(path) for path in aside), AROUND)
    assert found.verdict == ""
    assert found.product == ("src/brook/queue.py",)
    assert found.graded == product
    assert sorted(found.set_aside) == sorted(aside)


@pytest.mark.parametrize(
    "path",
    ["src/brook/extra/deep.py", "src/brook/_vendor/tiny.py", "src/other_top.py", "brook_tool.py",
     "src/brook/typed.pyi", "src/brook/data.json", "src/brook/testing.py", "src/brook/setup.py",
     "src/brook/load_test.py", "src/brook/test_support.py", "src/brook/README.md",
     "src/brook/extra/changelog.txt"],
)  # fmt: skip
def test_new_product_files_are_graded(path: str) -> None:
    """What is added to a package is product, also under a name that is usual for something else."""
    assert judge(added(path), AROUND).product == (path,)


@pytest.mark.parametrize("path", ["src/brook/pool_test.py", "src/brook/more/test_more.py"])
def test_tests_beside_the_product_stay_tests(path: str) -> None:
    """A test module that a package has, or gets beside others, is set aside."""
    tree = (*TREE, "src/brook/pool_test.py", "src/brook/more/__init__.py", "src/brook/more/test_less.py")
    found = judge(changed("src/brook/queue.py") + changed(path), Surroundings(tree))
    assert (found.product, found.set_aside) == (("src/brook/queue.py",), (path,))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../x.py", "plain relative path"),
        ("a/../../x.py", "plain relative path"),
        ("a//b.py", "plain relative path"),
        (".git/config", "git's own folder"),
        ("src/.GIT/config", "git's own folder"),
        ("src/.git./config", "git's own folder"),
        ("src/git~1/config", "git's own folder"),
        ("src/.git::$INDEX/config", "git's own folder"),
        ("src/.g\u200cit/config", "unprintable"),
        ("a\\b.py", "backslash"),
        ("src/sitecustomize.py", "Python runs or reads by itself"),
        ("sitecustomize/__init__.py", "Python runs or reads by itself"),
        ("src/evil.pth", "Python runs or reads by itself"),
        ("src/brook/fast.so", "compiled"),
        ("src/brook/fast.cpython-311-x86_64-linux-gnu.so", "compiled"),
        ("tests/data", "hidden tests has to be"),
        ("asyncio/__init__.py", "takes the name of the module asyncio"),
        ("src/json.py", "takes the name of the module json"),
        ("pytest.py", "takes the name of the module pytest"),
        ("x" * 300 + ".py", "too long"),
    ],
)
def test_what_only_deceives_is_refused(path: str, why: str) -> None:
    """Paths that leave the tree, touch git or start-up, or stand in a module's place are refused."""
    found = judge(changed("src/brook/queue.py") + added(path), AROUND)
    assert found.verdict == "refused"
    assert why in found.reasons[0]


@pytest.mark.parametrize(
    ("mode", "why"), [("120000", "symbolic link"), ("160000", "submodule"), ("100755", "")]
)
def test_modes(mode: str, why: str) -> None:
    """Links and submodules are refused on any side; an executable file is just a file."""
    found = judge(added("src/brook/tool.py", mode), AROUND)
    assert (found.verdict, why in "".join(found.reasons)) == ("refused" if why else "", True)


def test_names_below_a_package_are_free() -> None:
    """A module of the package may be called as a module of the standard library is."""
    assert judge(added("src/brook/asyncio.py"), AROUND).verdict == ""
    assert judge(added("src/brook/json/__init__.py"), AROUND).verdict == ""


def test_binary_changes() -> None:
    """A binary change of product code is refused; left-overs of tools are set aside."""
    left = b"diff --git a/%s b/%s\nnew file mode 100644\nindex 0..1\n"
    left += b"Binary files /dev/null and b/%s differ\n"
    cache = b"src/brook/__pycache__/q.cpython-311.pyc"
    found = judge(changed("src/brook/queue.py") + left.replace(b"%s", cache), AROUND)
    assert (found.verdict, found.set_aside) == ("", (cache.decode(),))
    found = judge(left.replace(b"%s", b"src/brook/blob.bin"), AROUND)
    assert found.verdict == "refused"


def test_renames_across_the_sides() -> None:
    """A module renamed to a test path is a deletion; a test renamed into the package is an addition."""
    move = b"diff --git a/%b b/%b\nsimilarity index 100%%\nrename from %b\nrename to %b\n"
    out = b"src/brook/pool.py", b"tests/pool.py"
    found = judge(move % (*out, *out), AROUND)
    assert (found.gone, found.set_aside) == (("src/brook/pool.py",), ("tests/pool.py",))
    into = b"tests/conftest.py", b"src/brook/fixtures.py"
    found = judge(move % (*into, *into), AROUND)
    assert (found.product, found.set_aside) == (("src/brook/fixtures.py",), ("tests/conftest.py",))


def test_a_copy_leaves_its_source_where_it_is() -> None:
    """A product file copied to the tests is not gone; copied into the package, the copy is graded."""
    copy = "diff --git a/{0} b/{1}\nsimilarity index 100%\ncopy from {0}\ncopy to {1}\n"
    found = judge(
        changed("src/brook/queue.py") + copy.format("src/brook/pool.py", "tests/pool.py").encode(),
        AROUND,
    )
    assert (found.product, found.gone) == (("src/brook/queue.py",), ())
    assert found.set_aside == ("tests/pool.py",)
    found = judge(copy.format("src/brook/pool.py", "src/brook/pond.py").encode(), AROUND)
    assert (found.product, found.gone, found.set_aside) == (("src/brook/pond.py",), (), ())


@given(st.binary(max_size=400))
def test_any_bytes_get_a_judgement(noise: bytes) -> None:
    """Whatever is handed in, judging ends with a verdict or something to grade, never an error."""
    for patch in (noise, b"diff --git a/q.py b/q.py\n" + noise, changed("src/brook/queue.py") + noise):
        found = judge(patch, AROUND)
        assert found.verdict in ("", "unresolved", "refused")
        assert bool(found.reasons) == bool(found.verdict)
