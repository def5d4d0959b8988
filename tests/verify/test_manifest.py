"""The manifest names every changed byte, without an engine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from race.cli import run
from race.core.manifest import ManifestFile, read_counts
from race.core.records import Mined
from race.core.sealed import ImageRecipe, Sealed
from race.errors import Malformed, Missing
from race.ports import Image
from race.store import Store
from race.work.manifests import check_manifest, read_manifest, write_manifest

TOML = '[release]\nname = "small"\ncanary = "5d0c8f0e-3a52-4b9e-9b43-6a1f2c7d8e90"\n'


@pytest.fixture
def release(tmp_path: Path) -> Store:
    """A release with one mined and sealed task."""
    (tmp_path / "release.toml").write_text(TOML)
    store = Store(tmp_path)
    task = store.task("o__r-1")
    fix = task.write_file("fix.patch", b"--- a/x\n+++ b/x\n")
    task.write(
        Mined(
            instance_id="o__r-1", accepted=True, repo="o/r", pr=1, title="t", merged_at="2026-01-01",
            authored_at="2026-01-01", base_commit="0" * 40, merge_commit="1" * 40,
            merge_style="merge", licence="MIT", fix_patch=fix,
        )
    )  # fmt: skip
    image = ImageRecipe(ref="race-small:o__r-1.env", recipe="r" * 64)
    task.write(Sealed(instance_id="o__r-1", accepted=True, env_image=image, test_image=image))
    task.note("seal", {"env_id": "sha256:1", "test_id": "sha256:2"})
    return store


def test_an_untouched_release_is_as_its_manifest_says(release: Store) -> None:
    """Writing and checking agree; the ledger is not part of it."""
    assert write_manifest(release)
    release.write_local("anything.json", {"a": 1})
    assert check_manifest(release) == []
    assert read_manifest(release).images["o__r-1"]["env"].id == "sha256:1"


def test_any_changed_byte_is_named(release: Store) -> None:
    """Every file of the release, with each of its bytes changed in turn, is named by the check."""
    write_manifest(release)
    files = [p for p in release.folder.rglob("*") if p.is_file() and "local" not in p.parts]
    for path in files:
        if path.name in ("manifest.json", "release.toml"):
            continue
        data = path.read_bytes()
        for at in range(0, len(data), max(1, len(data) // 7)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            findings = check_manifest(release)
            assert [f.place for f in findings] == [path.relative_to(release.folder).as_posix()]
        path.write_bytes(data)
    assert check_manifest(release) == []


def test_missing_and_added_files_are_named(release: Store) -> None:
    """A file that went and one that came are both findings."""
    write_manifest(release)
    (release.folder / "o__r-1" / "fix.patch").unlink()
    (release.folder / "o__r-1" / "extra").write_text("x")
    rules = {finding.place: finding.rule for finding in check_manifest(release)}
    assert rules == {"o__r-1/fix.patch": "manifest-missing", "o__r-1/extra": "manifest-unlisted"}


def test_another_release_section_is_named(release: Store) -> None:
    """The manifest belongs to one version and canary."""
    write_manifest(release)
    path = release.folder / "release.toml"
    path.write_text(TOML.replace("small", "other"))
    assert {f.rule for f in check_manifest(Store(release.folder))} == {
        "manifest-changed",
        "manifest-release",
    }


def test_other_image_ids_alone_leave_the_manifest(release: Store) -> None:
    """A rebuild on another machine writes nothing; a changed file does."""
    write_manifest(release)
    before = (release.folder / "manifest.json").read_bytes()
    release.task("o__r-1").note("seal", {"env_id": "sha256:9", "test_id": "sha256:8"})
    assert not write_manifest(release)
    assert (release.folder / "manifest.json").read_bytes() == before
    release.task("o__r-1").write_file("statement.md", b"it hangs\n")
    assert write_manifest(release)


def test_counts_that_do_not_add_up_are_a_finding(release: Store) -> None:
    """A manifest whose counts lose a task is not believed."""
    write_manifest(release)
    path = release.folder / "manifest.json"
    value = json.loads(path.read_bytes())
    value["counts"]["tasks"] += 1
    path.write_text(json.dumps(value))
    assert [f.rule for f in check_manifest(release)] == ["manifest-changed", "manifest-counts"]


def test_a_changed_byte_of_the_manifest_itself_is_named(release: Store) -> None:
    """Each value in turn, an image's id too, and a mere change of its spelling."""
    write_manifest(release)
    path = release.folder / "manifest.json"
    before = path.read_bytes()
    for old, new in (
        (b"sha256:1", b"sha256:3"),
        (b"race 0", b"race 9"),
        (b'"tasks": 1', b'"tasks":  1'),
    ):
        assert old in before
        path.write_bytes(before.replace(old, new))
        findings = check_manifest(release)
        assert ("manifest-changed", "manifest.json") in [(f.rule, f.place) for f in findings]
    path.write_bytes(before)
    assert check_manifest(release) == []


def test_a_record_that_names_an_image_by_another_digest_is_one_line(release: Store) -> None:
    """A manifest that was made to fit a changed record's file still disagrees about the image."""
    write_manifest(release)
    manifest = read_manifest(release)
    task = release.task("o__r-1")
    sealed = task.read(Sealed)
    assert sealed
    other = ImageRecipe(ref="race-small:o__r-1.env", recipe="e" * 64)
    task.write(sealed.model_copy(update={"env_image": other}))
    data = (task.path / "seal.json").read_bytes()
    entry = ManifestFile(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    files = manifest.files | {"o__r-1/seal.json": entry}
    release.write_text("manifest.json", manifest.model_copy(update={"files": files}).sealed().dump())
    (finding,) = check_manifest(release)
    assert finding.rule == "manifest-image"
    assert finding.message == (
        "o__r-1/seal.json names race-small:o__r-1.env by recipe eeeeeeeeeeee, "
        "the manifest race-small:o__r-1.env by rrrrrrrrrrrr"
    )


class Here:
    """An engine that has some images."""

    def __init__(self, images: dict[str, Image]) -> None:
        self.images = images

    def image(self, ref: str) -> Image | None:
        return self.images.get(ref)


def _image(identity: str, recipe: str) -> Image:
    return Image(f"sha256:{identity}", (), {"race.recipe": recipe}, (), 1)


@pytest.mark.parametrize(
    ("identity", "recipe", "said"),
    [
        ("1", "r" * 64, ""),
        ("9", "r" * 64, "has digest 9, not 1"),
        ("1", "e" * 64, "was made by recipe eeeeeeeeeeee, not rrrrrrrrrrrr"),
        ("", "", "is not on this engine"),
    ],
)
def test_images_are_compared_where_an_engine_has_them(
    release: Store, identity: str, recipe: str, said: str
) -> None:
    """One clear line for each image that is missing, of another recipe, or another digest."""
    release.task("o__r-1").note("seal", {"env_id": "sha256:1", "test_id": "sha256:1"})
    write_manifest(release)
    here = Here({"race-small:o__r-1.env": _image(identity, recipe)} if identity else {})
    findings = check_manifest(release, here)  # type: ignore[arg-type]
    assert len({finding.message for finding in findings}) == (1 if said else 0)
    assert all(said in finding.message for finding in findings)


def test_counts_by_state() -> None:
    """Excluded is what the release check turned down, rejected what an earlier stage did."""
    states = {
        "a": ("verified", ""),
        "b": ("rejected", "verify"),
        "c": ("rejected", "mine"),
        "d": ("pending", ""),
    }
    assert read_counts(states, 1) == {
        "verified": 1, "rejected": 1, "excluded": 1, "pending": 1, "tasks": 4, "private": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place"),
    [("{", ""), ("[]", ""), ('{"schema": 9}', "schema"), ('{"schema": 1, "made_by": 3}', "release")],
)
def test_a_malformed_manifest_is_one_clear_line(release: Store, text: str, place: str) -> None:
    """File, place and what is wrong."""
    (release.folder / "manifest.json").write_text(text)
    with pytest.raises(Malformed) as caught:
        read_manifest(release)
    assert caught.value.place == place


def test_no_manifest_says_what_to_do(release: Store) -> None:
    """Without one the user is told which command writes it."""
    with pytest.raises(Missing, match="race verify"):
        read_manifest(release)


def test_the_command_needs_no_engine(release: Store, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """`race verify R --manifest` answers with no engine in reach: 0 as said, 1 with differences."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    write_manifest(release)
    assert run(["verify", str(release.folder), "--manifest"]) == 0
    (release.folder / "o__r-1" / "fix.patch").write_bytes(b"")
    assert run(["verify", str(release.folder), "--manifest", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out.split("\n", 1)[1])
    assert answer["findings"][0]["place"] == "o__r-1/fix.patch"
