"""What the tests of engine and environments share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from race.ports import Engine
from race.work.base_images import ensure_base
from race.workbench import Workbench


@pytest.fixture(scope="session")
def base(bench: Workbench, engine: Engine) -> str:
    """The base image that tasks run on."""
    return ensure_base(bench, "3.11").runtime


class CutProxy:
    """A socket in front of the engine's own, which can be cut like an engine that dies."""

    def __init__(self, path: Path) -> None:
        self.path, self._sockets, self._cut = path, list[socket.socket](), False
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(16)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self._cut:
                client.close()
                continue
            engine = socket.socket(socket.AF_UNIX)
            engine.connect("/var/run/docker.sock")
            self._sockets += [client, engine]
            for source, sink in ((client, engine), (engine, client)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def cut(self) -> None:
        """From now on nothing answers, and what was open is closed."""
        self._cut = True
        for one in self._sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def mend(self) -> None:
        """The engine is back."""
        self._cut = False

    def close(self) -> None:
        """End of the test."""
        self.cut()
        self._server.close()
        for one in self._sockets:
            one.close()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[CutProxy]:
    """A way to the engine that can be cut."""
    made = CutProxy(tmp_path / "engine.sock")
    yield made
    made.close()
