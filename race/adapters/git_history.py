"""A local clone as a project's history, through GitPython.

Nothing is ever written to the clone: no index, no ref, no object. The clone's own configuration
cannot run anything (no external diff, no text conversion, no hooks, no file system monitor).
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

from git import Git
from git.exc import GitCommandError, GitCommandNotFound

from race.adapters.git_output import cut_pairs, tar_of
from race.core.mining.facts import Changed, PullRequestFacts
from race.core.mining.links import linked_issues, numbered
from race.core.records import PullRequest
from race.errors import Accident, Malformed, Missing

_CONFIG = {
    "safe.directory": "*", "core.fsmonitor": "false", "core.hooksPath": os.devnull,
    "core.quotePath": "false", "core.attributesFile": os.devnull, "core.abbrev": "40",
    "diff.noprefix": "false", "diff.mnemonicPrefix": "false", "diff.algorithm": "myers",
    "diff.indentHeuristic": "true", "diff.orderFile": "", "diff.context": "3",
    "diff.interHunkContext": "0", "diff.suppressBlankEmpty": "false", "log.showSignature": "false",
    "i18n.logOutputEncoding": "UTF-8",
}  # fmt: skip
"""Said to every git command, over whatever the clone's own configuration says."""
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--full-index", "--binary")
_FUNCTION = r"^([[:space:]]{0,4}(class|async def|def|cdef|cpdef)[[:space:]].*)$"
_FIELDS = "%H%x1f%T%x1f%P%x1f%cI%x1f%aI%x1f%s%x1f%b"


@dataclass(frozen=True)
class _Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    committed: str
    authored: str
    subject: str
    body: str


class GitHistory:
    """Merged pull requests of one clone, along the first parents of its HEAD.

    A merge commit is a pull request when its subject says so, a single commit when its subject ends
    with the number. `facts` adds what the clone does not say: rebase merges by their last commit
    and their base, titles, bodies, linked issues.
    """

    def __init__(
        self, path: Path, repo: str, *, facts: Mapping[int, PullRequestFacts] | None = None
    ) -> None:
        self.path, self.repo = path, repo
        self._facts = dict(facts or {})
        self._git_dir = _git_dir(path)
        self._git = Git(str(path))
        self._git.update_environment(**_environment(self._git_dir))
        self.close = weakref.finalize(self, self._git.clear_cache)
        """Ends the process that reads objects; called when this object is gone, or before."""
        self._lock = threading.Lock()
        self._trees: dict[str, str] = {}

    # -- History ---------------------------------------------------------------------------

    def pull_requests(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[PullRequest]:
        """Merged pull requests, newest first. A number that occurs twice is its oldest commit."""
        found: dict[int, PullRequest] = {}
        commits = self._commits("HEAD")
        for commit in commits:
            self._trees[commit.sha] = commit.tree
        for commit in commits:
            request = self._request(commit)
            if request is not None and request.number not in self._facts:
                found.pop(request.number, None)
                found[request.number] = request
        self._name(found)
        for number, facts in self._facts.items():
            found[number] = self._request_from_facts(number, facts)
        ordered = sorted(found.values(), key=lambda request: request.number, reverse=True)
        ordered.sort(key=lambda request: request.merged_at, reverse=True)
        for request in ordered:
            merged = datetime.fromisoformat(request.merged_at)
            if (since is None or merged >= since) and (until is None or merged < until):
                yield request

    def diff(self, base: str, commit: str) -> bytes:
        """The diff between two commits: binary-safe, full index lines, renames as delete and add."""
        with self._reading(["diff-tree", "-p", "-r", *_DIFF, base, commit]) as stream:
            return stream.read()

    def read(self, commit: str, path: str) -> bytes | None:
        """A file at a commit, or None when there is none (or a folder or submodule is there)."""
        if "\n" in path:
            return None
        with self._lock:
            try:
                _, kind, _, data = self._git.get_object_data(f"{commit}:{path}")
            except ValueError:
                return None
        return bytes(data) if kind in ("blob", b"blob") else None

    def files(self, commit: str) -> list[str]:
        """Every path at a commit, in git's order."""
        return [path for _, kind, _, path in self._tree(commit) if kind == "blob"]

    def archive(self, commit: str) -> bytes:
        """The tree at a commit as a deterministic tar: sorted names, zero times, owner 0.

        Made from the objects themselves, so that attributes of the tree (export-ignore,
        export-subst, text conversion) change nothing. A submodule becomes an empty folder.
        """
        return tar_of(self._tree(commit), self._blob)

    # -- for mining ------------------------------------------------------------------------

    def changes(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, list[Changed]]]:
        """Which files each pull request changes, in one pass over the history."""
        command = ["diff-tree", "--stdin", "-r", "--raw", "--no-abbrev", "--no-renames", "-z"]
        for request, data in self._for_each(command, requests, separated=True):
            fields = data.split(b"\0")
            changed = []
            for index in range(0, len(fields) - 1, 2):
                old_mode, new_mode, old, new, _ = fields[index].decode().lstrip(":").split(" ")
                changed.append(Changed(os.fsdecode(fields[index + 1]), old_mode, new_mode, old, new))
            yield request, changed

    def wide_diffs(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, bytes]]:
        """The diff of each pull request's code files, with the whole changed functions as context."""
        with tempfile.NamedTemporaryFile("w", suffix=".attributes") as attributes:
            attributes.write("*.py diff=race\n*.pyx diff=race\n*.pyi diff=race\n")
            attributes.flush()
            command = [
                "-c", f"core.attributesFile={attributes.name}", "-c", f"diff.race.xfuncname={_FUNCTION}",
                "diff-tree", "--stdin", "-r", "-p", "-W", *_DIFF[:-1], "--", *_WANTED,
            ]  # fmt: skip
            yield from self._for_each(command, requests, separated=False)

    def linked(self, request: PullRequest) -> tuple[str, ...]:
        """Issues that its message closes; a clone knows no others."""
        return request.linked_issues

    def issue_text(self, request: PullRequest) -> str:
        """A clone has no issues; what is known of them was given with the facts."""
        facts = self._facts.get(request.number)
        return facts.issue_text if facts is not None else ""

    def top(self, commit: str) -> dict[str, str]:
        """Names at the root of a tree, each with its object id."""
        with self._lock:
            try:
                data = bytes(self._git.get_object_data(f"{commit}^{{tree}}")[3])
            except ValueError as error:
                raise Malformed(self.path, commit, "the clone lacks this commit") from error
        names, index = {}, 0
        while index < len(data):
            space, end = data.index(b" ", index), data.index(b"\0", index)
            names[os.fsdecode(data[space + 1 : end])] = data[end + 1 : end + 21].hex()
            index = end + 21
        return names

    def tree_entries(self, commit: str) -> dict[str, tuple[str, str]]:
        """Mode and object id of every path at a commit."""
        return {path: (mode, sha) for mode, _, sha, path in self._tree(commit)}

    def applied(self, base: str, patches: Sequence[bytes]) -> dict[str, tuple[str, str]]:
        """What the patches make of the base, as `tree_entries` would say it of a commit.

        git applies them exactly, one after the other, in an index and an object store of its own.
        Malformed when one does not apply.
        """
        with tempfile.TemporaryDirectory(prefix="race-apply-") as scratch:
            (Path(scratch) / "objects").mkdir()
            environment = _environment(self._git_dir) | {
                "GIT_DIR": str(self._git_dir),
                "GIT_INDEX_FILE": f"{scratch}/index",
                "GIT_OBJECT_DIRECTORY": f"{scratch}/objects",
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(_objects(self._git_dir)),
            }
            self._run(["read-tree", base], environment)
            for patch in patches:
                if not patch:
                    continue
                file = Path(scratch) / "patch"
                file.write_bytes(patch)
                self._run(["apply", "--cached", "--whitespace=nowarn", str(file)], environment)
            listed = self._run(["ls-files", "-s", "-z"], environment)
        entries = {}
        for line in listed.split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, sha, _ = head.decode().split(" ")
            entries[os.fsdecode(path)] = (mode, sha)
        return entries

    # -- inside ----------------------------------------------------------------------------

    def _commits(self, *revisions: str) -> list[_Commit]:
        command = ["log", "-z", "--first-parent", f"--format={_FIELDS}", *revisions, "--"]
        with self._reading(command) as stream:
            text = stream.read().decode(errors="replace")
        commits = []
        for record in text.split("\0"):
            fields = record.split("\x1f")
            if len(fields) < 7:
                continue
            sha, tree, parents, committed, authored, subject = fields[:6]
            body = "\x1f".join(fields[6:]).strip()
            commits.append(
                _Commit(sha, tree, tuple(parents.split()), committed, authored, subject, body)
            )
        return commits

    def _name(self, found: dict[int, PullRequest]) -> None:
        """Give merges without a title of their own that of the last commit that they bring in."""
        nameless = [
            r for r in found.values() if r.merge_style == "merge" and r.title.startswith("Merge ")
        ]
        if not nameless:
            return
        tips = [f"{request.merge_commit}^2" for request in nameless]
        command = ["log", "-z", "--no-walk=unsorted", "--stdin", "--format=%s"]
        with tempfile.TemporaryFile() as asked:
            asked.write("".join(f"{tip}\n" for tip in tips).encode())
            asked.seek(0)
            with self._reading(command, asked) as stream:
                titles = stream.read().decode(errors="replace").rstrip("\0").split("\0")
        if len(titles) != len(nameless):
            return
        for request, title in zip(nameless, titles, strict=True):
            if title.strip():
                found[request.number] = request.model_copy(update={"title": title.strip()})

    def _request(self, commit: _Commit) -> PullRequest | None:
        named = numbered(commit.subject, commit.body, merge=len(commit.parents) > 1)
        if named is None or not commit.parents:
            return None
        merge = len(commit.parents) > 1 and named.merge
        return PullRequest(
            repo=self.repo,
            number=named.number,
            title=named.title,
            body=named.body,
            merged_at=utc(commit.committed),
            authored_at=utc(commit.authored),
            base_commit=commit.parents[0],
            merge_commit=commit.sha,
            merge_style="merge" if merge else "squash",
            linked_issues=linked_issues(f"{named.title}\n{named.body}", self.repo),
        )

    def _request_from_facts(self, number: int, facts: PullRequestFacts) -> PullRequest:
        command = ["log", "-1", "-z", f"--format={_FIELDS}", facts.merge_commit, "--"]
        try:
            with self._reading(command) as stream:
                record = stream.read().decode(errors="replace").rstrip("\0").split("\x1f")
        except Malformed as error:
            raise Malformed(self.path, f"#{number}", f"no commit {facts.merge_commit}") from error
        sha, tree, parents, committed, authored, subject = record[:6]
        self._trees[sha] = tree
        first = parents.split()
        if not first:
            raise Malformed(self.path, f"#{number}", f"{sha} has no parent")
        base = facts.base_commit or first[0]
        style: Literal["merge", "squash", "rebase"]
        style = "merge" if len(first) > 1 else "squash" if base == first[0] else "rebase"
        body = "\x1f".join(record[6:]).strip()
        named = numbered(subject, body, merge=len(first) > 1)
        title = facts.title or (named.title if named else subject)
        body = facts.body or (named.body if named else body)
        found = linked_issues(f"{title}\n{body}", self.repo)
        return PullRequest(
            repo=self.repo,
            number=number,
            title=title,
            body=body,
            merged_at=utc(facts.merged_at or committed),
            authored_at=utc(authored),
            base_commit=base,
            merge_commit=sha,
            merge_style=style,
            linked_issues=tuple(dict.fromkeys((*facts.linked_issues, *found))),
        )

    def _tree(self, commit: str) -> list[tuple[str, str, str, str]]:
        with self._reading(["ls-tree", "-r", "-z", "--full-tree", commit]) as stream:
            data = stream.read()
        entries = []
        for line in data.split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, kind, sha = head.decode().split()
            entries.append((mode, kind, sha, os.fsdecode(path)))
        return entries

    def _blob(self, sha: str) -> bytes:
        with self._lock:
            try:
                return bytes(self._git.get_object_data(sha)[3])
            except ValueError as error:
                raise Malformed(self.path, sha, "the clone lacks this object") from error

    def _tree_of(self, commit: str) -> str:
        if commit not in self._trees:
            with self._reading(["rev-parse", "--verify", f"{commit}^{{tree}}"]) as stream:
                self._trees[commit] = stream.read().decode().strip()
        return self._trees[commit]

    def _for_each(
        self, command: list[str], requests: Sequence[PullRequest], *, separated: bool
    ) -> Iterator[tuple[PullRequest, bytes]]:
        """Run `diff-tree --stdin` over pairs of trees and cut its output at each pair.

        Every request is yielded once, in order; one that changes nothing has no output.
        """
        pairs = [
            (self._tree_of(request.base_commit), self._tree_of(request.merge_commit))
            for request in requests
        ]
        with tempfile.TemporaryFile() as asked:
            asked.write("".join(f"{old} {new}\n" for old, new in pairs).encode())
            asked.seek(0)
            waiting = list(zip(requests, pairs, strict=True))[::-1]
            with self._reading(command, asked) as stream:
                for pair, data in cut_pairs(stream, separated=separated):
                    while waiting:
                        request, wanted = waiting.pop()
                        if wanted == pair:
                            yield request, data
                            break
                        yield request, b""
        for request, _ in reversed(waiting):
            yield request, b""

    def _run(self, arguments: list[str], environment: dict[str, str]) -> bytes:
        try:
            done = self._git.execute(
                ["git", *arguments],
                env=environment,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        except GitCommandError as error:
            raise self._foreign(error, arguments[0]) from error
        assert isinstance(done, bytes)
        return done

    @contextmanager
    def _reading(self, arguments: list[str], stdin: BinaryIO | None = None) -> Iterator[IO[bytes]]:
        """The output of a git command as a stream; it must have succeeded when the block ends."""
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

    def _foreign(self, error: GitCommandError, doing: str) -> Malformed | Accident:
        said = str(error.stderr or "").strip().removeprefix("stderr: ").strip("'\n ")
        line = said.splitlines()[0] if said else f"exit {error.status}"
        if "No space left" in said:
            return Accident(f"{self.path}: git {doing}: {line}")
        return Malformed(self.path, f"git {doing}", line)


def utc(stamp: str) -> str:
    """An ISO 8601 moment, in UTC and with a Z, to the second."""
    moment = datetime.fromisoformat(stamp)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    """The git directory of a clone, bare or not. Malformed when the path is no clone."""
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


def _objects(git_dir: Path) -> Path:
    common = git_dir / "commondir"
    if common.is_file():
        return (git_dir / common.read_text().strip() / "objects").resolve()
    return git_dir / "objects"


_WANTED = (
    "*.py", "*.pyx", "*.pyi", ":(icase)*change*", ":(icase)*history*", ":(icase)*news*",
    ":(icase)*release*note*", "*.bugfix*", "*.feature*", "*.misc*",
)  # fmt: skip
"""What mining reads of a diff: code, and what changelogs say of it."""
