import lzma
import subprocess

import pytest

from race.core.records import Mined
from race.core.validated import Validated
from race.errors import Malformed, Missing
from race.store import Store
from race.work.source import ARCHIVE, ensure_source, read_source


@pytest.fixture
def small(tmp_path, sample_project):
    """A release with one mined task of the sample, whose clone is known."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "release.toml").write_text(
        '[release]\nname = "small"\ncanary = "00000000-0000-0000-0000-000000000000"\n'
    )
    store = Store(folder)
    store.write_local("clones.json", {"sample/brook": str(sample_project)})
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=sample_project, check=True, capture_output=True, text=True
    ).stdout.strip()
    mined = Mined(
        instance_id="sample__brook-1", accepted=True, repo="sample/brook", pr=1, title="t",
        merged_at="2025-01-01T00:00:00Z", authored_at="2025-01-01T00:00:00Z",
        base_commit=head, merge_commit=head, merge_style="squash", licence="MIT",
    )  # fmt: skip
    return store, store.task(mined.instance_id), mined


def test_the_archive_holds_the_tree_at_the_base_commit(bench, small):
    """What is written beside the record unpacks to the project's tree, without its history."""
    store, task, mined = small
    ref, tar = ensure_source(bench, store, task, mined, None)
    assert read_source(task, ref) == tar
    assert b"src/brook/__init__.py" in tar
    assert b".git/" not in tar


def test_an_archive_of_the_same_tree_is_kept_byte_for_byte(bench, small):
    """Another version of the compressor writes other bytes; the recorded file stays."""
    store, task, mined = small
    _, tar = ensure_source(bench, store, task, mined, None)
    kept = lzma.compress(tar, preset=0)
    task.write_file(ARCHIVE, kept)
    ref, again = ensure_source(bench, store, task, mined, None)
    assert again == tar
    assert (task.path / ARCHIVE).read_bytes() == kept
    assert ref.bytes == len(kept)


def test_a_file_that_is_no_archive_is_replaced(bench, small):
    """A broken archive is written anew from the clone."""
    store, task, mined = small
    task.write_file(ARCHIVE, b"not xz")
    ref, tar = ensure_source(bench, store, task, mined, None)
    assert read_source(task, ref) == tar


def test_without_the_clone_the_recorded_archive_serves_and_must_be_whole(bench, small):
    """The release folder alone is enough; a changed archive is named with its file."""
    store, task, mined = small
    ref, tar = ensure_source(bench, store, task, mined, None)
    store.write_local("clones.json", {})
    record = Validated(instance_id=task.id, accepted=True, source=ref)
    assert ensure_source(bench, store, task, mined, record) == (ref, tar)
    with pytest.raises(Missing, match="needs a clone of sample/brook"):
        ensure_source(bench, store, task, mined, None)
    task.write_file(ARCHIVE, b"changed")
    with pytest.raises(Malformed, match=r"source.tar.xz: .*changed"):
        ensure_source(bench, store, task, mined, record)
