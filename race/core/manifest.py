"""The release's manifest: the digest of every file and image, its counts, and who made it.

    {"schema": 1, "release": {...}, "made_by": "race 0.1.0", "counts": {...},
     "files": {path: {"sha256", "bytes"}}, "images": {instance id: {"env": {...}, "test": {...}}}}

An image stands with its name, the digest of its recipe (the same wherever it is built) and the id it
had on the machine that made the release. Checking needs the folder alone, no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from race.core.records import Closed, Finding, canonical, digest

NAME = "manifest.json"


class ManifestFile(Closed):
    """A file of the release by digest and size."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class ManifestImage(Closed):
    """An image: its name, its recipe's digest, and its id where the release was made."""

    ref: str
    recipe: str
    id: str


class ManifestRelease(Closed):
    """Which release it is."""

    name: str
    version: str
    canary: str
    sample: bool = False


class Manifest(Closed):
    """The whole manifest."""

    schema_version: ClassVar[int] = 1

    release: ManifestRelease
    made_by: str
    counts: dict[str, int]
    files: dict[str, ManifestFile]
    images: dict[str, dict[str, ManifestImage]]

    def dump(self) -> bytes:
        """The bytes of its file."""
        return canonical({"schema": self.schema_version} | self.model_dump(mode="json"))

    def same_release(self, other: Manifest) -> bool:
        """Whether two manifests tell of the same release, image ids and maker aside."""
        return self._core() == other._core()

    def _core(self) -> str:
        value = self.model_dump(mode="json", exclude={"made_by"})
        for images in value["images"].values():
            for image in images.values():
                del image["id"]
        return digest(value)


def differences(
    manifest: Manifest, files: Mapping[str, ManifestFile], release: ManifestRelease
) -> list[Finding]:
    """Every byte that is not as the manifest says, named by its file."""
    found = []
    for path in sorted(set(manifest.files) | set(files)):
        said, there = manifest.files.get(path), files.get(path)
        if there is None:
            found.append(_finding("missing", path, "is listed, but not there"))
        elif said is None:
            found.append(_finding("unlisted", path, "is there, but not listed"))
        elif said != there:
            what = (
                f"has {there.bytes} bytes, not {said.bytes}"
                if said.bytes != there.bytes
                else f"has changed bytes (sha256 {there.sha256[:12]}, not {said.sha256[:12]})"
            )
            found.append(_finding("changed", path, what))
    for field in ("name", "version", "canary", "sample"):
        said_value, value = getattr(manifest.release, field), getattr(release, field)
        if said_value != value:
            what = f"says {field} = {value!r}, the manifest {said_value!r}"
            found.append(_finding("release", "release.toml", what))
    if sum(_parts(manifest.counts)) != manifest.counts.get("tasks", -1):
        found.append(_finding("counts", NAME, "its counts do not add up to the number of tasks"))
    return found


def _parts(counts: Mapping[str, int]) -> list[int]:
    return [counts.get(name, 0) for name in ("verified", "rejected", "excluded", "pending")]


def _finding(rule: str, path: str, what: str) -> Finding:
    return Finding(rule=f"manifest-{rule}", message=f"{path} {what}", place=path)


def read_counts(states: Mapping[str, tuple[str, str]], private: int) -> dict[str, int]:
    """Counts from each task's (state, stage that rejected it); they add up to `tasks`.

    `excluded` is what the release check turned down, `rejected` what earlier stages did.
    """
    counts: dict[str, Any] = dict.fromkeys(("verified", "rejected", "excluded", "pending"), 0)
    for state, stage in states.values():
        if state == "verified":
            counts["verified"] += 1
        elif state == "rejected":
            counts["excluded" if stage == "verify" else "rejected"] += 1
        else:
            counts["pending"] += 1
    return counts | {"tasks": len(states), "private": private}
