"""What the tests of engine and environments share."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from race.ports import Engine
from race.work.base_images import ensure_base
from race.workbench import Workbench

EARLY, LATE = "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"


def wheel(name: str, version: str, requires: str = "") -> tuple[str, bytes]:
    """A wheel with nothing but metadata."""
    out, info = io.BytesIO(), f"{name}-{version}.dist-info"
    with zipfile.ZipFile(out, "w") as archive:
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}-{version}-py3-none-any.whl", out.getvalue()


def source(name: str, version: str) -> tuple[str, bytes]:
    """A source archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo(f"{name}-{version}/setup.py")
        archive.addfile(entry, io.BytesIO())
    return f"{name}-{version}.tar.gz", out.getvalue()


class Index:
    """An index with a few files; `tampered` makes it send other bytes than it lists."""

    def __init__(self) -> None:
        files = [(*wheel("alpha", "1.0"), EARLY), (*wheel("alpha", "2.0"), LATE),
                 (*wheel("beta", "1.0", "alpha>=1"), EARLY), (*source("gamma", "1.0"), EARLY),
                 (*source("gamma", "2.0"), LATE)]  # fmt: skip
        self.files = {name: (data, when) for name, data, when in files}
        self.tampered = False
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            def do_HEAD(self) -> None:
                index.answer(self)

            def log_message(self, *arguments: object) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple"
        poll = {"poll_interval": 0.02}
        threading.Thread(target=self._server.serve_forever, kwargs=poll, daemon=True).start()

    def add(self, name: str, version: str, requires: str = "") -> None:
        """One more wheel, of an early date."""
        made, data = wheel(name, version, requires)
        self.files[made] = (data, EARLY)

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """One request: a project's page or a file."""
        last = request.path.rstrip("/").rsplit("/", 1)[-1]
        if last in self.files:
            body, kind = (
                self.files[last][0] + (b"x" if self.tampered else b""),
                "application/octet-stream",
            )
        else:
            listed = [
                {"filename": name, "url": f"/files/{name}", "upload-time": when,
                 "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}
                for name, (data, when) in self.files.items() if name.startswith(f"{last}-")
            ]  # fmt: skip
            page = {"meta": {"api-version": "1.1"}, "name": last, "versions": [], "files": listed}
            body, kind = json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json"
            if not listed:
                request.send_error(404)
                return
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def index() -> Iterator[Index]:
    """A running index."""
    made = Index()
    yield made
    made.close()


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
