"""Files of a package index by hash: listed through its simple API, downloaded once, kept in a cache."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from race.errors import Accident, Unreachable


class PackageIndex:
    """One index. `url` is asked for when it is first needed; `cache` is a folder of this machine."""

    def __init__(self, url: Callable[[], str], *, ca_bundle: str, cache: Path) -> None:
        self._url, self._ca_bundle, self._cache = url, ca_bundle, cache

    def _folder(self, digest: str) -> Path:
        return self._cache / "wheels" / digest[:2] / digest

    def known(self, digest: str) -> Mapping[str, Any] | None:
        """Address and name of a file that was seen before, by its SHA-256."""
        try:
            value = json.loads((self._folder(digest) / "url.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def remember(self, digest: str, url: str, name: str) -> None:
        """Where a file can be had."""
        wanted = {"url": url, "name": Path(name).name}
        if self.known(digest) != wanted:
            folder = self._folder(digest)
            folder.mkdir(parents=True, exist_ok=True)
            _replace(folder / "url.json", json.dumps(wanted).encode())

    def files(self, name: str) -> list[dict[str, Any]]:
        """All files of a project as the index lists them (simple API, JSON)."""
        url = f"{self._url().rstrip('/')}/{canonicalize_name(name)}/"
        accept = "application/vnd.pypi.simple.v1+json"
        try:
            value = json.loads(self._download(url, accept))
        except ValueError as error:
            raise Accident("the package index does not speak JSON (simple API, version 1)") from error
        files: list[dict[str, Any]] = value.get("files", [])
        return [file | {"url": urllib.parse.urljoin(url, str(file["url"]))} for file in files]

    def fetch(self, digest: str) -> Path:
        """A known file's path in the cache, downloaded when it is not there, always checked."""
        known = self.known(digest) or {}
        path = self._folder(digest) / str(known["name"])
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            return path
        data = self._download(str(known["url"]))
        found = hashlib.sha256(data).hexdigest()
        if found != digest:
            raise Accident(
                f"{path.name}: the index sent bytes with sha256 {found[:12]}, "
                f"the lock says {digest[:12]}"
            )
        _replace(path, data)
        return path

    def _download(self, url: str, accept: str = "*/*") -> bytes:
        context = ssl.create_default_context(cafile=self._ca_bundle or None)
        request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "race"})
        name = url.rstrip("/").rsplit("/", 1)[-1]
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                data: bytes = answer.read()
        except (urllib.error.URLError, OSError) as error:
            raise Unreachable(f"cannot download {name}: {error}") from error
        return data


def _replace(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as stream:
        stream.write(data)
    os.replace(stream.name, path)
