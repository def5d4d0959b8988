"""What race needs from outside, as small protocols. Adapters and test doubles meet them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from race.core.mining.facts import Changed
from race.core.records import PullRequest


@dataclass(frozen=True)
class Limits:
    """What a container may use. Memory in MiB, cpus as a fraction of cores, tmpfs sizes in MiB."""

    memory_mb: int = 2048
    cpus: float = 1.0
    pids: int = 512
    tmpfs_mb: int = 512


@dataclass(frozen=True)
class Image:
    """An image as the engine knows it. `layers` are diff ids, base first; `size` in bytes."""

    id: str
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    layers: tuple[str, ...]
    size: int
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ContainerSpec:
    """A container to start: no network, no capabilities but those named, killed when left."""

    image: str
    limits: Limits = Limits()
    user: str = ""
    workdir: str = "/repo"
    env: Mapping[str, str] = field(default_factory=dict)
    capabilities: Sequence[str] = ()
    network: bool = False
    read_only: bool = False
    tmpfs: Sequence[str] = ()
    lifetime: float = 3600.0
    """Seconds after which the container ends by itself, whatever happened to us."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExecResult:
    """One command in a container. `exit_code` is None when it was killed at its limit.

    `output` holds at most the asked number of bytes; `truncated` says that there was more.
    """

    exit_code: int | None
    output: bytes
    truncated: bool
    timed_out: bool
    seconds: float


class Container(Protocol):
    """A running container."""

    id: str

    def put(self, path: str, files: Mapping[str, bytes], *, mode: int = 0o644, uid: int = 0) -> None:
        """Write files below an existing folder `path`; names may hold slashes."""

    def put_tar(self, path: str, tar: bytes) -> None:
        """Unpack a tar archive below an existing folder."""

    def get(self, path: str, *, limit: int = 64 * 2**20) -> bytes | None:
        """The bytes of one file, or None when it is not there. Malformed when above the limit."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        user: str = "",
        workdir: str = "",
        env: Mapping[str, str] | None = None,
        output_limit: int = 2**20,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        """Run a command to its end or its limit; at the limit everything it started is killed.

        `on_output` sees every chunk of standard output and standard error as it comes, unlimited.
        Raises EngineDown when the engine (not the command) breaks.
        """


class Engine(Protocol):
    """A container engine."""

    def version(self) -> str:
        """The engine's version. Raises EngineDown when nothing answers."""

    def image(self, ref: str) -> Image | None:
        """An image that this engine has, or None. Never pulls."""

    def pull(self, ref: str) -> Image:
        """Bring an image from its registry. Raises Unreachable, or Missing when it is refused."""

    def import_image(self, tar: Path, tag: str, *, changes: Sequence[str] = ()) -> Image:
        """A root file system from a tar file as an image."""

    def build(
        self,
        context: Mapping[str, bytes] | Path,
        *,
        tag: str,
        dockerfile: str = "Dockerfile",
        labels: Mapping[str, str] | None = None,
        target: str = "",
        buildargs: Mapping[str, str] | None = None,
        network: bool = False,
        cache: bool = True,
        timeout: float = 1800.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Image:
        """Build an image; `context` is a mapping of files or a tar file.

        Raises BuildFailed with the last lines of the log when a step fails, EngineDown when the
        engine does.
        """

    def tag(self, image_id: str, ref: str) -> None:
        """Give an image another name."""

    def remove_image(self, ref: str) -> None:
        """Forget a name, and the image when it was the last one. Nothing happens when absent."""

    def images(self, label: str) -> list[Image]:
        """All images that carry this label (`key` or `key=value`)."""

    def container(self, spec: ContainerSpec) -> AbstractContextManager[Container]:
        """Start a container; it is killed and removed when the block is left, whatever happened."""

    def save(self, ref: str) -> Iterator[bytes]:
        """The image as the stream of `docker save`."""

    def sweep(self) -> int:
        """Remove containers whose owning race process is dead; how many there were."""

    def containers(self) -> list[str]:
        """Ids of all containers that race made on this engine."""

    def abandon(self) -> None:
        """Remove this process's containers and start no more: what waits on one ends as an Accident."""


class RootFileSystems(Protocol):
    """Makes root file systems from a distribution's packages."""

    def make(
        self, suite: str, packages: Sequence[str], excluded: Sequence[str], to: Path, timeout: float
    ) -> None:
        """Write a root file system as a tar file. Raises Missing, Unreachable or DiskFull."""


class Host(Protocol):
    """This machine, as far as race may set it up."""

    def refusal(self) -> str:
        """Why this host may not be changed by us; empty when it may."""

    def has(self, program: str) -> bool:
        """Whether a program is on the path."""

    def install(self, packages: Sequence[str]) -> None:
        """Install packages of its distribution. Raises Missing when it cannot."""

    def start_engine(self, answers: Callable[[], bool]) -> str:
        """Start the container engine; in words how. Raises Accident when it does not come up."""


class Resolver(Protocol):
    """Pins requirements to what existed on a date."""

    def compile(
        self,
        requirements: Sequence[str],
        *,
        python: str,
        cutoff: datetime | None,
        constraints: Sequence[str] = (),
        omit: Sequence[str] = (),
        built: Mapping[str, Path] | None = None,
        later: Mapping[str, datetime] | None = None,
    ) -> str:
        """A lock: sorted lines `name==version --hash=sha256:...`, one file for each package.

        `omit` names packages that are resolved but not locked (the project itself). `built` are
        wheels made from source archives, by the archive's SHA-256, which is then what is locked.
        `later` gives single packages another cut-off.
        Raises Unresolvable (about the project) or Unreachable (about the index).
        """

    def fetch(self, lock: str, *, python: str) -> dict[str, Path]:
        """The files of a lock: file name -> a path on this machine, each checked by its hash.

        Wheels, and source archives where a lock names one. Raises Unreachable, or Accident when the
        index sends other bytes than the lock names.
        """

    def source(self, name: str, *, version: str, cutoff: datetime | None) -> tuple[str, Path]:
        """SHA-256 and path of a release's source archive, the newest when no version is given.

        Raises Unresolvable when there is none before the cut-off.
        """

    def reach(self) -> str:
        """The resolver's name and version. Raises Unreachable when its index does not answer."""


class History(Protocol):
    """A project's past: its merged pull requests, and any file at any commit."""

    repo: str
    when_empty: str
    """What it means that this source names no pull request, and what to do, in one line."""

    def pull_requests(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[PullRequest]:
        """Merged pull requests, newest first, by merge date."""

    def diff(self, base: str, commit: str) -> bytes:
        """The full binary-safe git diff between two commits, with full index lines."""

    def read(self, commit: str, path: str) -> bytes | None:
        """A file at a commit, or None."""

    def files(self, commit: str) -> list[str]:
        """Every path at a commit."""

    def archive(self, commit: str) -> bytes:
        """The tree at a commit as a deterministic tar: sorted names, zero times, owner 0."""

    def changes(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, list[Changed]]]:
        """Which files each pull request changes; every request once, in order."""

    def wide_diffs(self, requests: Sequence[PullRequest]) -> Iterator[tuple[PullRequest, bytes]]:
        """The diff of each request's code files with whole functions as context, in order."""

    def linked(self, request: PullRequest) -> tuple[str, ...]:
        """All issues that a request closes, also those that only the source's own pages tell."""

    def issue_text(self, request: PullRequest) -> str:
        """Titles and texts of the issues that it closes; empty when the source does not know them."""

    def top(self, commit: str) -> dict[str, str]:
        """Names at the root of a tree, each with its object id."""

    def tree_entries(self, commit: str) -> dict[str, tuple[str, str]]:
        """Mode and object id of every path at a commit."""

    def applied(self, base: str, patches: Sequence[bytes]) -> dict[str, tuple[str, str]]:
        """What patches make of a base, as `tree_entries`; Malformed when one does not apply exactly."""


@dataclass(frozen=True)
class ModelReply:
    """What a model answered and what it cost. Token counts as in runs.jsonl; cost in US dollars.

    `cut_off` says that it stopped at its limit of tokens.
    """

    text: str
    input_tokens: int
    cached_input_tokens: int | None
    output_tokens: int
    cost_usd: float | None
    cut_off: bool = False


class Model(Protocol):
    """A chat model behind any provider."""

    name: str

    def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int = 4096) -> ModelReply:
        """One completion. Raises Unreachable, RateLimited, or Missing when a key is not set."""


@dataclass(frozen=True)
class AgentLimits:
    """What an agent may use: model calls, seconds per command, seconds in all."""

    steps: int = 100
    command_seconds: float = 600
    run_seconds: float = 7200


@dataclass(frozen=True)
class AgentRun:
    """How an agent's work ended, what it took, and its trajectory as JSON.

    `ended` is submitted, step_limit or timeout, `note` says more when there is more to say. Token
    counts as in runs.jsonl; `cost_usd` is None when nobody knows the price.
    """

    ended: str
    note: str
    steps: int
    input_tokens: int
    cached_input_tokens: int | None
    output_tokens: int
    cost_usd: float | None
    trajectory: bytes


class Agent(Protocol):
    """Something that works on a task by commands in a container."""

    def solve(self, container: Container, statement: str, limits: AgentLimits) -> AgentRun:
        """Work until it submits or meets a limit; what it did is then in the container.

        Raises Unreachable or RateLimited when its model does not answer, Missing when its model
        needs a key or is not known, EngineDown when the engine breaks.
        """
