"""The release's manifest: the digest of every file and image, its counts, and who made it.

    {"schema": 1, "release": {...}, "made_by": "race 0.1.0", "counts": {...},
     "files": {path: {"sha256", "bytes"}}, "images": {instance id: {"env": {...}, "test": {...}}}}

An image stands with its name, the digest of its recipe (the same wherever it is built) and the id it
had on the machine that made the release. `digest` covers the manifest itself. Checking files, records
and the manifest needs the folder alone; comparing images by id needs an engine that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    digest: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """Of everything else in it; empty while it is being made, which no written one may be."""

    def sealed(self) -> Manifest:
        """With the digest of what it says."""
        return self.model_copy(update={"digest": self._said()})

    def dump(self) -> bytes:
        """The bytes of its file."""
        return canonical({"schema": self.schema_version} | self.model_dump(mode="json"))

    def _said(self) -> str:
        return digest(self.model_dump(mode="json", exclude={"digest"}))

    def own_findings(self, text: bytes) -> list[Finding]:
        """Whether the manifest's own bytes are as they were written."""
        if not self.digest:
            return [_finding("changed", NAME, "has no digest of what it says")]
        if self.digest != self._said():
            return [_finding("changed", NAME, "does not say what it said when it was written")]
        if text != self.dump():
            return [_finding("changed", NAME, "is spelled in other bytes than it was written in")]
        return []

    def same_release(self, other: Manifest) -> bool:
        """Whether two manifests tell of the same release, image ids and maker aside."""
        return self._core() == other._core()

    def _core(self) -> str:
        value = self.model_dump(mode="json", exclude={"made_by", "digest"})
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


def not_files(names: Iterable[str]) -> list[Finding]:
    """Findings for links and devices in the folder."""
    return [_finding("link", name, "is a link or a device, no file of the release") for name in names]


def image_differences(
    manifest: Manifest, recorded: Mapping[str, Mapping[str, ManifestImage]]
) -> list[Finding]:
    """Images whose names or recipes the records give otherwise than the manifest."""
    found = []
    for instance_id in sorted(set(manifest.images) | set(recorded)):
        said, there = manifest.images.get(instance_id, {}), recorded.get(instance_id, {})
        for kind in sorted(set(said) | set(there)):
            listed, named = said.get(kind), there.get(kind)
            place = f"{instance_id}/seal.json"
            if named is None or listed is None:
                who = "the manifest alone" if named is None else "its record alone"
                found.append(_finding("image", place, f"and the manifest: {who} names the {kind} image"))
            elif (named.ref, named.recipe) != (listed.ref, listed.recipe):
                what = (
                    f"names {named.ref} by recipe {named.recipe[:12]}, "
                    f"the manifest {listed.ref} by {listed.recipe[:12]}"
                )
                found.append(_finding("image", place, what))
    return found


def engine_differences(manifest: Manifest, here: Mapping[str, tuple[str, str] | None]) -> list[Finding]:
    """Images that are not on an engine as the manifest says. `here` gives (id, recipe) by name."""
    found = []
    for _, images in sorted(manifest.images.items()):
        for _, image in sorted(images.items()):
            known = here.get(image.ref)
            if known is None:
                found.append(_finding("image", image.ref, "is not on this engine"))
            elif known[1] != image.recipe:
                what = f"was made by recipe {known[1][:12] or 'none'}, not {image.recipe[:12]}"
                found.append(_finding("image", image.ref, what))
            elif image.id and known[0] != image.id:
                what = (
                    f"has digest {_short(known[0])}, not {_short(image.id)}: "
                    "made by the same recipe, but not the image of the release"
                )
                found.append(_finding("image", image.ref, what))
    return found


def _short(identity: str) -> str:
    return identity.removeprefix("sha256:")[:12]


def _parts(counts: Mapping[str, int]) -> list[int]:
    return [counts.get(name, 0) for name in ("verified", "rejected", "excluded", "pending")]


def _finding(rule: str, path: str, what: str) -> Finding:
    shown = path if path.isprintable() else ascii(path)
    return Finding(rule=f"manifest-{rule}", message=f"{shown} {what}", place=shown)


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
