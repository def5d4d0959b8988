"""The source archive of a task: the tree at its base commit, kept beside the record."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

from race.core.records import FileRef, Mined, sha256
from race.core.validated import Validated
from race.errors import Malformed, Missing
from race.store import Store, TaskFolder
from race.work.servers import SERVERS
from race.workbench import Workbench

ARCHIVE = "source.tar.xz"


def read_source(task: TaskFolder, source: FileRef) -> bytes:
    """The tar inside a recorded archive. Malformed when the file is gone, changed or not xz."""
    return _unpacked(task, task.read_file(source))


def ensure_source(
    bench: Workbench,
    store: Store,
    task: TaskFolder,
    mined: Mined,
    previous: Validated | None,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[FileRef, bytes]:
    """The recorded archive and the tar in it, made from the project's clone when there is one.

    The same tree keeps the file that is there: another version of the compressor writes other bytes.
    Without a clone an earlier record's archive serves, and without one the server that the project was
    mined from is asked for the tree. Raises Missing when there is none of them.
    """
    path = clone_of(bench, store, mined.repo)
    if path is None and previous is not None and previous.source is not None:
        return previous.source, read_source(task, previous.source)
    if path is not None:
        tar = bench.clone(path, mined.repo).archive(mined.base_commit)
    else:
        tar = _from_server(bench, store, task, mined, say)
    kept = task.path / ARCHIVE
    if kept.is_file():
        data = kept.read_bytes()
        try:
            if lzma.decompress(data) == tar:
                return FileRef(path=ARCHIVE, sha256=sha256(data), bytes=len(data)), tar
        except lzma.LZMAError:
            pass
    return task.write_file(ARCHIVE, lzma.compress(tar, preset=6)), tar


def clone_of(bench: Workbench, store: Store, repo: str) -> Path | None:
    """Where a project's clone is on this machine: what mining noted, else race.toml, else None."""
    named = store.read_local("clones.json").get(repo) or bench.workspace.clones.get(repo)
    path = Path(named).expanduser() if isinstance(named, str) and named else None
    return path if path is not None and path.exists() else None


def _from_server(
    bench: Workbench, store: Store, task: TaskFolder, mined: Mined, say: Callable[[str], None]
) -> bytes:
    """The tree at the base commit, asked from the server that mining asked: one request a file."""
    api_url = store.read_local(SERVERS).get(mined.repo)
    if not isinstance(api_url, str):
        raise Missing(
            f"{task.id} needs a clone of {mined.repo}: run `race mine {store.folder} --clone PATH "
            f"--repo {mined.repo}`, or name it under [clones] in race.toml; without a clone, "
            f"`race mine {store.folder} --github {mined.repo}` lets its files be asked from there"
        )
    say(f"asking {api_url or 'GitHub'} for the source")
    return bench.github(mined.repo, api_url, say).archive(mined.base_commit)


def _unpacked(task: TaskFolder, data: bytes) -> bytes:
    try:
        return lzma.decompress(data)
    except lzma.LZMAError as error:
        raise Malformed(task.path / ARCHIVE, "", f"not an xz archive: {error}") from error
