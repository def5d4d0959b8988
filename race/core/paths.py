"""What a path of a Python project is for: product, one of the test sides, or something around it.

Decided by where a file lies and how it is called, never by what a project is called. Names that two
layouts use for different things (`testing/` is a test folder of one project and a shipped module of
another) are settled by the tree, when it is given.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

PathKind = Literal[
    "product", "test", "test-data", "test-helper", "docs", "changelog", "ci", "build", "other"
]
TEST_SIDE: frozenset[PathKind] = frozenset({"test", "test-data", "test-helper"})
"""What belongs to a test patch."""

_TEST_FOLDERS = frozenset(
    {"test", "tests", "testsuite", "testsuites", "unittests", "unit_tests", "integration_tests",
     "functional_tests", "tests_unit", "tests_integration", "test_suite", "t"}
)  # fmt: skip
_DOC_FOLDERS = frozenset({"doc", "docs", "documentation", "docs_src", "docs-src", "site"})
_NEWS_FOLDERS = frozenset(
    {"newsfragments", "newsfragment", "news", "changes", "changelog", "changelog.d", "changes.d",
     "releasenotes", "release-notes", "release_notes", "changelogs", "whatsnew", "upcoming_changes",
     "towncrier", "changelog_fragments"}
)  # fmt: skip
_AROUND_FOLDERS = frozenset(
    {"example", "examples", "demo", "demos", "sample", "samples", "bench", "benchmark", "benchmarks",
     "asv_bench", "tutorial", "tutorials", "cookbook", "notebooks", "script", "scripts", "tools",
     "contrib_scripts", "perf", "misc", "fuzz", "fuzzing", "vendor", "third_party",
     "_vendor", "_vendored", "vendored", "extern"}
)  # fmt: skip
_CI_FOLDERS = frozenset(
    {".github", ".circleci", ".gitlab", ".azure-pipelines", ".azure", ".travis", ".ci", ".buildkite",
     ".woodpecker", ".devcontainer", ".zuul.d", ".semaphore", "ci", "continuous_integration"}
)  # fmt: skip
_CI_FILES = frozenset(
    {".travis.yml", ".gitlab-ci.yml", "azure-pipelines.yml", "appveyor.yml", ".appveyor.yml",
     ".pre-commit-config.yaml", ".codecov.yml", "codecov.yml", ".coveragerc", "jenkinsfile",
     ".cirrus.yml", ".readthedocs.yml", ".readthedocs.yaml", "readthedocs.yml", ".gitattributes",
     ".gitignore", ".editorconfig", ".dockerignore", ".mailmap", ".flake8", ".pylintrc", "mypy.ini",
     ".mypy.ini", "ruff.toml", ".ruff.toml", ".isort.cfg", "renovate.json", ".git-blame-ignore-revs",
     ".gitmodules", "codeowners", "dockerfile", "docker-compose.yml", "docker-compose.yaml",
     "compose.yaml", "compose.yml", ".bumpversion.cfg", ".coderabbit.yaml"}
)  # fmt: skip
_BUILD_FILES = frozenset(
    {"pyproject.toml", "setup.py", "setup.cfg", "manifest.in", "tox.ini", "noxfile.py", "makefile",
     "meson.build", "pdm.lock", "poetry.lock", "uv.lock", "pipfile", "pipfile.lock", "hatch.toml",
     "environment.yml", "environment.yaml", "pytest.ini", "tox.toml", "justfile", "tasks.py",
     "versioneer.py", "build.py", "cargo.toml", "cargo.lock", "pixi.toml", "pixi.lock", "flake.nix",
     "conda.yaml", "meta.yaml", "py.typed.in", "cmakelists.txt", "package.json",
     "package-lock.json", "runtime.txt", "constraints.txt", "hatch_build.py", ".python-version",
     "pytest.toml", "taskfile.yml", "fabfile.py", "dodo.py"}
)  # fmt: skip
_REQUIREMENTS = re.compile(r"^(.*requirements.*|constraints.*|.*-deps)\.(txt|in|lock)$")
_CHANGELOG = re.compile(
    r"^(changes|changelog|news|history|release[-_ ]?notes?|whatsnew|versionhistory|releases?)"
    r"([-_.].*)?$"
)
_DOC_NAMES = re.compile(
    r"^(readme|contributing|contributors|authors|licen[cs]e|copying|notice|code_of_conduct|security|"
    r"support|governance|maintainers|credits|citation|upgrading|migration|migrating|thanks|todo|"
    r"agents|claude|roadmap|faq)([-_.].*)?$"
)
_TEXT = (".rst", ".md", ".markdown", ".adoc", ".txt", "")
_CODE = (
    ".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".cc", ".cpp", ".hpp", ".cxx", ".rs", ".go",
)  # fmt: skip
_TEST_NAME = re.compile(r"^(test_.*|tests?|.*_tests?)\.py$")
_HELPER_NAME = re.compile(
    r"^(conftest|(.*_)?(test|tests)_?(utils?|utilities|helpers?|case|cases|base))\.py$"
)
_HELPER_SUFFIX = re.compile(r"^(utils?|helpers?|utilities)_tests?\.py$")
_SHIPPED_NAMES = frozenset(
    {"test_utils.py", "test_util.py", "testutils.py", "test_helpers.py", "test_client.py",
     "test_cases.py", "test_case.py", "testing.py", "testclient.py", "test.py", "tests.py"}
)  # fmt: skip


class Layout:
    """The layout of one tree. Without a tree, ambiguous names get their commonest meaning."""

    def __init__(self, tree: Collection[str] = ()) -> None:
        self._known = bool(tree)
        self._packages: set[str] = set()
        self._testing: set[str] = set()
        for path in tree:
            folder, _, name = path.rpartition("/")
            if name == "__init__.py":
                self._packages.add(folder)
            elif name.endswith(".py") and name.startswith("test_"):
                self._testing.add(folder)

    def kind(self, path: str) -> PathKind:
        """What this path is for."""
        *folders, name = path.split("/")
        lower = name.lower()
        parts = [part.lower() for part in folders]
        if self._in_tests(folders):
            return _inside_tests(lower)
        if lower == "conftest.py" or _HELPER_SUFFIX.match(lower):
            return "test-helper"
        if _HELPER_NAME.match(lower) and not self._shipped(folders, lower):
            return "test-helper"
        if _TEST_NAME.match(lower) and not self._shipped(folders, lower):
            return "test"
        if parts and (parts[0] in _CI_FOLDERS or parts[0].startswith(".")):
            return "ci"
        return _outside(parts, lower, suffix_of(lower))

    def in_package(self, path: str) -> bool:
        """Does this path lie in a package, or a folder of one, and not among tests?"""
        folders = path.split("/")[:-1]
        if self._in_tests(folders) or "/".join(folders) in self._testing:
            return False
        return any("/".join(folders[:depth]) in self._packages for depth in range(1, len(folders) + 1))

    def _in_tests(self, folders: list[str]) -> bool:
        for depth, part in enumerate(folders):
            lower = part.lower()
            if lower in _TEST_FOLDERS and (lower != "t" or depth == 0):
                return not (lower == "test" and depth and self._is_package(folders[: depth + 1]))
            if re.match(
                r"^(test_|tests_)[a-z0-9_]+$|^[a-z0-9_]+_tests$", lower
            ) and not self._is_package(folders[: depth + 1]):
                return True
            if lower == "testing" and self._testing_holds_tests(folders[: depth + 1]):
                return True
        return False

    def _is_package(self, folders: list[str]) -> bool:
        """A folder `test_x/` or `pkg/test/` with modules but no test modules is shipped code."""
        folder = "/".join(folders)
        return (
            self._known
            and folder in self._packages
            and not any(known == folder or known.startswith(folder + "/") for known in self._testing)
        )

    def _testing_holds_tests(self, folders: list[str]) -> bool:
        folder = "/".join(folders)
        if not self._known:
            return len(folders) == 1
        return any(known == folder or known.startswith(folder + "/") for known in self._testing)

    def _shipped(self, folders: list[str], name: str) -> bool:
        """Is this test-like name a module that a package ships, such as `pkg/test_utils.py`?

        It is when its folder is a package that holds no other test module.
        """
        if name not in _SHIPPED_NAMES or not folders:
            return False
        folder = "/".join(folders)
        if not self._known:
            return name not in ("test.py", "tests.py")
        return folder in self._packages and name not in ("tests.py",)


_TEST_FOLDER_NAME = re.compile(r"^(test_|tests_)[a-z0-9_]+$|^[a-z0-9_]+_tests$")


def is_ambiguous(path: str) -> bool:
    """Can the tree change what this path is for? If not, a Layout without a tree is enough."""
    *folders, name = path.lower().split("/")
    if name in _SHIPPED_NAMES and folders:
        return True
    if "test" in folders[1:]:
        return True
    return any(part == "testing" or _TEST_FOLDER_NAME.match(part) for part in folders)


def suffix_of(name: str) -> str:
    """The last suffix with its dot, or an empty string."""
    stem, dot, suffix = name.rpartition(".")
    return dot + suffix if stem else ""


def _inside_tests(name: str) -> PathKind:
    if not name.endswith((".py", ".pyx", ".pyi")):
        return "docs" if _DOC_NAMES.match(name) and suffix_of(name) in _TEXT else "test-data"
    if re.match(r"^(test_?.*|.*_?tests?)\.pyx?$", name) and not _HELPER_NAME.match(name):
        return "test-helper" if _HELPER_SUFFIX.match(name) else "test"
    return "test-helper"


def _outside(parts: list[str], name: str, suffix: str) -> PathKind:
    if any(part in _NEWS_FOLDERS for part in parts) and suffix not in _CODE:
        return "changelog"
    if _CHANGELOG.match(name) and suffix not in _CODE:
        return "changelog"
    if parts and parts[0] in _DOC_FOLDERS:
        return "docs"
    if name in _CI_FILES and (suffix != ".py"):
        return "ci"
    if (name in _BUILD_FILES and not _deep_module(parts, name)) or _REQUIREMENTS.match(name):
        return "build"
    if parts and parts[0] in (
        "requirements",
        "requirement",
        "packaging",
        "conda",
        "dist",
        "build_tools",
    ):
        return "build"
    if any(part in _AROUND_FOLDERS for part in (parts[:1] + parts[-1:])):
        return "other"
    if _DOC_NAMES.match(name) and suffix in _TEXT:
        return "docs"
    if suffix in _CODE:
        return "product"
    if suffix in (".md", ".rst", ".ipynb", ".adoc", ".svg", ".png", ".gif", ".jpg"):
        return "docs" if len(parts) <= 1 or "docs" in parts else "product"
    return "product" if parts else "other"


def _deep_module(parts: list[str], name: str) -> bool:
    """`pkg/build.py` and `pkg/tasks.py` are modules; `build.py` at the top is not."""
    return name in ("build.py", "tasks.py", "fabfile.py", "dodo.py") and bool(parts)


def is_code(path: str) -> bool:
    """Source code that a change of behaviour can be in: Python, Cython, C, C++, Rust."""
    return suffix_of(path.rsplit("/", 1)[-1].lower()) in _CODE
