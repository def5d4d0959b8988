"""Requirements files as pip reads them, as far as a resolver by date can use them."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from race.core.environment.declared import SELF, Tree, parsed
from race.errors import Malformed

FOLDERS = (
    "",
    "requirements/",
    "requirements.d/",
    "reqs/",
    "tests/",
    "test/",
    "ci/",
    ".github/",
    "tools/",
)
WITH_VALUE = {
    "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--group",
    "--extra", "--resolution", "--python", "-p", "--target", "-t", "--prefix",
}  # fmt: skip
TEST_WORDS = {"test", "tests", "testing", "ci", "pytest", "unit"}
DEV_WORDS = {"dev", "develop", "development"}
RUN_WORDS = {"requirements", "requirement", "base", "main", "install"}


OWN = re.compile(r"^(?:-e\s+|--editable[= ]\s*)?\.(?:/)?\[([\w\s,.-]+)\]")


def read_requirements(tree: Tree, path: str, seen: tuple[str, ...] = ()) -> list[str]:
    """The requirements of a file and of those it includes; options, links and paths are left out.

    Raises Malformed when files include each other in a cycle.
    """
    if path in seen:
        raise Malformed(path, "", f"requirements files include each other: {' -> '.join((*seen, path))}")
    found: list[str] = []
    for line in _lines(tree.get(path, b"").decode("utf-8-sig", "replace")):
        included = included_file(line)
        if included is not None:
            found += read_requirements(tree, _beside(path, included), (*seen, path))
        elif match := OWN.match(line):
            found.append(f"{SELF}[{match[1]}]")
        elif not line.startswith("-"):
            text = re.split(r"\s--", line)[0].strip()
            if parsed(text) is not None:
                found.append(text)
    return found


def included_file(line: str) -> str | None:
    """The file that a line includes with -r, or None."""
    match = re.match(r"^(?:-r|--requirement)[= ]?\s*(\S+)$", line)
    return match[1] if match else None


def _lines(text: str) -> Iterator[str]:
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        if line:
            yield line


def _beside(path: str, other: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), other))


def requirement_files(tree: Tree) -> dict[str, str]:
    """Requirements files by path: `test`, `dev` or `run` for what their name says they are for."""
    found: dict[str, str] = {}
    for path in sorted(tree):
        folder, _, name = path.rpartition("/")
        match = re.fullmatch(r"(.+)\.(?:txt|in|pip)", name.lower())
        if match is None or (folder + "/" if folder else "") not in FOLDERS:
            continue
        words = set(re.split(r"[-_.]", match[1]))
        named = words & {"requirements", "requirement", "reqs", "req"} or folder.startswith("req")
        if not named or words & {"constraints", "lock"}:
            continue
        if words & TEST_WORDS or folder in ("tests", "test"):
            found[path] = "test"
        elif words & DEV_WORDS:
            found[path] = "dev"
        elif words <= RUN_WORDS:
            found[path] = "run"
    return found


def words_of(line: str) -> list[str]:
    """A shell line's words; an unbalanced quote gives plain splitting."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def pip_words(words: list[str], tree: Tree, at: str = "") -> tuple[list[str], list[str]]:
    """What the words after `pip install` ask for: requirements, and extras of the project itself."""
    requirements: list[str] = []
    extras: list[str] = []
    waiting = [*words]
    while waiting:
        word = waiting.pop(0)
        if word in ("-r", "--requirement") and waiting:
            requirements += read_requirements(
                tree, posixpath.normpath(posixpath.join(at, waiting.pop(0)))
            )
        elif word.startswith(("-r", "--requirement=")) and not word.startswith("--r"):
            requirements += read_requirements(tree, posixpath.normpath(posixpath.join(at, word[2:])))
        elif word in WITH_VALUE and waiting:
            waiting.pop(0)
        elif match := re.match(r"^\.(?:/)?\[([^\]]+)\]", word):
            extras += [extra.strip() for extra in match[1].split(",")]
        elif re.match(r"^[A-Za-z0-9]", word) and "$" not in word and parsed(word) is not None:
            requirements.append(word)
    return requirements, extras
