"""What a path is for, in the layouts that projects really use."""

from __future__ import annotations

import pytest

from race.core.paths import Layout

CASES = {
    # flat and src layouts
    "src/pkg/locks.py": "product",
    "pkg/_core/tasks.py": "product",
    "pkg.py": "product",
    "pkg/_speed.pyx": "product",
    "pkg/defaults.yaml": "product",
    "pkg/py.typed": "product",
    # tests in a folder of their own, beside the code, in monorepos
    "tests/test_locks.py": "test",
    "tests/locks.py": "test-helper",
    "tests/conftest.py": "test-helper",
    "tests/__init__.py": "test-helper",
    "tests/data/one.json": "test-data",
    "tests/__snapshots__/test_a.ambr": "test-data",
    "tests/certs/server.pem": "test-data",
    "pkg/tests/test_locks.py": "test",
    "pkg/comm/tests/test_tcp.py": "test",
    "pkg/test_locks.py": "test",
    "pkg/locks_test.py": "test",
    "pkg/utils_test.py": "test-helper",
    "packages/core/src/core/locks.py": "product",
    "packages/core/tests/unit/test_locks.py": "test",
    "conftest.py": "test-helper",
    "test_single.py": "test",
    "testing/test_runner.py": "test",
    "t/unit/test_loop.py": "test",
    # test support that is shipped
    "pkg/test_utils.py": "product",
    "pkg/testclient.py": "product",
    "pkg/testing.py": "product",
    "pkg/testing/_fake.py": "product",
    # around the product
    "docs/versionhistory.rst": "changelog",
    "docs/changelog/123.bugfix.rst": "changelog",
    "CHANGES/123.bugfix": "changelog",
    "CHANGES.rst": "changelog",
    "CHANGELOG.md": "changelog",
    "newsfragments/12.bugfix.rst": "changelog",
    "README.md": "docs",
    "docs/index.rst": "docs",
    "docs/examples/one.py": "docs",
    "LICENSE": "docs",
    "examples/echo.py": "other",
    "benchmarks/locks.py": "other",
    "scripts/release.py": "other",
    ".github/workflows/ci.yml": "ci",
    ".pre-commit-config.yaml": "ci",
    "pyproject.toml": "build",
    "setup.py": "build",
    "requirements-dev.txt": "build",
    "requirements/test.in": "build",
    "uv.lock": "build",
    "tox.ini": "build",
    "pkg/tasks.py": "product",
    "tasks.py": "build",
}


@pytest.mark.parametrize(("path", "kind"), CASES.items())
def test_a_path_alone_tells_what_it_is_for(path: str, kind: str) -> None:
    """Common layouts are told apart without looking at the tree."""
    assert Layout().kind(path) == kind


def test_the_tree_settles_a_testing_folder() -> None:
    """`testing/` holds tests in one project and shipped helpers in another."""
    shipped = Layout(["pkg/__init__.py", "pkg/testing/__init__.py", "pkg/testing/fake.py"])
    suite = Layout(["pkg/__init__.py", "pkg/testing/test_fake.py", "pkg/testing/fake.py"])
    assert shipped.kind("pkg/testing/fake.py") == "product"
    assert suite.kind("pkg/testing/fake.py") == "test-helper"


def test_the_tree_settles_a_shipped_test_module() -> None:
    """`pkg/test_utils.py` is product where pkg is a package, a helper where it is a test folder."""
    assert Layout(["pkg/__init__.py", "pkg/a.py"]).kind("pkg/test_utils.py") == "product"
    assert Layout(["checks/a.py", "checks/test_b.py"]).kind("checks/test_utils.py") == "test-helper"
