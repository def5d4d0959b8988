"""One sabotaged image per kind of leak, each found by the right probe at the right place."""

from __future__ import annotations

import base64
import binascii
import bz2
import compileall
import gzip
import html
import io
import json
import lzma
import os
import quopri
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import textwrap
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from race.ports import Engine
from race.work.base_images import ensure_base
from race.work.leak_scan import Audit, AuditRequest, audit_image
from race.work.sealing import contract

Sabotage = Callable[[Path, "Kit"], None]
SABOTAGES: dict[str, tuple[str, str, Sabotage]] = {}
FIX_LINE = "if amount > before and self._turnstile.locked():"
NAME = "test_concurrent_additions_are_kept"
SITE = "usr/lib/python3/dist-packages"


class Kit:
    """What a sabotage needs: the fixed tree's files, git, and how to write."""

    def __init__(self, base: dict[str, str], fixed: dict[str, str], hidden: dict[str, str], git, write):
        self.base, self.fixed, self.hidden = base, fixed, hidden
        self.git: Callable[..., str] = git
        self.write: Callable[[Path, dict[str, str]], None] = write

    @property
    def counter(self) -> str:
        return self.fixed["src/tallybook/counter.py"]

    def commit_fix(self, repo: Path, *, back: bool = True) -> str:
        """Commit the fix on the branch; the id. `back` resets the branch to the base."""
        base = self.git(repo, "rev-parse", "HEAD").strip()
        self.write(repo, self.fixed)
        self.git(repo, "commit", "-qam", "Keep additions of several tasks")
        fixed = self.git(repo, "rev-parse", "HEAD").strip()
        if back:
            self.git(repo, "reset", "-q", "--hard", base)
        return fixed


def sabotage(name: str, probe: str, place: str) -> Callable[[Sabotage], Sabotage]:
    """Register a way to spoil an image, the probe that must see it, and where."""

    def register(function: Sabotage) -> Sabotage:
        SABOTAGES[name] = (probe, place, function)
        return function

    return register


def drop(path: str, text: str | bytes) -> Sabotage:
    """A sabotage that only adds a file."""

    def spoil(root: Path, kit: Kit) -> None:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())

    return spoil


# --- git ---------------------------------------------------------------------------------------


@sabotage("future commit on another branch", "git-refs", "/repo/.git/refs/heads")
def _(root: Path, kit: Kit) -> None:
    fixed = kit.commit_fix(root / "repo")
    kit.git(root / "repo", "branch", "upstream-main", fixed)


@sabotage("tag on the fixing commit", "git-refs", "/repo/.git/refs/tags/v1.3")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "tag", "v1.3", kit.commit_fix(root / "repo"))


@sabotage("remote-tracking ref", "git-refs", "/repo/.git/refs/remotes/origin/main")
def _(root: Path, kit: Kit) -> None:
    fixed = kit.commit_fix(root / "repo")
    kit.git(root / "repo", "update-ref", "refs/remotes/origin/main", fixed)


@sabotage("packed ref of a pull request", "git-refs", "/repo/.git/refs/pull/7/head")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "update-ref", "refs/pull/7/head", kit.commit_fix(root / "repo"))
    kit.git(root / "repo", "pack-refs", "--all")


@sabotage("remote in the configuration", "git-remotes", "/repo/.git/config")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "remote", "add", "origin", "https://example.invalid/tallybook.git")


@sabotage("reflog", "git-reflog", "/repo/.git/logs/HEAD")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "config", "core.logAllRefUpdates", "true")
    kit.commit_fix(root / "repo")


@sabotage("unreachable loose objects after reset --hard", "git-unreachable", "/repo/.git/objects")
def _(root: Path, kit: Kit) -> None:
    kit.commit_fix(root / "repo")


@sabotage("the same, as content", "git-objects", "/repo/.git/objects/")
def _(root: Path, kit: Kit) -> None:
    kit.commit_fix(root / "repo")


@sabotage("unreachable packed objects", "git-objects", "/repo/.git/objects/pack/")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "branch", "passing", kit.commit_fix(root / "repo"))
    kit.git(root / "repo", "repack", "-qad")
    kit.git(root / "repo", "branch", "-qD", "passing")


@sabotage("blob of the fixed file alone", "git-fixed-blobs", "/repo/.git/objects/")
def _(root: Path, kit: Kit) -> None:
    (root / "repo/x").write_text(kit.counter)
    kit.git(root / "repo", "hash-object", "-w", "x")
    (root / "repo/x").unlink()


@sabotage("two commits on one branch", "git-commits", "/repo/.git/objects")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", {"README.md": "# tallybook\n"})
    kit.git(root / "repo", "commit", "-qam", "Shorten the readme")


@sabotage("ORIG_HEAD", "git-heads", "/repo/.git/ORIG_HEAD")
def _(root: Path, kit: Kit) -> None:
    kit.commit_fix(root / "repo")


SABOTAGES["FETCH_HEAD"] = (
    "git-heads", "/repo/.git/FETCH_HEAD", drop("repo/.git/FETCH_HEAD", "0" * 39 + "7\t\tbranch 'fix'\n"),
)  # fmt: skip


@sabotage("stash", "git-refs", "/repo/.git/refs/stash")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", kit.fixed)
    kit.git(root / "repo", "stash", "-q")


@sabotage("notes", "git-refs", "/repo/.git/refs/notes/commits")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "notes", "add", "-m", f"see {FIX_LINE}")


@sabotage("replaced object", "git-refs", "/repo/.git/refs/replace/")
def _(root: Path, kit: Kit) -> None:
    fixed = kit.commit_fix(root / "repo")
    kit.git(root / "repo", "replace", "HEAD", fixed)


SABOTAGES["alternates"] = (
    "git-alternates", "/repo/.git/objects/info/alternates",
    drop("repo/.git/objects/info/alternates", "/srv/mirror/objects\n"),
)  # fmt: skip


@sabotage("another work tree", "git-alternates", "/repo/.git/worktrees/")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "worktree", "add", "-q", "--detach", str(root / "srv"), "HEAD")


SABOTAGES["submodule store"] = (
    "git-alternates", "/repo/.git/modules/vendored/HEAD",
    drop("repo/.git/modules/vendored/HEAD", "ref: refs/heads/main\n"),
)  # fmt: skip
SABOTAGES["shallow file"] = (
    "git-shallow", "/repo/.git/shallow", drop("repo/.git/shallow", "0" * 39 + "7\n"),
)  # fmt: skip
SABOTAGES["graft"] = (
    "git-shallow", "/repo/.git/info/grafts", drop("repo/.git/info/grafts", "0" * 39 + "7\n"),
)  # fmt: skip


@sabotage("index entry outside HEAD", "git-index", "/repo/.git/index")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", kit.fixed)
    kit.git(root / "repo", "add", "-A")
    kit.write(root / "repo", kit.base)


@sabotage("second clone elsewhere", "git-second-repository", "/opt/upstream")
def _(root: Path, kit: Kit) -> None:
    kit.commit_fix(root / "repo", back=False)
    (root / "opt").mkdir()
    kit.git(root, "clone", "-q", "--bare", str(root / "repo"), str(root / "opt/upstream.git"))
    shutil.rmtree(root / "repo")
    kit.write(root / "repo", kit.base)


@sabotage("bundle of the upstream repository", "git-objects", "/srv/upstream.bundle")
def _(root: Path, kit: Kit) -> None:
    fixed = kit.commit_fix(root / "repo")
    kit.git(root / "repo", "branch", "passing", fixed)
    (root / "srv").mkdir()
    kit.git(root / "repo", "bundle", "create", str(root / "srv/upstream.bundle"), "passing")
    shutil.rmtree(root / "repo/.git")
    _fresh(root / "repo", kit)


@sabotage("fix told in the commit message", "git-objects", "/repo/.git/objects/")
def _(root: Path, kit: Kit) -> None:
    kit.git(root / "repo", "commit", "-q", "--amend", "-m", f"base\n\nnext: {FIX_LINE}")


@sabotage("work tree has the fix", "git-work-tree", "/repo/src/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", kit.fixed)


@sabotage("the one commit has the fix", "work-tree", "/repo/src/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    shutil.rmtree(root / "repo/.git")
    kit.write(root / "repo", kit.fixed)
    _fresh(root / "repo", kit)


def _fresh(repo: Path, kit: Kit) -> None:
    kit.git(repo, "init", "-q", "-b", "main")
    kit.git(repo, "config", "core.logAllRefUpdates", "false")
    kit.git(repo, "add", "-A")
    kit.git(repo, "commit", "-qm", "base")


# --- Python and build residue ------------------------------------------------------------------


@sabotage("fixed copy in site-packages", "installed-copies", f"/{SITE}/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {f"{SITE}/tallybook/counter.py": kit.counter})


@sabotage("fixed copy, vouched for by its RECORD", "installed-copies", f"/{SITE}/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {f"{SITE}/tallybook/counter.py": kit.counter})
    _record(root, "tallybook-1.3", {"tallybook/counter.py": kit.counter})


@sabotage("copy in another distribution", "installed-copies", f"/{SITE}/other/_vendored.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {f"{SITE}/other/_vendored.py": kit.counter})
    _record(root, "other-2.0", {"other/_vendored.py": kit.counter})


def _record(root: Path, name: str, files: dict[str, str]) -> None:
    import hashlib

    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}")
    folder = root / SITE / f"{name}.dist-info"
    folder.mkdir(parents=True)
    (folder / "RECORD").write_text("\n".join(lines) + "\n")


def _zip(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def _tar(files: dict[str, str], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


@sabotage("wheel in a cache", "archives", "/root/.cache/pip/wheels/tallybook-1.3-py3-none-any.whl")
def _(root: Path, kit: Kit) -> None:
    wheel = _zip({"tallybook/counter.py": kit.counter})
    drop("root/.cache/pip/wheels/tallybook-1.3-py3-none-any.whl", wheel)(root, kit)


@sabotage("source archive in dist", "archives", "/repo/dist/tallybook-1.3.tar.gz")
def _(root: Path, kit: Kit) -> None:
    data = _tar({"tallybook-1.3/src/tallybook/counter.py": kit.counter})
    drop("repo/dist/tallybook-1.3.tar.gz", data)(root, kit)


@sabotage("any wheel left behind", "wheels-and-caches", "/srv/wheels/other-1.0-py3-none-any.whl")
def _(root: Path, kit: Kit) -> None:
    drop("srv/wheels/other-1.0-py3-none-any.whl", _zip({"other.py": "x = 1\n"}))(root, kit)


@sabotage("fixed copy under build/lib", "build-residue", "/repo/build/lib/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", {"build/lib/tallybook/counter.py": kit.counter})


def _compile(folder: Path) -> None:
    assert compileall.compile_dir(folder, quiet=1, force=True)


@sabotage("byte-code of fixed code", "byte-code", "/repo/src/tallybook/__pycache__/counter.")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", kit.fixed)
    _compile(root / "repo/src/tallybook")
    kit.write(root / "repo", kit.base)


@sabotage("byte-code of hidden tests", "byte-code", "/repo/tests/__pycache__/test_counter.")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", kit.hidden)
    _compile(root / "repo/tests")
    kit.write(root / "repo", kit.base)
    (root / "repo/tests/test_turnstile_order.py").unlink()


@sabotage("test ids in pytest's cache", "tool-caches", "/repo/.pytest_cache/v/cache/nodeids")
def _(root: Path, kit: Kit) -> None:
    nodeids = json.dumps([f"tests/test_counter.py::{NAME}"])
    kit.write(root / "repo", {".pytest_cache/v/cache/nodeids": nodeids})


@sabotage("test contexts in coverage's database", "tool-caches", "/repo/.coverage")
def _(root: Path, kit: Kit) -> None:
    base = sqlite3.connect(root / "repo/.coverage")
    base.execute("create table context (id integer, context text)")
    base.execute("insert into context values (1, ?)", (f"tests.test_counter.{NAME}|run",))
    base.commit()
    base.close()


@sabotage("names in a type checker's cache", "tool-caches", "/repo/.mypy_cache/")
def _(root: Path, kit: Kit) -> None:
    data = json.dumps({"names": {"_turnstile": {"kind": "Mdef"}, "_journal_entry": {"kind": "Mdef"}}})
    kit.write(root / "repo", {".mypy_cache/3.11/tallybook/counter.data.json": data})


@sabotage("property tester's database", "tool-caches", "/repo/.hypothesis/")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", {".hypothesis/examples/names": f"tests/test_counter.py {NAME}\n"})


@sabotage("file list with a new test", "listings", "/repo/src/tallybook.egg-info/SOURCES.txt")
def _(root: Path, kit: Kit) -> None:
    listing = "README.md\nsrc/tallybook/counter.py\ntests/test_turnstile_order.py\n"
    kit.write(root / "repo", {"src/tallybook.egg-info/SOURCES.txt": listing})


@sabotage("version with a commit id", "version-strings", f"/{SITE}/tallybook-1.3.dist-info/METADATA")
def _(root: Path, kit: Kit) -> None:
    text = "Metadata-Version: 2.1\nName: tallybook\nVersion: 1.3.dev4+gf8b9f01\n"
    kit.write(root, {f"{SITE}/tallybook-1.3.dist-info/METADATA": text})


SABOTAGES["lock file that the base lacks"] = (
    "newer-lock-files", "/repo/uv.lock", drop("repo/uv.lock", "version = 1\n"),
)  # fmt: skip
SABOTAGES["reject file"] = (
    "reject-files", "/repo/src/tallybook/counter.py.rej",
    drop("repo/src/tallybook/counter.py.rej", f"@@ -1 +1 @@\n+        {FIX_LINE}\n"),
)  # fmt: skip


# --- image and file system ---------------------------------------------------------------------

SABOTAGES["hidden test file itself"] = (
    "new-files", "/repo/tests/test_turnstile_order.py",
    drop("repo/tests/test_turnstile_order.py", "import tallybook\n"),
)  # fmt: skip
SABOTAGES["script that solves"] = (
    "attempt-leftovers", "/solution/solve.sh", drop("solution/solve.sh", "git apply /fix\n"),
)  # fmt: skip
SABOTAGES["shell history"] = (
    "shell-history", "/root/.bash_history", drop("root/.bash_history", "git fetch origin\n"),
)  # fmt: skip
SABOTAGES["test log in a temporary folder"] = (
    "temporary-files", "/tmp/run.log", drop("tmp/run.log", f"PASSED tests/test_counter.py::{NAME}\n"),
)  # fmt: skip
SABOTAGES["name of a hidden test in a log"] = (
    "hidden-test-names", "/var/log/ci.txt", drop("var/log/ci.txt", f"1 failed: {NAME} (0.2 s)\n"),
)  # fmt: skip
SABOTAGES["name of a hidden test in a file's name"] = (
    "hidden-test-names", f"/srv/results/{NAME}.xml", drop(f"srv/results/{NAME}.xml", ""),
)  # fmt: skip
SABOTAGES["generated version with a commit id"] = (
    "version-strings", "/repo/src/tallybook/_version.py",
    drop("repo/src/tallybook/_version.py", "__version__ = '1.3'\ncommit_id = 'gf8b9f011e'\n"),
)  # fmt: skip
SABOTAGES["note in a home folder"] = (
    "left-over-files", "/home/agent/plan.md", drop("home/agent/plan.md", "use a lock\n"),
)  # fmt: skip
SABOTAGES["trajectory of an attempt"] = (
    "attempt-leftovers", "/data/1.traj.json", drop("data/1.traj.json", "{}"),
)  # fmt: skip
SABOTAGES["one exact line in an untracked note"] = (
    "work-tree", "/repo/NOTES", drop("repo/NOTES", f"try this: {FIX_LINE}\n"),
)  # fmt: skip
SABOTAGES["one line, other case and spacing"] = (
    "elsewhere", "/opt/hint", drop("opt/hint", "IF amount>before  AND\n self._TURNSTILE.locked( ) :\n"),
)  # fmt: skip
SABOTAGES["one line, other punctuation"] = (
    "elsewhere", "/opt/hint",
    drop("opt/hint", '["if", "amount", ">", "before", "and", "self->_turnstile", "locked"]'),
)  # fmt: skip
SABOTAGES["UTF-16"] = (
    "elsewhere", "/opt/hint", drop("opt/hint", FIX_LINE.encode("utf-16")),
)  # fmt: skip


def _packed(name: str, place: str, path: str, pack: Callable[[str], bytes]) -> None:
    def spoil(root: Path, kit: Kit) -> None:
        drop(path.lstrip("/"), pack(kit.counter))(root, kit)

    SABOTAGES[name] = (place, path, spoil)


_packed("gzip", "archives", "/opt/a.gz", lambda text: gzip.compress(text.encode()))
_packed("bzip2", "archives", "/opt/a.bz2", lambda text: bz2.compress(text.encode()))
_packed("xz", "archives", "/opt/a.xz", lambda text: lzma.compress(text.encode()))
_packed("zip", "archives", "/opt/a.bin", lambda text: _zip({"x": text}))
_packed("tar", "archives", "/opt/a.tar", lambda text: _tar({"x": text}, "w"))
_packed(
    "wheel in a tar in gzip", "archives", "/opt/a.tgz",
    lambda text: gzip.compress(_nested(_zip({"x": text}))),
)  # fmt: skip
_packed("base64", "encoded", "/opt/a.txt", lambda text: base64.encodebytes(text.encode()))
_packed(
    "gzip in base64 in JSON", "encoded", "/opt/a.json",
    lambda text: json.dumps({"k": base64.b64encode(gzip.compress(text.encode())).decode()}).encode(),
)  # fmt: skip
_packed(
    "zstandard",
    "archives",
    "/opt/a.zst",
    lambda text: zstandard.ZstdCompressor().compress(text.encode()),
)
_packed(
    "base64 in short indented lines", "encoded", "/opt/a.yaml",
    lambda text: textwrap.indent(
        textwrap.fill(base64.b64encode(text.encode()).decode(), 40), "  "
    ).encode(),
)  # fmt: skip
_packed(
    "zip behind a script", "archives", "/usr/local/bin/tool",
    lambda text: b"#!/usr/bin/env python3\n" + _zip({"__main__.py": text}),
)  # fmt: skip
_packed("base85", "encoded", "/opt/a.b85", lambda text: base64.b85encode(text.encode()))
_packed("ascii85", "encoded", "/opt/a.a85", lambda text: base64.a85encode(text.encode(), adobe=True))
_packed(
    "uuencode", "encoded", "/opt/a.uu",
    lambda text: b"begin 644 counter.py\n" + b"".join(
        binascii.b2a_uu(text.encode()[at : at + 45]) for at in range(0, len(text), 45)
    ) + b"`\nend\n",
)  # fmt: skip
_packed(
    "quoted-printable", "encoded", "/opt/a.eml",
    lambda text: quopri.encodestring(text.encode(), quotetabs=True),
)  # fmt: skip
_packed(
    "stream of a PDF", "archives", "/opt/a.pdf",
    lambda text: b"%PDF-1.7\n1 0 obj << >> stream\n" + zlib.compress(text.encode()) + b"\nendstream\n",
)  # fmt: skip
_packed("hexadecimal", "encoded", "/opt/a.hex", lambda text: text.encode().hex().encode())


def _nested(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("w.whl")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@sabotage("news about the change in the tree", "work-tree", "/repo/CHANGELOG.md")
def _(root: Path, kit: Kit) -> None:
    shutil.rmtree(root / "repo/.git")
    text = kit.base["CHANGELOG.md"] + f"\n## next\n\n- Now `{FIX_LINE}` guards additions.\n"
    kit.write(root / "repo", {"CHANGELOG.md": text})
    _fresh(root / "repo", kit)


SABOTAGES["news entry by number"] = (
    "news-entries", "/repo/newsfragments/7.bugfix.md",
    drop("repo/newsfragments/7.bugfix.md", "Fixed.\n"),
)  # fmt: skip


@sabotage("modification time singles the fixed file out", "file-times", "/repo/src/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    os.utime(root / "repo/src/tallybook/counter.py", (1767240000, 1767240000))


@sabotage(
    "git pack in a tar in a wheel",
    "git-objects",
    "/opt/wheels/other-1.0-py3-none-any.whl!other/data.tgz!",
)
def _(root: Path, kit: Kit) -> None:
    upstream = root / "upstream"
    kit.write(upstream, kit.fixed)
    _fresh(upstream, kit)
    kit.git(upstream, "repack", "-qad")
    pack = next((upstream / ".git/objects/pack").glob("*.pack")).read_bytes()
    shutil.rmtree(upstream)
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("other/data.tgz", gzip.compress(_nested(pack)))
    drop("opt/wheels/other-1.0-py3-none-any.whl", wheel.getvalue())(root, kit)


@sabotage("write-ahead log of a database", "elsewhere", "/var/lib/notes/n.db-wal")
def _(root: Path, kit: Kit) -> None:
    folder = root / "var/lib/notes"
    folder.mkdir(parents=True)
    base = sqlite3.connect(folder / "live.db")
    base.execute("pragma journal_mode=wal")
    base.execute("create table notes (text text)")
    base.execute("insert into notes values (?)", (kit.counter,))
    base.commit()
    shutil.copy(folder / "live.db-wal", folder / "n.db-wal")
    base.close()
    (folder / "live.db").unlink()


@sabotage(
    "byte-code of fixed code under another name", "byte-code", "/opt/tools/__pycache__/gate.cpython-"
)
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {"opt/tools/gate.py": kit.counter.replace("async def add", "async def put")})
    _compile(root / "opt/tools")
    (root / "opt/tools/gate.py").unlink()


@sabotage(
    "stale byte-code beside an innocent source", "byte-code", "/opt/tools/__pycache__/gate.cpython-"
)
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {"opt/tools/gate.py": kit.counter})
    _compile(root / "opt/tools")
    kit.write(root, {"opt/tools/gate.py": "x = 1\n"})


@sabotage(
    "hidden test among pytest's last failures", "tool-caches", "/repo/.pytest_cache/v/cache/lastfailed"
)
def _(root: Path, kit: Kit) -> None:
    failed = json.dumps({f"tests/test_counter.py::{NAME}": True})
    kit.write(root / "repo", {".pytest_cache/v/cache/lastfailed": failed})


@sabotage(
    "copy with a renamed attribute, in another distribution",
    "installed-copies",
    f"/{SITE}/other/gate.py",
)
def _(root: Path, kit: Kit) -> None:
    renamed = kit.counter.replace("_turnstile", "_gate").replace("    ", "\t")
    kit.write(root, {f"{SITE}/other/gate.py": renamed})


@sabotage("copy with every name changed", "installed-copies", f"/{SITE}/abacus/engine.py")
def _(root: Path, kit: Kit) -> None:
    names = {"_turnstile": "_gate", "_journal_entry": "_note", "_journal": "_log", "before": "prior",
             "amount": "delta", "Tally": "Abacus", "count": "beads"}  # fmt: skip
    copy = re.sub(r"\w+", lambda found: names.get(found.group(), found.group()), kit.counter)
    kit.write(root, {f"{SITE}/abacus/engine.py": copy.replace("    ", "\t")})


SABOTAGES["reflog of a branch alone"] = (
    "git-reflog", "/repo/.git/logs/refs/heads/main",
    drop("repo/.git/logs/refs/heads/main", f"{'0' * 40} {'7' * 40} A <a@b.invalid> 1 +0000\tfix\n"),
)  # fmt: skip
SABOTAGES["alternates over the network"] = (
    "git-alternates", "/repo/.git/objects/info/http-alternates",
    drop("repo/.git/objects/info/http-alternates", "https://example.invalid/o.git/objects\n"),
)  # fmt: skip


@sabotage("modification times of fix and test, both later", "file-times", "/repo/tests/test_counter.py")
def _(root: Path, kit: Kit) -> None:
    for path in ("tests/test_counter.py", "src/tallybook/counter.py"):
        os.utime(root / "repo" / path, (1767225700, 1767225700))


@sabotage("page of a coverage report", "tool-caches", "/repo/htmlcov/z_counter_py.html")
def _(root: Path, kit: Kit) -> None:
    words = [
        f"<b>{html.escape(word)}</b>" if word.strip() else word
        for word in re.split(r"(\W)", kit.counter)
    ]
    page = "<!DOCTYPE html>\n<html><body><p>" + "".join(words) + "</p></body></html>"
    kit.write(root / "repo", {"htmlcov/z_counter_py.html": page})


@sabotage("name of a hidden test as the target of a link", "hidden-test-names", "/srv/last")
def _(root: Path, kit: Kit) -> None:
    (root / "srv").mkdir()
    (root / "srv/last").symlink_to(f"/nowhere/{NAME}.xml")


SABOTAGES["hidden tests in UTF-16"] = (
    "hidden-tests-anywhere", "/opt/u",
    lambda root, kit: drop("opt/u", kit.hidden["tests/test_counter.py"].encode("utf-16"))(root, kit),
)  # fmt: skip
SABOTAGES["package index in settings"] = (
    "proxy-settings", "/etc/pip.conf", drop("etc/pip.conf", "[global]\nindex-url = http://10.0.0.9/s\n"),
)  # fmt: skip


def _audit(engine: Engine, root: Path, workshop, tar_of, tmp_path: Path, name: str, **more) -> Audit:
    tag = f"{name}:{abs(hash(str(tmp_path))) % 10**9}"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), tag, changes=more.pop("changes", ()))
    try:
        return audit_image(
            engine, AuditRequest(image=tag, wanted=workshop.strict, live=False, numbers=("7",), **more)
        )
    finally:
        engine.remove_image(tag)


@pytest.fixture(scope="session")
def kit() -> Kit:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("seal_project", Path(__file__).with_name("conftest.py"))
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules["seal_project"] = module
    spec.loader.exec_module(module)
    return Kit(module.BASE, module.FIXED, module.HIDDEN, module.git, module.write)


@pytest.mark.engine
@pytest.mark.parametrize("name", SABOTAGES)
def test_each_kind_of_leak_is_found_by_its_probe(
    name: str, kit: Kit, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """A sabotaged image fails the probe named for its kind, with the place of the leak."""
    probe, place, spoil = SABOTAGES[name]
    root = workshop.copy(tmp_path / "root")
    spoil(root, kit)
    audit = _audit(engine, root, workshop, tar_of, tmp_path, names)
    assert not audit.clean
    result = next(p for p in audit.probes if p.name == probe)
    assert any(f.path.startswith(place) for f in result.findings), [
        (p.name, f.path, f.what) for p in audit.probes for f in p.findings
    ]


CONFIGURED = {
    "label with a revision": (
        "image-metadata",
        'LABEL org.opencontainers.image.revision="f8b9f011e548c2c1"',
    ),
    "link in the environment": ("image-metadata", "ENV SEE=https://example.invalid/o/r/pull/7"),
    "fix line in a label": ("image-metadata", f'LABEL note="{FIX_LINE}"'),
    "fix in a label, encoded": (
        "image-metadata",
        f"LABEL note={base64.b64encode(f'# see here: {FIX_LINE}'.encode()).decode()}",
    ),
    "fix line in the command": ("image-metadata", f'CMD ["sh", "-c", "{FIX_LINE}"]'),
    "fix line in the environment": ("image-metadata", f'ENV HINT="{FIX_LINE}"'),
    "proxy in the environment": ("proxy-settings", "ENV HTTPS_PROXY=http://user:pw@10.0.0.9:3128"),
    "volume": ("volumes-and-ports", "VOLUME /data"),
}


@pytest.mark.engine
@pytest.mark.parametrize("name", CONFIGURED)
def test_the_configuration_of_an_image_is_probed(
    name: str, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """Labels, environment and volumes that tell something are findings; no password is shown."""
    probe, change = CONFIGURED[name]
    audit = _audit(engine, workshop.clean, workshop, tar_of, tmp_path, names, changes=(change,))
    result = next(p for p in audit.probes if p.name == probe)
    assert result.findings
    assert all("pw@" not in finding.excerpt for finding in result.findings)


@pytest.mark.engine
def test_an_extended_attribute_is_found(workshop, engine: Engine, names: str, tmp_path: Path) -> None:
    """What a file's header carries beside its content ships too, and is searched."""
    tag = f"{names}:attribute"
    with tarfile.open(tmp_path / "root.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(workshop.clean.rglob("*")):
            info = archive.gettarinfo(path, str(path.relative_to(workshop.clean)))
            if info.name == "etc/os-release":
                info.pax_headers = {"SCHILY.xattr.user.note": FIX_LINE}
            with path.open("rb") if path.is_file() else io.BytesIO() as stream:
                archive.addfile(info, stream if info.isreg() else None)
    engine.import_image(tmp_path / "root.tar", tag)
    try:
        audit = audit_image(engine, AuditRequest(image=tag, wanted=workshop.strict, live=False))
        found = next(p for p in audit.probes if p.name == "elsewhere").findings
        assert [f.path for f in found] == ["/etc/os-release!attributes"]
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
def test_a_build_argument_is_found(workshop, engine: Engine, tar_of, names: str, tmp_path: Path) -> None:
    """The history of an image keeps the arguments of its build."""
    base, top = f"{names}:argument-base", f"{names}:argument"
    engine.import_image(tar_of(workshop.clean, tmp_path / "root.tar"), base)
    dockerfile = f'FROM {base}\nARG HINT="{FIX_LINE}"\nLABEL built=yes\n'
    engine.build({"Dockerfile": dockerfile.encode()}, tag=top)
    try:
        audit = audit_image(engine, AuditRequest(image=top, wanted=workshop.strict, live=False))
        found = next(p for p in audit.probes if p.name == "image-metadata").findings
        assert [f.path.split("[")[0] for f in found] == ["history"]
    finally:
        engine.remove_image(top)
        engine.remove_image(base)


@pytest.mark.engine
def test_a_file_deleted_in_a_later_layer_is_found(
    workshop, kit: Kit, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """What a later layer deletes or overwrites is still shipped, and is found with its layer."""
    root = workshop.copy(tmp_path / "root")
    drop("repo/answer.py", kit.counter)(root, kit)
    drop("opt/notes", FIX_LINE)(root, kit)
    base, top = f"{names}:lower", f"{names}:upper"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), base)
    dockerfile = f"FROM {base}\nCOPY notes /opt/notes\n"
    engine.build({"Dockerfile": dockerfile.encode(), "notes": b"nothing\n"}, tag=top)
    try:
        request = AuditRequest(image=top, wanted=workshop.strict, live=False)
        audit = audit_image(engine, request)
        deleted = next(p for p in audit.probes if p.name == "deleted-files")
        assert [(f.path, f.layer) for f in deleted.findings] == [("/opt/notes", 0)]
        tree = next(p for p in audit.probes if p.name == "work-tree")
        assert [(f.path, f.layer) for f in tree.findings] == [("/repo/answer.py", 0)]
    finally:
        engine.remove_image(top)
        engine.remove_image(base)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("held", "recorded", "failing"),
    [
        ("nothing\n", True, set()),
        ("nothing\n", False, {"wheels-and-caches"}),
        (FIX_LINE, True, {"fix-and-tests"}),
    ],
)
def test_an_archive_that_a_distribution_ships_is_searched_but_no_finding(
    held: str, recorded: bool, failing: set[str],
    workshop, kit: Kit, engine: Engine, tar_of, names: str, tmp_path: Path,
) -> None:  # fmt: skip
    """A recorded data archive is no finding; one that nobody records, or that holds the fix, is."""
    root = workshop.copy(tmp_path / "root")
    site = root / "opt/venv/lib/python3.11/site-packages"
    egg = site / "tools/tests/data/thing-1.0-py3.7.egg"
    egg.parent.mkdir(parents=True)
    with zipfile.ZipFile(egg, "w") as archive:
        archive.writestr("thing/data.txt", held)
    line = f"tools/tests/data/{egg.name},sha256=abc,{egg.stat().st_size}\n" if recorded else ""
    kit.write(site, {"tools-1.dist-info/RECORD": line + "tools-1.dist-info/RECORD,,\n"})
    audit = _audit(engine, root, workshop, tar_of, tmp_path, names)
    found = {p.name for p in audit.probes if p.findings}
    if failing == {"fix-and-tests"}:
        assert any(egg.name in f.path for p in audit.probes for f in p.findings)
        assert "wheels-and-caches" not in found
    else:
        assert found == failing


@pytest.mark.engine
@pytest.mark.parametrize("strict", [True, False])
def test_the_clean_image_has_no_finding(
    strict: bool, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """Nothing is found in the unspoiled image, with the base tree given or not."""
    tag = f"{names}:clean-{strict}"
    engine.import_image(tar_of(workshop.clean, tmp_path / "root.tar"), tag)
    wanted = workshop.strict if strict else workshop.wanted
    try:
        audit = audit_image(engine, AuditRequest(image=tag, wanted=wanted))
        assert audit.clean, [(p.name, p.findings) for p in audit.probes if p.findings]
        assert audit.fragments.shortest_leak_lines == 1
        live = [p for p in audit.probes if p.name.startswith("live-")]
        assert all(not p.checked and "no shell" in p.why for p in live)
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
def test_live_probes_run_in_a_container_like_an_agent_s(
    workshop, bench, engine: Engine, names: str, tmp_path: Path
) -> None:
    """On an image with Python every live probe runs: no way out, one commit; a proxy is seen."""
    base = ensure_base(bench, "3.11").runtime
    tag = f"{names}:live"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(workshop.clean / "repo", "repo")
    for extra, expected in (("", set()), ("ENV HTTPS_PROXY=http://10.0.0.9:3128\n", {"live-proxy"})):
        dockerfile = f"FROM {base}\nADD repo.tar /\n{extra}WORKDIR /repo\n"
        context = {"Dockerfile": dockerfile.encode(), "repo.tar": buffer.getvalue()}
        image = engine.build(context, tag=tag)
        try:
            audit = audit_image(engine, AuditRequest(image=tag, wanted=workshop.strict))
            live = [p for p in audit.probes if p.name.startswith("live-")]
            assert len(live) == 11
            assert all(p.checked for p in live), [(p.name, p.why) for p in live if not p.checked]
            assert {p.name for p in live if p.findings} == expected
            assert contract(engine, image) == []
        finally:
            engine.remove_image(tag)


@pytest.mark.engine
def test_an_image_without_programs_is_a_finding(
    workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """An image that no shell starts from breaks the contract in one line, and is no accident."""
    tag = f"{names}:bare"
    image = engine.import_image(tar_of(workshop.clean, tmp_path / "root.tar"), tag)
    try:
        assert [finding.rule for finding in contract(engine, image)] == ["image-lacks-program"]
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
@pytest.mark.parametrize("program", ["git", "patch", "python3"])
def test_an_image_that_lacks_one_program_is_told_which(
    program: str, bench, engine: Engine, names: str
) -> None:
    """Without git, patch or Python an agent's image breaks the contract: one line that names it."""
    base, tag = ensure_base(bench, "3.11").runtime, f"{names}:no-{program}"
    steps = (
        f"FROM {base}\nRUN mkdir /repo && cd /repo && git init -q . && git -c user.name=a "
        f"-c user.email=a@b commit -q --allow-empty -m base && rm -f /usr/bin/{program} /bin/{program}\n"
    )
    image = engine.build({"Dockerfile": steps.encode()}, tag=tag)
    try:
        first, *others = contract(engine, image)
        assert (first.rule, first.message) == ("image-lacks-program", f"the image has no {program}")
        assert [other.rule for other in others] == (["image-lacks-head"] if program == "git" else [])
    finally:
        engine.remove_image(tag)


def test_the_battery_is_large_enough() -> None:
    """At least forty kinds are tried."""
    assert len(SABOTAGES) + len(CONFIGURED) >= 40


def test_git_is_there() -> None:
    """The battery uses the real git."""
    assert subprocess.run(["git", "--version"], capture_output=True, check=True).stdout
