"""The only code that writes a release folder.

    R/release.toml
    R/rejected.jsonl               what mining turned down, one line each
    R/<instance id>/<stage>.json   one record per stage
    R/<instance id>/...            patches, statement, Dockerfile, locks: named by digest in a record
    R/local/                       the ledger: volatile facts of this machine, never committed

Writes are atomic (temporary file in the same folder, flush, replace), so that a killed command
leaves whole files or none. One command at a time holds a release's lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from race.core.records import FileRef, StageRecord, canonical, dump, sha256
from race.errors import Accident, Busy, DiskFull, Malformed, UnknownId, UsageError
from race.settings import ReleaseSettings, file_bytes, first_problem, json_object, read_release

R = TypeVar("R", bound=StageRecord)
INSTANCE_ID = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}$")
STAGE_ORDER = ("mine", "validate", "specify", "seal", "tier", "verify")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. Raises DiskFull, or Accident with what the system said."""
    handle, temporary = -1, ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFull(
                f"{path}: no room to write {len(data)} bytes; free some and run again"
            ) from error
        raise Accident(f"{path}: cannot write: {error.strerror}") from error


class TaskFolder:
    """One task of a release: its records, its files, its page of the ledger."""

    def __init__(self, release: Path, instance_id: str) -> None:
        if not INSTANCE_ID.match(instance_id):
            raise UsageError(f"{instance_id!r} is no instance id")
        self.id = instance_id
        self.path = release / instance_id
        self._ledger = release / "local" / instance_id

    def read(self, record: type[R]) -> R | None:
        """A stage's record, or None when the stage has not run. Malformed names the place."""
        path = self.path / f"{record.stage}.json"
        try:
            text = file_bytes(path)
        except FileNotFoundError:
            return None
        value = json_object(path, text)
        stage, schema = value.pop("stage", None), value.pop("schema", None)
        if stage != record.stage:
            raise Malformed(path, "stage", f"expected {record.stage!r}, found {stage!r}")
        if schema != record.schema_version:
            raise Malformed(path, "schema", f"expected {record.schema_version}, found {schema!r}")
        try:
            read = record.model_validate(value)
        except ValidationError as error:
            raise Malformed(path, *first_problem(error)) from error
        if read.instance_id != self.id:
            raise Malformed(path, "instance_id", f"{read.instance_id!r} in the folder of {self.id!r}")
        return read

    def write(self, record: StageRecord) -> None:
        """Write a stage's record."""
        write_atomic(self.path / f"{record.stage}.json", dump(record))

    def drop(self, stage: str) -> None:
        """Forget a stage's record; nothing happens when there is none."""
        (self.path / f"{stage}.json").unlink(missing_ok=True)

    def record_digest(self, stage: str) -> str:
        """SHA-256 of a stage's record file, or an empty string when the stage has not run."""
        try:
            return sha256(file_bytes(self.path / f"{stage}.json"))
        except FileNotFoundError:
            return ""

    def write_file(self, name: str, data: bytes) -> FileRef:
        """Write a file beside the records; its name, digest and size."""
        write_atomic(self.path / name, data)
        return FileRef(path=name, sha256=sha256(data), bytes=len(data))

    def read_file(self, ref: FileRef) -> bytes:
        """A file that a record names. Malformed when it is gone or is not what was recorded."""
        path = self.path / ref.path
        try:
            data = file_bytes(path)
        except FileNotFoundError as error:
            raise Malformed(path, "", "named by a record, but not there") from error
        if sha256(data) != ref.sha256:
            raise Malformed(path, "", f"changed since it was recorded (sha256 {sha256(data)[:12]})")
        return data

    def note(self, stage: str, facts: dict[str, Any]) -> None:
        """Write a stage's volatile facts to the ledger, with the digest of the record they go with."""
        entry = facts | {"record": self.record_digest(stage)}
        write_atomic(self._ledger / f"{stage}.json", canonical(entry))

    def noted(self, stage: str) -> dict[str, Any]:
        """The ledger's facts for the record as it stands; empty when they belong to another."""
        try:
            value = json.loads((self._ledger / f"{stage}.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        if not isinstance(value, dict) or value.get("record") != self.record_digest(stage):
            return {}
        return value

    def evidence(self, name: str, data: bytes) -> Path:
        """Keep a volatile file (log, stacks, trajectory) in the ledger; where it is."""
        path = self._ledger / name
        write_atomic(path, data)
        return path

    def evidence_path(self, name: str) -> Path:
        """Where a volatile file of that name is, or would be."""
        return self._ledger / name


class Store:
    """A release folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: ReleaseSettings = read_release(folder)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the release. Raises Busy when another command does; a dead one's lock is free."""
        path = self.folder / "local" / "lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Accident(f"{path}: cannot lock: {error.strerror}") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise Busy(
                    f"{self.folder} is in use by process {owner}; wait for it or stop it"
                ) from error
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            for left in self.folder.glob("**/.writing-*"):
                left.unlink(missing_ok=True)
            yield
        finally:
            os.close(handle)

    def ids(self) -> list[str]:
        """Every task with a folder, sorted."""
        return sorted(
            entry.name
            for entry in self.folder.iterdir()
            if entry.is_dir() and (entry / "mine.json").is_file()
        )

    def pick(self, asked: Sequence[str]) -> list[str]:
        """The asked ids, or all. Raises UnknownId with the nearest known one."""
        known = self.ids()
        for instance_id in asked:
            if instance_id not in known:
                raise UnknownId(instance_id, known, str(self.folder))
        return list(dict.fromkeys(asked)) or known

    def task(self, instance_id: str) -> TaskFolder:
        """The folder of a task, which need not exist yet."""
        return TaskFolder(self.folder, instance_id)

    def read_text(self, name: str) -> bytes | None:
        """A file at the top of the release, or None."""
        try:
            return file_bytes(self.folder / name)
        except FileNotFoundError:
            return None

    def write_text(self, name: str, data: bytes) -> None:
        """Write a file at the top of the release (task lists, rejected.jsonl, the manifest)."""
        write_atomic(self.folder / name, data)

    def read_local(self, name: str) -> dict[str, Any]:
        """A volatile fact of the whole release, such as where its clones are; empty without one."""
        try:
            value = json.loads((self.folder / "local" / name).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def write_local(self, name: str, value: dict[str, Any]) -> None:
        """Write a volatile fact of the whole release."""
        write_atomic(self.folder / "local" / name, canonical(value))
