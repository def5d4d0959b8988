"""Kinds of leak on small images that need no engine: each found by its probe, at its place."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_images import COMMIT, LINE, NAME, SITE, ZERO, G, audit, found, one_commit, packed, with_files

from race.core.leaks.patchtext import applied


def digest_line(workshop) -> bytes:
    """What a RECORD says of the fixed file."""
    (file,) = workshop.wanted.fix_files
    base = (workshop.clean / "repo" / file.path).read_bytes()
    raw = hashlib.sha256(applied(file, base) or b"").digest()
    return b"tallybook/counter.py,sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=") + b",1\n"


def checker_database(_: Any) -> bytes:
    """A type checker's cache in a database."""
    connection = sqlite3.connect(":memory:")
    connection.execute("create table files2 (path text, data text)")
    data = json.dumps({"names": {"_turnstile": 1, "_journal_entry": 2}})
    connection.execute("insert into files2 values (?, ?)", ("tallybook/counter.data.json", data))
    connection.commit()
    return connection.serialize()


KINDS: dict[str, tuple[str, str, bytes | Callable[[Any], bytes]]] = {
    "message of a merge": (f"{G}/MERGE_MSG", "git-heads", b"Merge the other branch\n"),
    "rebase under way": (f"{G}/rebase-merge/onto", "git-heads", ZERO.encode()),
    "message that names a change": (f"{G}/COMMIT_EDITMSG", "git-heads", b"Keep additions (#7)\n"),
    "remote of a work tree": (f"{G}/config.worktree", "git-remotes", b'[remote "o"]\nurl = x/y\n'),
    "remote in a file of its own": (f"{G}/remotes/origin", "git-remotes", b"URL: https://x.invalid/y\n"),
    "refs in a table": (f"{G}/reftable/1.ref", "git-refs", b"REFT\x01refs/remotes/origin/main"),
    "type checker's database": ("repo/.mypy_cache/3.11/cache.db", "tool-caches", checker_database),
    "type checker's own format": (
        "repo/.mypy_cache/3.13/tallybook/counter.data.ff", "tool-caches",
        b"\x01\x10_turnstile\x02\x20_journal_entry\x01",
    ),
    "coverage in JSON": (
        "repo/coverage.json", "tool-caches",
        b'{"files": {"src/tallybook/counter.py": {"functions": {"Tally._journal_entry": {}}}}}',
    ),
    "cache that holds a compressed test name": (
        "repo/.hypothesis/x/names.gz", "tool-caches", gzip.compress(NAME.encode()),
    ),
    "digest of the fixed file": (f"{SITE}/tallybook-2.dist-info/RECORD", "listings", digest_line),
    "version of an installed copy": (
        f"{SITE}/tallybook/_version.py", "version-strings", b"commit_id = 'g1a2b3c4d5'\n",
    ),
    "archive of a commit as source": (
        f"{SITE}/x-1.dist-info/direct_url.json", "version-strings",
        b'{"url": "https://x.invalid/o/r/archive/' + COMMIT.encode() + b'.zip", "archive_info": {}}',
    ),
    "version in a folder's name": (
        f"{SITE}/x-1.2.dev3+g1a2b3c4d5.dist-info/INSTALLER", "version-strings", b"pip\n",
    ),
    "swap file of another letter": ("repo/src/.counter.py.swn", "reject-files", b"b0VIM"),
    "auto-saved by an editor": ("repo/src/#counter.py#", "reject-files", b"x\n"),
    "side of a merge": ("repo/src/counter_REMOTE_12.py", "reject-files", b"x\n"),
    "history of another shell": ("root/.local/share/fish/fish_history", "shell-history", b"- cmd: x\n"),
    "history of a notebook shell": ("root/.ipython/p/history.sqlite", "shell-history", b"x"),
    "password for a server": ("root/.netrc", "left-over-files", b"machine x login y password z\n"),
    "key": ("root/.ssh/id_ed25519", "left-over-files", b"-----BEGIN\n"),
    "lock file of another tool": ("repo/conda-lock.yml", "newer-lock-files", b"x\n"),
    "trajectory by another name": ("data/1.traj", "attempt-leftovers", b"{}"),
    "log of a grading": ("logs/run_instance.log", "attempt-leftovers", b"x"),
    "news by number in a folder below": ("repo/.changes/next/7.yaml", "news-entries", b"x"),
    "proxy of a shell": ("root/.bashrc", "proxy-settings", b"export https_proxy=http://10.0.0.1:3128\n"),
    "package index of a tool": ("root/.config/uv/uv.toml", "proxy-settings", b'index-url = "http://x/"\n'),
    "registry of scripts": ("root/.npmrc", "proxy-settings", b"registry=http://10.0.0.1/\n"),
    "proxy of a container tool": (
        "root/.docker/config.json", "proxy-settings", b'{"proxies": {"a": {"httpProxy": "http://x:1"}}}',
    ),
    "stream within a program": (
        "opt/tool", "archives", b"\x7fELF" + bytes(2000) + gzip.compress(LINE.encode() * 3),
    ),
    "numbers": ("opt/n.txt", "encoded", json.dumps(list(LINE.encode())).encode()),
    "turned letters": ("opt/r.txt", "encoded", b"vs nzbhag > orsber naq frys._gheafgvyr.ybpxrq():"),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_found_at_its_place(name: str, workshop, tmp_path: Path) -> None:
    """The probe named for the kind names the file, or the folder that tells."""
    path, probe, content = KINDS[name]
    data = content if isinstance(content, bytes) else content(workshop)
    told = audit(workshop, [packed(with_files(workshop, tmp_path / "root", {path: data}))])
    assert any(f"/{path}".startswith(place.split("!")[0]) for place in found(told, probe)), [
        (p.name, f.path, f.what) for p in told.probes for f in p.findings
    ]


CONFIGURED: dict[str, dict[str, Any]] = {
    "command of the last build step": {"container_config": {"Cmd": ["sh", "-c", LINE]}},
    "a field that nobody knows": {
        "moby.buildinfo": base64.b64encode(f"{LINE}\n{LINE}".encode()).decode()
    },
    "compressed in a label": {
        "config": {"Labels": {"x": base64.b64encode(gzip.compress(LINE.encode() * 2)).decode()}}
    },
    "commit that a step checks out": {
        "history": [{"created_by": f"RUN git clone x && cd x && git checkout {COMMIT}"}]
    },
    "number of the pull request": {"config": {"Labels": {"closes": "#7"}}},
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_all_that_an_image_says_of_itself_is_read(name: str, workshop) -> None:
    """Unknown fields, deep encodings, checked-out commits and numbers in the configuration."""
    told = audit(workshop, [packed(workshop.clean)], CONFIGURED[name])
    assert found(told, "image-metadata")


def test_keys_and_digests_in_a_history_are_no_commits(workshop) -> None:
    """A key's fingerprint and the digests of copied files say nothing of a change."""
    steps = [
        {"created_by": "ENV GPG_KEY=A035C8C19219BA821ECEA86B64E628F8D684696D"},
        {"created_by": f"COPY dir:{'3ad39c59bd7a853c' * 4} in / "},
        {"created_by": "RUN git config --system user.name agent"},
    ]
    assert audit(workshop, [packed(workshop.clean)], {"history": steps}).clean


def test_a_folder_of_a_test_run_is_found_though_it_is_empty(workshop, tmp_path: Path) -> None:
    """What pytest leaves in the temporary folder is named after tests."""
    root = workshop.copy(tmp_path / "root")
    (root / f"tmp/pytest-of-root/pytest-0/{NAME[:30]}0").mkdir(parents=True)
    assert "/tmp/pytest-of-root" in found(audit(workshop, [packed(root)]), "temporary-files")


def test_a_password_file_that_the_project_tracks_is_no_finding(workshop, tmp_path: Path) -> None:
    """A fixture of its tests is the base commit's own."""
    root = with_files(workshop, tmp_path / "r", {"repo/tests/.netrc": b"machine x login y password z\n"})
    one_commit(root)
    assert not found(audit(workshop, [packed(root)]), "left-over-files")


def test_settings_of_a_coverage_tool_are_no_cache(workshop, tmp_path: Path) -> None:
    """They name modules and common words; and one common word in a cache is none of the fix's own."""
    data = b'src/tallybook/counter.py\nturnstile entry "Abstract" locked\n'
    files = {"repo/.coveragerc": data, "repo/.pytest_cache/v/x": b'"src/tallybook/counter.py" locked'}
    told = audit(workshop, [packed(with_files(workshop, tmp_path / "r", files))])
    assert not found(told, "tool-caches")


def test_formats_that_are_never_opened_are_in_the_document(workshop) -> None:
    """Whoever reads the answer of a program learns what was not looked into at all."""
    document = audit(workshop, [packed(workshop.clean)]).as_json()
    assert document["clean"]
    assert any("encrypted" in what for what in document["not_opened"])
