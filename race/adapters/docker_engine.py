"""The container engine through docker's SDK: images, builds, and containers that cannot outlive us."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import docker.errors
import docker.types
from docker.utils import parse_repository_tag

from race.adapters.docker_build import REFUSED, raise_for_space, run_build
from race.adapters.docker_container import DockerContainer
from race.adapters.docker_owner import is_alive, owner
from race.adapters.docker_seam import translated
from race.errors import Accident, EngineDown, Missing, Unreachable
from race.ports import ContainerSpec, Image

OWNER = "race.owner"
FIRST_PROCESS = (
    "end=$(($(date +%s)+{seconds})); "
    "while left=$((end-$(date +%s))); [ $left -gt 0 ]; do sleep $left & wait $!; done"
)
"""What a container's first process does: wait for its end, reap orphans, outlive `kill -9 -1`."""


class DockerEngine:
    """Meets ports.Engine. Each thread has its own client, made at its first call."""

    def __init__(self, docker_host: str = "") -> None:
        self._host = docker_host or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        self._local = threading.local()
        self._abandoned = False

    @property
    def _api(self) -> Any:
        client = getattr(self._local, "client", None)
        if client is None:
            with translated("connecting"):
                _knock(self._host)
                client = docker.APIClient(base_url=self._host, version="auto", timeout=120)
            self._local.client = client
        return client

    def version(self) -> str:
        """The engine's version. Raises EngineDown when nothing answers."""
        with translated("asking its version"):
            return str(self._api.version()["Version"])

    def image(self, ref: str) -> Image | None:
        """An image that this engine has, or None. Never pulls."""
        try:
            with translated(f"looking up {ref}"):
                return _image(self._api.inspect_image(ref))
        except docker.errors.NotFound:
            return None

    def pull(self, ref: str) -> Image:
        """Bring an image from its registry. Raises Unreachable, or Missing when it is refused."""
        doing = f"pulling {ref}"
        repository, tag = parse_repository_tag(ref)
        try:
            with translated(doing):
                events = [*self._api.pull(repository, tag or "latest", stream=True, decode=True)]
        except docker.errors.NotFound as error:
            raise _refused_or_unreachable(ref, str(error.explanation)) from error
        except EngineDown:
            raise
        except Accident as error:
            if "the engine refused" in str(error):
                raise _refused_or_unreachable(ref, str(error)) from error
            raise
        for event in events:
            if "error" in event:
                raise _refused_or_unreachable(ref, str(event["error"]))
        found = self.image(ref)
        if found is None:
            raise Unreachable(f"{doing}: the registry sent no image")
        return found

    def import_image(self, tar: Path, tag: str, *, changes: Sequence[str] = ()) -> Image:
        """A root file system from a tar file as an image."""
        repository, name = parse_repository_tag(tag)
        with translated(f"importing {tag}"):
            answer = self._api.import_image_from_file(
                str(tar), repository=repository, tag=name or "latest", changes=list(changes)
            )
        for line in str(answer).splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if "error" in event:
                raise_for_space(f"importing {tag}", str(event["error"]))
                raise Accident(f"importing {tag}: {event['error']}")
        return self._must_have(tag)

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

        Raises BuildFailed with the last lines of the log when a command of it ends with a failure or
        the time is up. All else is not about what is built: Accident when an image that it starts from
        is not there or a step without a command fails, EngineDown when the engine does not answer.
        """
        run_build(
            self._api,
            context,
            tag=tag,
            timeout=timeout,
            on_line=on_line or (lambda line: None),
            dockerfile=dockerfile,
            labels=dict(labels or {}),
            target=target or None,
            buildargs=dict(buildargs or {}),
            network_mode=None if network else "none",
            nocache=not cache,
        )
        return self._must_have(tag)

    def tag(self, image_id: str, ref: str) -> None:
        """Give an image another name."""
        repository, name = parse_repository_tag(ref)
        try:
            with translated(f"naming {ref}"):
                self._api.tag(image_id, repository, name or "latest", force=True)
        except docker.errors.NotFound as error:
            raise Accident(f"there is no image {image_id}") from error

    def remove_image(self, ref: str) -> None:
        """Forget a name, and the image when it was the last one. Nothing happens when absent."""
        try:
            with translated(f"removing {ref}"):
                self._api.remove_image(ref, force=False, noprune=False)
        except docker.errors.NotFound:
            return

    def images(self, label: str) -> list[Image]:
        """All images that carry this label (`key` or `key=value`)."""
        with translated("listing images"):
            listed = self._api.images(filters={"label": [label]})
        found = (self.image(entry["Id"]) for entry in listed)
        return [image for image in found if image is not None]

    @contextmanager
    def container(self, spec: ContainerSpec) -> Iterator[DockerContainer]:
        """Start a container; it is killed and removed when the block is left, whatever happened."""
        image = self._must_have(spec.image)
        api = self._api
        with translated(f"starting a container of {spec.image}"):
            made = api.create_container(
                image.id,
                entrypoint=["sh", "-c"],
                command=[FIRST_PROCESS.format(seconds=max(1, int(spec.lifetime)))],
                user="0",
                working_dir="/",
                environment=dict(spec.env),
                labels={**spec.labels, OWNER: owner()},
                network_disabled=not spec.network,
                host_config=_host_config(api, spec),
            )
        try:
            if self._abandoned:
                raise Accident("interrupted: no container is started any more")
            with translated(f"starting a container of {spec.image}"):
                api.start(made["Id"])
            user = spec.user or str(image.config.get("User") or "0")
            yield DockerContainer(api, made["Id"], user, spec.workdir)
        finally:
            self._remove(made["Id"])

    def save(self, ref: str) -> Iterator[bytes]:
        """The image as the stream of `docker save`."""
        try:
            with translated(f"saving {ref}"):
                yield from self._api.get_image(ref, chunk_size=1 << 20)
        except docker.errors.NotFound as error:
            raise Accident(f"there is no image {ref}") from error

    def sweep(self) -> int:
        """Remove containers whose owning race process is dead; how many there were."""
        with translated("listing containers"):
            listed = self._api.containers(all=True, filters={"label": [OWNER]})
        dead = [entry["Id"] for entry in listed if not is_alive(entry["Labels"][OWNER])]
        for container_id in dead:
            self._remove(container_id)
        return len(dead)

    def containers(self) -> list[str]:
        """Ids of all containers that race made on this engine."""
        with translated("listing containers"):
            listed = self._api.containers(all=True, filters={"label": [OWNER]})
        return [entry["Id"] for entry in listed]

    def abandon(self) -> None:
        """Remove this process's containers and start no more: what waits on one ends as an Accident."""
        self._abandoned = True
        with translated("listing containers"):
            listed = self._api.containers(all=True, filters={"label": [f"{OWNER}={owner()}"]})
        for entry in listed:
            self._remove(entry["Id"])

    def _remove(self, container_id: str) -> None:
        try:
            with translated("removing a container"):
                self._api.remove_container(container_id, force=True, v=True)
        except docker.errors.NotFound:
            return
        except Accident as error:
            if "already in progress" not in str(error):
                raise

    def _must_have(self, ref: str) -> Image:
        found = self.image(ref)
        if found is None:
            raise Accident(f"image {ref} is not on this engine; run the stage that makes it again")
        return found


def _knock(host: str) -> None:
    """Raise at once when nobody listens on a local socket; the SDK would leave its own one open."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(10)
            probe.connect(host.removeprefix("unix://"))


def _host_config(api: Any, spec: ContainerSpec) -> Any:
    limits = spec.limits
    return api.create_host_config(
        network_mode="default" if spec.network else "none",
        cap_drop=["ALL"],
        cap_add=list(spec.capabilities),
        security_opt=["no-new-privileges"],
        pids_limit=limits.pids,
        mem_limit=limits.memory_mb * 2**20,
        memswap_limit=limits.memory_mb * 2**20,
        nano_cpus=int(limits.cpus * 1e9),
        read_only=spec.read_only,
        tmpfs=dict.fromkeys(spec.tmpfs, f"size={limits.tmpfs_mb}m,mode=1777,exec"),
        log_config=docker.types.LogConfig(type="none"),
        ulimits=[docker.types.Ulimit(name="core", soft=0, hard=0)],
    )


def _image(found: Mapping[str, Any]) -> Image:
    config = found.get("Config") or {}
    return Image(
        id=found["Id"],
        tags=tuple(found.get("RepoTags") or ()),
        labels=dict(config.get("Labels") or {}),
        layers=tuple((found.get("RootFS") or {}).get("Layers") or ()),
        size=int(found.get("Size") or 0),
        config=config,
    )


def _refused_or_unreachable(ref: str, said: str) -> Missing | Unreachable:
    if any(word in said.lower() for word in REFUSED) and "dial tcp" not in said:
        return Missing(f"the registry has no {ref} for us: {said[:200]}")
    return Unreachable(f"pulling {ref}: {said[:200]}")
