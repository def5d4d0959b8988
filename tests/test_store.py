"""The release folder: atomic writes, locks, digests, and one clear line for what is malformed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from race.core.records import Mined, dump
from race.errors import Accident, Busy, DiskFull, Malformed, Missing, UnknownId, UsageError
from race.store import Store, write_atomic

RELEASE = """
[release]
name = "little"
canary = "00000000-0000-4000-8000-000000000000"
"""


def mined(instance_id: str, **changes: object) -> Mined:
    values = {
        "instance_id": instance_id, "accepted": True, "repo": "a/b", "pr": 1, "title": "Fix a race",
        "merged_at": "2026-01-01T00:00:00+00:00", "authored_at": "2026-01-01T00:00:00+00:00",
        "base_commit": "0" * 40, "merge_commit": "1" * 40, "merge_style": "squash", "licence": "MIT",
    }  # fmt: skip
    return Mined.model_validate(values | changes)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    folder = tmp_path / "little"
    folder.mkdir()
    (folder / "release.toml").write_text(RELEASE)
    store = Store(folder)
    store.task("a__b-1").write(mined("a__b-1"))
    return store


def test_a_record_comes_back_as_it_was_written(store: Store) -> None:
    """Writing and reading a record loses nothing, and its bytes are canonical."""
    task = store.task("a__b-1")
    assert task.read(Mined) == mined("a__b-1")
    assert (task.path / "mine.json").read_bytes() == dump(mined("a__b-1"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", ""),
        ("[]", ""),
        ('{"stage": "validate", "schema": 1}', "stage"),
        ('{"stage": "mine", "schema": 99}', "schema"),
        ('{"stage": "mine", "schema": 1}', "instance_id"),
    ],
)
def test_a_malformed_record_names_file_and_place(store: Store, text: str, place: str) -> None:
    """A record that does not parse is one line with its file and place, never a traceback."""
    path = store.task("a__b-1").path / "mine.json"
    path.write_text(text)
    with pytest.raises(Malformed) as caught:
        store.task("a__b-1").read(Mined)
    assert str(path) in str(caught.value)
    assert caught.value.place == place
    assert "\n" not in str(caught.value)


def test_a_record_refuses_a_field_that_it_does_not_know(store: Store) -> None:
    """Records are closed: a field of a later version is an error that names it."""
    path = store.task("a__b-1").path / "mine.json"
    value = json.loads(path.read_text()) | {"surprise": 1}
    path.write_text(json.dumps(value))
    with pytest.raises(Malformed, match="surprise"):
        store.task("a__b-1").read(Mined)


def test_a_changed_file_is_noticed(store: Store) -> None:
    """A file that a record names by digest cannot change quietly."""
    task = store.task("a__b-1")
    ref = task.write_file("fix.patch", b"one")
    assert task.read_file(ref) == b"one"
    (task.path / "fix.patch").write_bytes(b"two")
    with pytest.raises(Malformed, match="changed since"):
        task.read_file(ref)
    (task.path / "fix.patch").unlink()
    with pytest.raises(Malformed, match="not there"):
        task.read_file(ref)


def test_the_ledger_belongs_to_one_record(store: Store) -> None:
    """Volatile facts are forgotten when the record that they went with has changed."""
    task = store.task("a__b-1")
    task.note("mine", {"seconds": 3})
    assert task.noted("mine")["seconds"] == 3
    task.write(mined("a__b-1", title="Another"))
    assert task.noted("mine") == {}


def test_an_unknown_id_offers_the_nearest(store: Store) -> None:
    """A typing error is answered with the id that was meant."""
    with pytest.raises(UnknownId, match=r"did you mean a__b-1\?"):
        store.pick(["a__b-l"])
    assert store.pick([]) == ["a__b-1"]


@pytest.mark.parametrize("bad", ["../x", "a/b", "", ".hidden", "a" * 121])
def test_an_id_cannot_leave_its_release(store: Store, bad: str) -> None:
    """No id names a folder outside the release."""
    with pytest.raises(UsageError):
        store.task(bad)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[release]\nname = ?\n", "line 2"),
        ("", "release: Field required"),
        (RELEASE + "[mine]\nthresold = 1\n", "mine.thresold"),
        (RELEASE.replace("little", "Not A Name"), "release.name"),
        (RELEASE + "[validate]\nruns = 'three'\n", "validate.runs"),
    ],
)
def test_a_malformed_release_toml_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    """A mistake in release.toml is told with file, key and what is wrong."""
    (tmp_path / "release.toml").write_text(text)
    with pytest.raises(Malformed) as caught:
        Store(tmp_path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_release_toml_is_missing_something(tmp_path: Path) -> None:
    """Pointing at the wrong folder says how to make a release."""
    with pytest.raises(Missing, match="race init"):
        Store(tmp_path)


def test_two_commands_on_one_release_at_once(store: Store) -> None:
    """The second one is told who holds the release, and changes nothing."""
    code = (
        "import sys, time; from pathlib import Path; from race.store import Store\n"
        "with Store(Path(sys.argv[1])).lock():\n    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(store.folder)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=str(holder.pid)), store.lock():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with store.lock():
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """When the new file does not fit, the old one stays whole and no half-written one is left."""
    target = tmp_path / "record.json"
    write_atomic(target, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(DiskFull, match="no room"):
            write_atomic(target, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_really_full_device_is_an_accident(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ENOSPC as a real device reports it becomes DiskFull with what to do."""
    monkeypatch.setattr(
        "race.store.tempfile.mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), "")
    )
    with pytest.raises(DiskFull, match="free some and run again"):
        write_atomic(tmp_path / "record.json", b"x" * 200_000)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_is_killed_leaves_whole_files(tmp_path: Path) -> None:
    """SIGKILL at any moment leaves the old bytes or the new ones, never a part."""
    code = (
        "import sys, itertools; from pathlib import Path; from race.store import write_atomic\n"
        "print('go', flush=True)\n"
        "for n in itertools.count():\n"
        "    write_atomic(Path(sys.argv[1]), bytes([65 + n % 26]) * 100_000)"
    )
    target = tmp_path / "record.json"
    for delay in (0.0, 0.01, 0.05):
        writer = subprocess.Popen(
            [sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.05 + delay)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        data = target.read_bytes()
        assert len(data) == 100_000
        assert len(set(data)) == 1


def test_a_folder_that_cannot_be_written_is_an_accident(tmp_path: Path) -> None:
    """A path that cannot be written is an accident with the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Accident, match="cannot write"):
        write_atomic(tmp_path / "file" / "record.json", b"")
