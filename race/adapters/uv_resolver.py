"""Pins requirements with uv and fetches the pinned wheels; nothing that a package brings runs here.

uv is told never to build: it reads metadata only. Wheels come by URL and are taken only when their
SHA-256 is the one in the lock. Both are kept below one cache folder, so that a lock that was fetched
once needs no network.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import uv
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import Version

from race.adapters.package_index import PackageIndex
from race.core.environment.wheels import GLIBC, best_wheel, wheel_name, wheel_tags
from race.errors import Accident, Unreachable, Unresolvable

NETWORK = (
    "failed to fetch", "error sending request", "dns error", "connection", "timed out", "tls",
    "certificate", "network", "could not connect", "error trying to connect", "temporarily",
)  # fmt: skip
LOCK_LINE = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) --hash=sha256:([0-9a-f]{64})$")
DOWNLOADS = 8
TIMEOUT = 180.0


class UvResolver:
    """Meets ports.Resolver."""

    def __init__(self, *, index_url: str = "", ca_bundle: str = "", cache: Path) -> None:
        self._index_url, self._ca_bundle, self._cache = index_url, ca_bundle, cache
        self._files = PackageIndex(self._index, ca_bundle=ca_bundle, cache=cache)

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
        Raises Unresolvable when no set of wheels meets the requirements before the cut-off,
        Unreachable when the index does not answer.
        """
        tags = wheel_tags(python, _machine())
        lines = []
        made = {path.name: digest for digest, path in (built or {}).items()}
        local = [*(built or {}).values()]
        packages = self._pylock(
            requirements, python, cutoff, constraints, omit, local=local, later=later or {}
        )
        for package in packages:
            wheel = best_wheel(package.get("wheels", ()), tags)
            if wheel is None:
                raise Unresolvable(f"{package['name']} {package.get('version')} has no wheel for us")
            digest = made.get(wheel_name(wheel), "")
            if not digest:
                digest = wheel["hashes"]["sha256"]
                self._files.remember(digest, str(wheel["url"]), wheel_name(wheel))
            lines.append(f"{package['name']}=={package['version']} --hash=sha256:{digest}")
        return "".join(line + "\n" for line in sorted(lines))

    def fetch(self, lock: str, *, python: str) -> dict[str, Path]:
        """The files of a lock: file name -> path in the cache, each checked against its hash.

        Wheels, and source archives where a lock names one. Raises Unreachable when one must be
        downloaded and cannot, Accident when the index sends other bytes than the lock names.
        """
        pins = dict(_pins(lock))
        for digest, pin in pins.items():
            if self._files.known(digest) is None:
                for file in self._files.files(pin.split("==")[0]):
                    if file.get("hashes", {}).get("sha256") == digest:
                        self._files.remember(digest, str(file["url"]), str(file["filename"]))
                if self._files.known(digest) is None:
                    raise Accident(f"the index has no file of {pin} with sha256 {digest[:12]}")
        with ThreadPoolExecutor(max_workers=DOWNLOADS) as pool:
            paths = list(pool.map(self._files.fetch, pins))
        return {path.name: path for path in paths}

    def source(self, name: str, *, version: str, cutoff: datetime | None) -> tuple[str, Path]:
        """SHA-256 and path of the source archive of a release; the newest one when no version is given.

        Raises Unresolvable when there is none before the cut-off.
        """
        found: list[tuple[Version, Mapping[str, Any]]] = []
        for file in self._files.files(name):
            parsed = _source_version(str(file.get("filename", "")))
            early = cutoff is None or _uploaded(file) <= cutoff
            fits = parsed is not None and (str(parsed) == str(Version(version)) if version else True)
            if parsed is not None and fits and early and not file.get("yanked"):
                found.append((parsed, file))
        stable = [pair for pair in found if not pair[0].is_prerelease] or found
        if not stable:
            raise Unresolvable(f"{name} {version} has neither a wheel for us nor a source archive")
        newest = max(stable, key=lambda pair: pair[0])[1]
        digest = str(newest["hashes"]["sha256"])
        self._files.remember(digest, str(newest["url"]), str(newest["filename"]))
        return digest, self._files.fetch(digest)

    def reach(self) -> str:
        """What answers: uv's version. Raises Unreachable when the index does not."""
        self._pylock(["packaging"], "3.11", None, (), (), deps=False)
        return f"uv {metadata.version('uv')}"

    def _pylock(
        self,
        requirements: Sequence[str],
        python: str,
        cutoff: datetime | None,
        constraints: Sequence[str],
        omit: Sequence[str],
        *,
        deps: bool = True,
        local: Sequence[Path] = (),
        later: Mapping[str, datetime] | None = None,
    ) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="race-lock-") as name:
            folder = Path(name)
            (folder / "in.txt").write_text("".join(f"{line}\n" for line in requirements))
            (folder / "constraints.txt").write_text("".join(f"{line}\n" for line in constraints))
            command = [uv.find_uv_bin(), "pip", "compile", "in.txt", "-c", "constraints.txt"]
            command += ["--format", "pylock.toml", "-o", "pylock.toml", "--quiet", "--no-config"]
            command += ["--no-build", "--no-header", "--no-annotate", "--python-version", python]
            command += ["--python-platform", f"{_machine()}-manylinux_{GLIBC[0]}_{GLIBC[1]}"]
            command += [f"--no-emit-package={package}" for package in omit]
            command += [] if deps else ["--no-deps"]
            for path in local:
                (folder / path.name).hardlink_to(path)
            command += ["--find-links", "."] if local else []
            if cutoff is not None:
                command += ["--exclude-newer", _moment(cutoff)]
            for package, moment in (later or {}).items():
                command += ["--exclude-newer-package", f"{package}={_moment(moment)}"]
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=self._environment(),
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise Unreachable(f"the package index gave no answer in {TIMEOUT:.0f} s") from error
            if done.returncode != 0:
                raise failure(done.stderr)
            parsed = tomllib.loads((folder / "pylock.toml").read_text())
        packages: list[dict[str, Any]] = parsed.get("packages", [])
        return packages

    def _environment(self) -> dict[str, str]:
        mine = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("UV_") or (key in mine and not self._index_url)
        }
        kept["UV_CACHE_DIR"] = str(self._cache / "index")
        kept |= {"NO_COLOR": "1", "UV_HTTP_RETRIES": "2"}
        if self._index_url:
            kept["UV_DEFAULT_INDEX"] = self._index_url
        if self._ca_bundle:
            kept["SSL_CERT_FILE"] = self._ca_bundle
        return kept

    def _index(self) -> str:
        """The index that uv asks; told by uv itself when none is set here."""
        if not self._index_url:
            command = [uv.find_uv_bin(), "pip", "compile", "-", "--emit-index-url", "--no-header"]
            done = subprocess.run(
                [*command, "--quiet", "--no-config", "--no-deps"],
                input="",
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
            match = re.search(r"^--index-url (\S+)", done.stdout, re.MULTILINE)
            if match is None:
                raise failure(done.stderr)
            self._index_url = match[1]
        return self._index_url


def _pins(lock: str) -> Iterable[tuple[str, str]]:
    for line in lock.splitlines():
        match = LOCK_LINE.match(line)
        if match is None:
            raise Accident(f"not a line of a lock: {line[:100]!r}")
        yield match[3], f"{match[1]}=={match[2]}"


def _source_version(name: str) -> Version | None:
    try:
        return parse_sdist_filename(name)[1]
    except InvalidSdistFilename:
        return None


def _moment(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _uploaded(file: Mapping[str, Any]) -> datetime:
    text = str(file.get("upload-time") or "9999-01-01T00:00:00+00:00")
    return datetime.fromisoformat(text)


def _machine() -> str:
    return {"arm64": "aarch64"}.get(platform.machine(), platform.machine())


def failure(said: str) -> Unresolvable | Unreachable | Accident:
    """What uv's error output means: a verdict about the requirements, or an accident."""
    text = " ".join(line.strip() for line in said.splitlines() if line.strip())
    text = re.sub(r"^error:\s*", "", re.sub(r"https?://\S+", "the index", text))
    low = text.lower()
    if "no solution found" in low or "unsatisfiable" in low:
        return Unresolvable(text)
    if any(word in low for word in NETWORK):
        return Unreachable(f"the package index does not answer: {text[:300]}")
    if "parse" in low or "requirement" in low or "not found" in low:
        return Unresolvable(text)
    return Accident(f"uv failed: {text[:300]}")
