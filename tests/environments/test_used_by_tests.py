"""What tests use that no requirement names."""

from __future__ import annotations

from race.core.environment.imports import distribution_of, missing_modules, used_by_tests
from race.core.environment.wheels import best_wheel, wheel_tags

TREE = {"src/thing/__init__.py": b"", "tests/helpers.py": b"",
        "tests/conftest.py": b"import pytest\n@pytest.fixture\ndef snapshot(): ...\n"}  # fmt: skip


def names(source: str) -> set[str]:
    """The distributions that a test file of this text uses."""
    return {use.distribution for use in used_by_tests({"tests/test_a.py": source.encode()}, TREE)}


def test_imports_of_the_project_and_the_standard_library_are_not_asked_for() -> None:
    """Only what comes from elsewhere counts, under the name that an index knows."""
    assert names("import asyncio, yaml\nfrom thing import x\nimport helpers\n") == {"pyyaml"}


def test_guarded_imports_are_not_demanded() -> None:
    """`try` around an import, TYPE_CHECKING and importorskip mean that the test can do without."""
    source = "try:\n    import gevent\nexcept ImportError:\n    gevent = None\n"
    source += "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import trio\n"
    assert names(source + "import pytest\npytest.importorskip('uvloop')\n") == {"pytest"}


def test_imports_inside_functions_count() -> None:
    """A module that a test imports while it runs is needed as well."""
    assert names("def test_a():\n    import trio\n") == {"trio"}


def test_fixtures_and_markers_name_their_plugins() -> None:
    """`mocker` and `@pytest.mark.asyncio` mean plugins, unless the project defines that fixture."""
    source = "import pytest\n@pytest.mark.asyncio\nasync def test_a(mocker, snapshot): ...\n"
    assert names(source) == {"pytest", "pytest-mock", "pytest-asyncio"}


def test_missing_modules_of_a_failed_run() -> None:
    """Both spellings of the error are understood, each module is told once."""
    said = "E   ModuleNotFoundError: No module named 'a.b'\nImportError: No module named c\n"
    assert missing_modules(said + said) == ["a.b", "c"]
    assert distribution_of("google.protobuf") == "protobuf"


def test_the_wheel_of_the_right_platform_is_chosen() -> None:
    """Compiled for this Python before the stable ABI before pure; never another platform's."""
    tags = wheel_tags("3.11", "x86_64")
    every = [{"url": f"https://example.invalid/a-1-{tag}.whl"} for tag in (
        "cp311-cp311-win_amd64", "cp311-cp311-musllinux_1_1_x86_64", "py3-none-any",
        "cp39-abi3-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_39_x86_64")]  # fmt: skip
    assert "cp311-cp311-manylinux_2_28" in str(best_wheel(every, tags))
    assert best_wheel(every[:2], tags) is None
