"""A container engine: images, containers, and commands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


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
