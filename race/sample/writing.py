"""Writes the sample project as a git repository, with the same hashes every time."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from race.errors import Accident, Missing, UsageError
from race.sample.changes import Change, Commit, changes

REPO = "sample/brook"
HEAD = "af81b47f5f5c02596b8038a7ebd770c6bbad9430"
"""The last commit of the main branch: whoever writes the sample gets this one."""

_AUTHOR = ("Sample Author", "sample@example.invalid")


def write_sample(directory: Path) -> None:
    """Write the repository, or leave it as it is when it is there already.

    It appears whole or not at all. Raises UsageError when something else lies there, Missing
    without git, Accident when git fails.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        if _head(directory) == HEAD:
            return
        raise UsageError(f"{directory} is there already and is not the sample project")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}-"))
    except OSError as error:
        raise Accident(f"{directory}: cannot write: {error.strerror}") from error
    try:
        written = _Repository(work).write()
        if written != HEAD:
            raise Accident(f"the sample's history came out as {written}, not as {HEAD}")
        os.chmod(work, 0o755)
        if directory.exists():
            directory.rmdir()
        work.rename(directory)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _head(directory: Path) -> str:
    if not (directory / ".git").is_dir():
        return ""
    try:
        return _git(directory, "rev-parse", "--verify", "--quiet", "refs/heads/main").strip()
    except Accident:
        return ""


def _git(work: Path, *arguments: str, given: bytes = b"", date: str = "") -> str:
    """One git command, untouched by the configuration of this machine and its user."""
    name, address = _AUTHOR
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
    }
    if date:
        environment |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    try:
        done = subprocess.run(
            ["git", "-C", str(work), *arguments], input=given, env=environment, capture_output=True
        )
    except FileNotFoundError as error:
        raise Missing("the sample project needs git; install it and run again") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"exit {done.returncode}"
        raise Accident(f"git {arguments[0]} in {work}: {said.splitlines()[-1]}")
    return done.stdout.decode()


class _Repository:
    """Replays the history into an empty folder by git's plumbing."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._main: list[str] = []

    def write(self) -> str:
        """The whole history and a clean work tree; the last commit."""
        _git(self._work, "init", "--quiet", "--initial-branch=main", "--template=")
        for change in changes():
            self._main.append(self._merge(change) if change.style == "merge" else self._flat(change))
        _git(self._work, "update-ref", "refs/heads/main", self._main[-1])
        _git(self._work, "reset", "--quiet", "--hard")
        return self._main[-1]

    def _flat(self, change: Change) -> str:
        parents = self._main[-1:]
        tree = self._tree(parents, change.commits)
        return self._commit(tree, parents, change.message, change.date)

    def _merge(self, change: Change) -> str:
        tip = self._main[-1 - change.behind]
        for commit in change.commits:
            tree = self._tree([tip], (commit,))
            tip = self._commit(tree, [tip], commit.subject + "\n", commit.date)
        tree = self._tree(self._main[-1:], change.commits)
        return self._commit(tree, [self._main[-1], tip], change.message, change.date)

    def _tree(self, start: list[str], commits: tuple[Commit, ...]) -> str:
        _git(self._work, "read-tree", *(start or ["--empty"]))
        for commit in commits:
            _git(self._work, "apply", "--cached", "--whitespace=nowarn", given=commit.diff)
        return _git(self._work, "write-tree").strip()

    def _commit(self, tree: str, parents: list[str], message: str, date: str) -> str:
        named = [word for parent in parents for word in ("-p", parent)]
        return _git(self._work, "commit-tree", tree, *named, given=message.encode(), date=date).strip()
