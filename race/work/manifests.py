"""Writes and checks a release's manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from race import __version__
from race.core.manifest import (
    NAME,
    Manifest,
    ManifestFile,
    ManifestImage,
    ManifestRelease,
    differences,
    engine_differences,
    image_differences,
    not_files,
    read_counts,
)
from race.core.records import Finding
from race.core.sealed import Sealed
from race.errors import Malformed, Missing
from race.ports import Engine
from race.settings import first_problem, json_object
from race.store import STAGE_ORDER, Store
from race.work.standing import stands

LEDGER = "local"


def write_manifest(store: Store) -> bool:
    """Write the manifest of the release as it stands; whether it changed.

    One that tells of the same release but for image ids stays as it is: those are of the machine
    that made the release. The ids of this machine are in the ledger.
    """
    made = _made(store)
    store.write_local(
        "images.json",
        {
            task: {kind: image.id for kind, image in images.items()}
            for task, images in made.images.items()
        },
    )
    try:
        before = read_manifest(store)
    except (Missing, Malformed):
        before = None
    if before is not None and before.same_release(made):
        return False
    store.write_text(NAME, made.dump())
    return True


def read_manifest(store: Store) -> Manifest:
    """The manifest as written. Raises Missing without one, Malformed with the place."""
    path = store.folder / NAME
    text = store.read_text(NAME)
    if text is None:
        raise Missing(f"{store.folder} has no {NAME}; `race verify {store.folder}` writes it")
    value = json_object(path, text)
    schema = value.pop("schema", None)
    if schema != Manifest.schema_version:
        raise Malformed(path, "schema", f"expected {Manifest.schema_version}, found {schema!r}")
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        raise Malformed(path, *first_problem(error)) from error


def image_digests(store: Store) -> dict[str, dict[str, str]]:
    """Each task's images by digest, `env` and `test`: as the manifest says, which is what was
    published, else as the last check or seal on this machine noted them."""
    known: dict[str, dict[str, str]] = {}
    for instance_id in store.ids():
        task = store.task(instance_id)
        noted = task.noted("verify") or task.noted("seal")
        known[instance_id] = {
            kind: str(noted[f"{kind}_id"]) for kind in ("env", "test") if noted.get(f"{kind}_id")
        }
    try:
        manifest = read_manifest(store)
    except (Missing, Malformed):
        return known
    for instance_id, images in manifest.images.items():
        said = {kind: image.id for kind, image in images.items() if image.id}
        known[instance_id] = known.get(instance_id, {}) | said
    return known


def check_manifest(store: Store, engine: Engine | None = None) -> list[Finding]:
    """Everything in the folder that is not as its manifest says, the manifest's own bytes and the
    images that records name among it. With an engine, also every image that is not on it as listed.
    """
    manifest = read_manifest(store)
    found = manifest.own_findings(store.read_text(NAME) or b"")
    found += differences(manifest, _files(store.folder), _release(store))
    found += not_files(_odd(store.folder))
    named = {finding.place for finding in found}
    try:
        other = image_differences(manifest, _images(store))
        found += [finding for finding in other if finding.place not in named]
    except Malformed:
        if not found:
            raise
    if engine is not None:
        refs = {image.ref for images in manifest.images.values() for image in images.values()}
        here = {ref: engine.image(ref) for ref in refs}
        found += engine_differences(
            manifest,
            {ref: (i.id, i.labels.get("race.recipe", "")) if i else None for ref, i in here.items()},
        )
    return found


def _images(store: Store) -> dict[str, dict[str, ManifestImage]]:
    """The images that the records name, with the ids that this machine noted."""
    images: dict[str, dict[str, ManifestImage]] = {}
    for instance_id in store.ids():
        task = store.task(instance_id)
        sealed = task.read(Sealed)
        if sealed is None or not sealed.accepted or not sealed.env_image or not sealed.test_image:
            continue
        noted = task.noted("verify") or task.noted("seal")
        images[instance_id] = {
            kind: ManifestImage(
                ref=recipe.ref, recipe=recipe.recipe, id=str(noted.get(f"{kind}_id", ""))
            )
            for kind, recipe in (("env", sealed.env_image), ("test", sealed.test_image))
        }
    return images


def _made(store: Store) -> Manifest:
    states: dict[str, tuple[str, str]] = {}
    for instance_id in store.ids():
        standing = stands(store, instance_id)
        stage = next((s for s in STAGE_ORDER if standing["stages"][s] == "rejected"), "")
        states[instance_id] = (standing["state"], stage)
    private = sum(i in states for i in store.settings.release.private)
    return Manifest(
        release=_release(store),
        made_by=f"race {__version__}",
        counts=read_counts(states, private),
        files=_files(store.folder),
        images=_images(store),
    ).sealed()


def _release(store: Store) -> ManifestRelease:
    said = store.settings.release
    return ManifestRelease(name=said.name, version=said.version, canary=said.canary, sample=said.sample)


def _odd(folder: Path) -> list[str]:
    """Links and devices: what stands behind them is not in the release."""
    odd = (path for path in sorted(folder.rglob("*")) if path.is_symlink() or not _plain(path))
    names = (path.relative_to(folder).as_posix() for path in odd)
    return [name for name in names if name.split("/", 1)[0] != LEDGER]


def _plain(path: Path) -> bool:
    return path.is_file() or path.is_dir()


def _files(folder: Path) -> dict[str, ManifestFile]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name == NAME or name.split("/", 1)[0] == LEDGER:
            continue
        if path.name.startswith(".writing-"):
            continue
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while piece := stream.read(2**20):
                digest.update(piece)
                size += len(piece)
        found[name] = ManifestFile(sha256=digest.hexdigest(), bytes=size)
    return found
