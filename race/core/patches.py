"""What a submitted patch touches, and what of it may be graded.

A patch is read and judged before anything applies it: what could only serve to deceive the grader
is refused, what is not product code (tests, configuration, packaging, docs) is set aside, and the
rest is graded. The same code runs here and inside test images, on Python 3.8 and newer, so this
module, `unified_diff` and `paths` import nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from race.core.paths import Layout
from race.core.unified_diff import Change, Unreadable, read_patch, without_carriage_returns

SIZE_LIMIT = 50 * 2**20
START_UP = frozenset({"sitecustomize", "usercustomize"})
"""Modules that an interpreter imports by itself when it finds them."""
RUNNER_FILES = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg",
     "pyproject.toml", ".coveragerc", ".env", ".envrc", ".flaskenv", "pyvenv.cfg", ".gitattributes",
     ".gitmodules", ".gitignore", ".gitconfig", ".mailmap", ".pdbrc", ".netrc", ".pypirc", ".condarc"}
)  # fmt: skip
"""Files that steer a runner, a shell or git wherever they lie."""
_COMPILED = re.compile(r"\.(pyc|pyo|so(\.[0-9.]+)?|pyd|dll|dylib|o|a|obj|lib|exe|class|wasm|whl|egg)$")
_CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox",
     ".cache", "htmlcov", ".eggs", ".idea", ".vscode", "node_modules", ".venv", "venv"}
)  # fmt: skip
_AROUND = frozenset({"test", "test-data", "test-helper", "ci", "build", "docs", "changelog"})
_IGNORED = re.compile("[\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff]")


@dataclass(frozen=True)
class Judgement:
    """What may be graded.

    `verdict` is empty when there is something to grade, `unresolved` for a patch that says nothing,
    `refused` for one that may not be applied; `reasons` say why. `graded` is the patch of the product
    files alone, `product` their paths, `set_aside` the paths that are not graded.
    """

    verdict: str
    reasons: tuple[str, ...] = ()
    graded: bytes = b""
    product: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    """Product files that end because they are renamed to a path that is set aside."""


@dataclass(frozen=True)
class Surroundings:
    """What a judgement needs to know of the task.

    `tree` are the paths at the base, `hidden` those that the hidden tests own, `taken` the names of
    modules that the environment has (standard library, runner, dependencies).
    """

    tree: Collection[str] = ()
    hidden: Collection[str] = ()
    taken: Collection[str] = field(default_factory=frozenset)


def nothing_to_apply(patch: bytes) -> str:
    """Why a submission is unresolved without a look at any container, or an empty string."""
    if not patch.strip():
        return "the submission is empty"
    if not re.search(rb"^(diff --git |--- [^\n]*\n\+\+\+ )", patch, re.MULTILINE):
        return "the submission is no unified diff"
    return ""


def judge(patch: bytes, around: Surroundings) -> Judgement:
    """Decide what of a patch is graded."""
    nothing = nothing_to_apply(patch)
    if nothing:
        return Judgement("unresolved", (nothing,))
    if len(patch) > SIZE_LIMIT:
        return Judgement("refused", (f"the patch is larger than {SIZE_LIMIT // 2**20} MiB",))
    try:
        changes = read_patch(without_carriage_returns(patch))
    except Unreadable as error:
        return Judgement("refused", (f"the patch does not parse: {error}",))
    if not changes:
        return Judgement("unresolved", ("the submission changes no file",))
    return judge_changes(changes, around)


def judge_changes(changes: Iterable[Change], around: Surroundings) -> Judgement:
    """Decide what of a list of changes is graded."""
    layout = Layout(around.tree)
    known = frozenset(around.tree)
    hidden = frozenset(around.hidden)
    reasons: list[str] = []
    sections: list[bytes] = []
    product: dict[str, None] = {}
    aside: dict[str, None] = {}
    gone: list[str] = []
    for change in changes:
        problem = _forbidden(change, hidden)
        if problem:
            reasons.append(problem)
            continue
        kept = [path for path in change.changed if is_product(path, layout, hidden, known)]
        if change.binary and not any(layout.kind(path) == "product" for path in kept):
            kept = []
        aside.update(dict.fromkeys(path for path in change.changed if path not in kept))
        if not kept:
            continue
        problem = _misplaced(change, kept, known, around.taken)
        if problem:
            reasons.append(problem)
            continue
        product.update(dict.fromkeys(kept))
        if change.new in kept or not change.new:
            sections.append(change.section)
        else:
            gone.append(change.old)
    if reasons:
        return Judgement("refused", tuple(reasons), b"", (), tuple(aside))
    if not product:
        why = "nothing of the submission is product code"
        return Judgement("unresolved", (why,), b"", (), tuple(aside))
    return Judgement("", (), b"".join(sections), tuple(product), tuple(aside), tuple(gone))


def is_product(path: str, layout: Layout, hidden: Collection[str], known: Collection[str] = ()) -> bool:
    """Is this a file that a fix may be in? Tests, settings, packaging and docs are not.

    What lies in a package is, however it is called: a text that the package reads, `pkg/setup.py`, or a
    new `pkg/load_test.py`, which no listed test can be in. `known` are the paths at the base.
    """
    parts = path.split("/")
    name = parts[-1].lower()
    if path in hidden or name in RUNNER_FILES or name.startswith(".env"):
        return False
    if any(part in _CACHES or part.endswith((".egg-info", ".dist-info")) for part in parts):
        return False
    kind = layout.kind(path)
    if kind not in _AROUND:
        return True
    shipped = kind in ("docs", "changelog", "build") or (kind == "test" and path not in known)
    return shipped and layout.in_package(path)


def _forbidden(change: Change, hidden: Collection[str]) -> str:
    """Why a change may not be applied whatever side it is on, or an empty string."""
    for path in change.paths:
        shown = path.encode("unicode_escape").decode()
        if not path.isprintable() or "\\" in path:
            return f"{shown}: unprintable characters or a backslash in a path"
        parts = path.split("/")
        if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
            return f"{shown}: not a plain relative path"
        if any(_is_git(part) for part in parts):
            return f"{shown}: inside git's own folder"
        if len(path) > 1000 or any(len(part.encode()) > 255 for part in parts):
            return f"{shown[:80]}...: the path is too long"
        stem = parts[-1].split(".")[0].lower()
        if parts[-1].lower().endswith((".pth", ".egg-link")) or START_UP & {stem, *parts[:-1]}:
            return f"{shown}: a file that Python runs or reads by itself at start"
        if any(owned.startswith(path + "/") for owned in hidden):
            return f"{shown}: stands where a folder of hidden tests has to be"
    for mode in change.modes:
        if mode == "120000":
            return f"{change.new or change.old}: a symbolic link"
        if mode == "160000":
            return f"{change.new or change.old}: a submodule"
        if mode not in ("100644", "100755", "100664", "100600"):
            return f"{change.new or change.old}: file mode {mode}"
    return ""


def _is_git(part: str) -> bool:
    """Does a file system or git itself take this name for `.git`?"""
    plain = _IGNORED.sub("", part.lower()).rstrip(" .").partition(":")[0]
    return plain in (".git", "git~1")


def _misplaced(change: Change, kept: list[str], known: Collection[str], taken: Collection[str]) -> str:
    """Why a change of product files may not be applied, or an empty string."""
    for path in kept:
        if _COMPILED.search(path.lower()):
            return f"{path}: a compiled or packed file"
        if path in known or path != change.new:
            continue
        for root in ("", "src/", "lib/", "python/"):
            if not path.startswith(root):
                continue
            first = path[len(root) :].split("/")[0]
            module = first.split(".")[0]
            if module in taken and not _exists(root + first, known) and _is_code(path):
                return f"{path}: takes the name of the module {module}, which is not the project's"
    if change.binary:
        return f"{kept[0]}: a binary change of product code"
    return ""


def _exists(entry: str, known: Collection[str]) -> bool:
    return entry in known or any(path.startswith(entry + "/") for path in known)


def _is_code(path: str) -> bool:
    return path.endswith((".py", ".pyi", ".pyx", ".pyw")) or "." not in path.rsplit("/", 1)[-1]
