"""A running container: files in and out, and commands that really end at their limit."""

from __future__ import annotations

import io
import select
import struct
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import docker.errors

from race.adapters.docker_seam import engine_down, translated
from race.errors import Accident, EngineDown, Malformed
from race.ports import ExecResult

CHUNK = 1 << 16
GRACE = 2.0
"""Seconds without output after which an ended command's output counts as complete, though a background
process still holds it open. The engine closes it by itself in all other cases."""
LONGEST_GRACE = 20.0
"""How long a background process that keeps printing may hold a command that has ended."""
POLL = 0.25


class DockerContainer:
    """Meets ports.Container. `user` is whom commands run as unless they say otherwise."""

    def __init__(self, api: Any, container_id: str, user: str, workdir: str) -> None:
        self._api, self.id, self._user, self._workdir = api, container_id, user, workdir

    def put(self, path: str, files: Mapping[str, bytes], *, mode: int = 0o644, uid: int = 0) -> None:
        """Write files below an existing folder `path`; names may hold slashes."""
        now, folders = int(time.time()), set()
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, data in files.items():
                parts = name.split("/")
                for depth in range(1, len(parts)):
                    folder = "/".join(parts[:depth])
                    if folder not in folders:
                        folders.add(folder)
                        entry = tarfile.TarInfo(folder)
                        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                        entry.uid = entry.gid = uid
                        entry.mtime = now
                        tar.addfile(entry)
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.mtime = len(data), mode, now
                entry.uid = entry.gid = uid
                tar.addfile(entry, io.BytesIO(data))
        self.put_tar(path, buffer.getvalue())

    def put_tar(self, path: str, tar: bytes) -> None:
        """Unpack a tar archive below an existing folder. Not into a tmpfs: the engine cannot see it."""
        try:
            with translated(f"putting files into {path}"):
                self._api.put_archive(self.id, path, tar)
        except docker.errors.NotFound as error:
            raise Accident(f"container {self.id[:12]} or its folder {path} is gone") from error

    def get(self, path: str, *, limit: int = 64 * 2**20) -> bytes | None:
        """The bytes of one regular file, or None when there is none; a link is not followed.

        Malformed when it is larger than the limit. A tmpfs is not seen.
        """
        try:
            with translated(f"reading {path}"):
                stream, stat = self._api.get_archive(self.id, path)
                if stat["size"] > limit:
                    stream.close()
                    raise Malformed(path, "", f"{stat['size']} bytes, more than {limit}")
                data = bytearray()
                for chunk in stream:
                    data += chunk
                    if len(data) > limit + 2**16:
                        raise Malformed(path, "", f"more than {limit} bytes")
        except docker.errors.NotFound:
            return None
        with tarfile.open(fileobj=io.BytesIO(bytes(data))) as tar:
            member = tar.next()
            if member is None or not member.isreg():
                return None
            stored = tar.extractfile(member)
            return stored.read() if stored is not None else None

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
        """Run a command to its end or its limit; at the limit everything in the container is killed.

        `on_output` sees every chunk of both outputs as it comes, unlimited; if it raises, everything
        is killed as well. A background process of a command that ended by itself is left alone.
        """
        started = time.monotonic()
        doing = f"running {argv[0]}"
        try:
            with translated(doing):
                made = self._api.exec_create(
                    self.id,
                    list(argv),
                    user=user or self._user,
                    workdir=workdir or self._workdir or None,
                    environment=dict(env or {}),
                )
                stream = self._api.exec_start(made["Id"], socket=True)
        except docker.errors.NotFound as error:
            raise Accident(f"container {self.id[:12]} is gone") from error
        output = _Output(output_limit, on_output)
        ended = False
        try:
            timed_out = self._follow(stream, made["Id"], started + timeout, output, doing)
            ended = not timed_out
        finally:
            _close(stream)
            if not ended:
                self._kill_all(user or self._user)
        code = None if timed_out else self._exit_code(made["Id"], doing)
        return ExecResult(
            exit_code=code,
            output=bytes(output.kept),
            truncated=output.truncated,
            timed_out=timed_out,
            seconds=time.monotonic() - started,
        )

    def _follow(self, stream: Any, exec_id: str, deadline: float, output: _Output, doing: str) -> bool:
        """Read until the command has ended (False) or the deadline has passed (True)."""
        socket = stream._sock
        socket.settimeout(0)
        with translated(doing):
            # The HTTP client may have read the first output together with the headers.
            output.feed(stream._response.raw._fp.fp.peek())
        ended = last = None
        next_look = time.monotonic() + POLL
        while True:
            now = time.monotonic()
            if now >= deadline:
                return ended is None
            readable, _, _ = select.select([socket], [], [], min(POLL, deadline - now))
            if readable:
                try:
                    data = socket.recv(CHUNK)
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise engine_down(doing, error) from error
                if not data:
                    break
                last = time.monotonic()
                output.feed(data)
            if ended is None and time.monotonic() >= next_look:
                next_look = time.monotonic() + POLL
                ended = None if self._running(exec_id, doing) else time.monotonic()
            elif ended is not None:
                quiet = time.monotonic() - max(ended, last or 0.0)
                if quiet > GRACE or time.monotonic() - ended > LONGEST_GRACE:
                    return False
        while self._running(exec_id, doing):
            if time.monotonic() >= deadline:
                return True
            time.sleep(0.02)
        return False

    def _inspect(self, exec_id: str, doing: str) -> Any:
        try:
            with translated(doing):
                return self._api.exec_inspect(exec_id)
        except docker.errors.NotFound as error:
            try:
                with translated(doing):
                    self._api.inspect_container(self.id)
            except docker.errors.NotFound:
                raise Accident(f"{doing}: container {self.id[:12]} was removed meanwhile") from error
            raise EngineDown(f"{doing}: the engine was restarted meanwhile") from error

    def _running(self, exec_id: str, doing: str) -> bool:
        return bool(self._inspect(exec_id, doing)["Running"])

    def _exit_code(self, exec_id: str, doing: str) -> int:
        code = self._inspect(exec_id, doing)["ExitCode"]
        if code is None or not self._alive():
            raise Accident(f"{doing}: container {self.id[:12]} ended under the command")
        return int(code)

    def _alive(self) -> bool:
        try:
            with translated("looking at a container"):
                return bool(self._api.inspect_container(self.id)["State"]["Running"])
        except docker.errors.NotFound:
            return False

    def _kill_all(self, user: str) -> None:
        """Kill every process but the container's first one; as a last resort restart the container.

        `kill -9 -1` reaches all processes at once, so that a fork bomb cannot run away from it. It
        is never run with more rights than the command had.
        """
        for who in dict.fromkeys((user, "0")):
            try:
                with translated("killing a command"):
                    made = self._api.exec_create(
                        self.id, ["sh", "-c", "kill -9 -1"], user=who, workdir="/"
                    )
                    self._api.exec_start(made["Id"], detach=True)
            except (Accident, docker.errors.NotFound) as error:
                if isinstance(error, EngineDown):
                    raise
            if self._alone(1.0):
                return
        with translated("killing a container"):
            try:
                self._api.kill(self.id)
            except docker.errors.APIError as error:
                if error.status_code not in (404, 409):
                    raise
            try:
                self._api.start(self.id)
            except docker.errors.NotFound:
                return

    def _alone(self, patience: float) -> bool:
        deadline = time.monotonic() + patience
        while True:
            try:
                with translated("listing processes"):
                    processes = (
                        self._api.top(self.id, ps_args="-o pid,ppid,stat,args")["Processes"] or []
                    )
            except Accident as error:
                if isinstance(error, EngineDown):
                    raise
                return False
            except docker.errors.NotFound:
                return False
            if _only_first(processes):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)


def _only_first(processes: list[list[str]]) -> bool:
    """Whether nothing but a container's first process and the `sleep` that it waits for is alive."""
    alive = [row for row in processes if not row[2].startswith("Z")]
    pids = {row[0] for row in alive}
    first = {row[0] for row in alive if row[1] not in pids}
    rest = [row for row in alive if row[0] not in first]
    return len(first) == 1 and (not rest or (len(rest) == 1 and rest[0][3].startswith("sleep ")))


class _Output:
    """Takes the engine's multiplexed frames apart; keeps the first bytes, counts nothing twice."""

    def __init__(self, limit: int, on_output: Callable[[bytes], None] | None) -> None:
        self.kept, self.truncated = bytearray(), False
        self._limit, self._on_output = limit, on_output
        self._head, self._left = b"", 0

    def feed(self, data: bytes) -> None:
        """More bytes of the stream, cut anywhere."""
        at = 0
        while at < len(data):
            if self._left == 0:
                need = 8 - len(self._head)
                self._head += data[at : at + need]
                at += need
                if len(self._head) == 8:
                    self._left = struct.unpack(">I", self._head[4:])[0]
                    self._head = b""
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            self._take(piece)

    def _take(self, piece: bytes) -> None:
        room = self._limit - len(self.kept)
        self.kept += piece[:room] if room > 0 else b""
        self.truncated = self.truncated or len(piece) > room
        if self._on_output is not None:
            self._on_output(piece)


def _close(stream: Any) -> None:
    try:
        stream._response.close()
        stream.close()
    except OSError:
        pass
