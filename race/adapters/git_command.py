"""git on one repository, through GitPython, so that nothing of its own configuration can run or speak.

No external diff, text conversion, hook or file system monitor runs, and nothing is ever written to the
repository: no index, no ref, no object.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from git import Git
from git.exc import GitCommandError, GitCommandNotFound

from race.errors import Accident, Malformed, Missing

_CONFIG = {
    "safe.directory": "*", "core.fsmonitor": "false", "core.hooksPath": os.devnull,
    "core.quotePath": "false", "core.attributesFile": os.devnull, "core.abbrev": "40",
    "diff.noprefix": "false", "diff.mnemonicPrefix": "false", "diff.algorithm": "myers",
    "diff.indentHeuristic": "true", "diff.orderFile": "", "diff.context": "3",
    "diff.interHunkContext": "0", "diff.suppressBlankEmpty": "false", "log.showSignature": "false",
    "i18n.logOutputEncoding": "UTF-8",
}  # fmt: skip
"""Said to every git command, over whatever the repository's own configuration says."""


class GitCommand:
    """Runs git on the repository at `path`, a work tree or bare. Malformed when there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git_dir = _git_dir(path)
        self._git = Git(str(path))
        self._git.update_environment(**_environment(self.git_dir))
        self.close = weakref.finalize(self, self._git.clear_cache)
        """Ends the process that reads objects; called when this object is gone, or before."""
        self._lock = threading.Lock()

    @property
    def objects(self) -> Path:
        """The folder of the object store, which a linked work tree shares with its main one."""
        common = self.git_dir / "commondir"
        if common.is_file():
            return (self.git_dir / common.read_text().strip() / "objects").resolve()
        return self.git_dir / "objects"

    def object(self, name: str) -> tuple[str, bytes] | None:
        """Kind and content of an object by any name that git understands, or None."""
        with self._lock:
            try:
                _, kind, _, data = self._git.get_object_data(name)
            except ValueError:
                return None
        return (kind.decode() if isinstance(kind, bytes) else kind), bytes(data)

    def output(self, arguments: list[str], stdin: BinaryIO | None = None) -> bytes:
        """The whole output of a command. Malformed, or Accident on a full disk, when it fails."""
        with self.reading(arguments, stdin) as stream:
            return stream.read()

    @contextmanager
    def reading(self, arguments: list[str], stdin: BinaryIO | None = None) -> Iterator[IO[bytes]]:
        """The output of a command as a stream; it must have succeeded when the block ends."""
        command = ["git", *arguments]
        try:
            process: Any = self._git.execute(command, as_process=True, istream=stdin)
        except GitCommandNotFound as error:
            raise Missing("there is no git on this machine; install it") from error
        try:
            yield process.stdout
        except GeneratorExit:
            process.terminate()
            raise
        try:
            process.wait()
        except GitCommandError as error:
            raise self._foreign(error, arguments[0]) from error

    def run(self, arguments: list[str], environment: Mapping[str, str]) -> bytes:
        """A command with more in its environment; what it printed."""
        try:
            done = self._git.execute(
                ["git", *arguments],
                env={**_environment(self.git_dir), **environment},
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        except GitCommandError as error:
            raise self._foreign(error, arguments[0]) from error
        assert isinstance(done, bytes)
        return done

    def _foreign(self, error: GitCommandError, doing: str) -> Malformed | Accident:
        said = str(error.stderr or "").strip().removeprefix("stderr: ").strip("'\n ")
        line = said.splitlines()[0] if said else f"exit {error.status}"
        if "No space left" in said:
            return Accident(f"{self.path}: git {doing}: {line}")
        return Malformed(self.path, f"git {doing}", line)


def _environment(git_dir: Path) -> dict[str, str]:
    return {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_DIR": str(git_dir),
        "GIT_CONFIG_COUNT": str(len(_CONFIG)),
        "LC_ALL": "C",
    } | {
        f"GIT_CONFIG_{part}_{index}": (name, value)[part == "VALUE"]
        for index, (name, value) in enumerate(_CONFIG.items())
        for part in ("KEY", "VALUE")
    }


def _git_dir(path: Path) -> Path:
    """The git directory of a repository, bare or not. Malformed when the path is none."""
    if not path.exists():
        raise Malformed(path, "", "no such folder")
    for candidate in (path / ".git", path):
        if candidate.is_file():
            told = candidate.read_text(errors="replace").strip()
            if told.startswith("gitdir: "):
                return (path / told.removeprefix("gitdir: ")).resolve()
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
            return candidate.resolve()
        if (candidate / "HEAD").is_file() and (candidate / "commondir").is_file():
            return candidate.resolve()
    raise Malformed(path, "", "not a git repository")
