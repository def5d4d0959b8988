"""Clean images stay without findings: the base tree of every task that the sample project gives."""

from __future__ import annotations

import base64
import compileall
import gzip
import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from race.cli import run
from race.core.leaks.fragments import wanted_from
from race.core.leaks.patchtext import read_patch
from race.core.records import Mined
from race.ports import Engine
from race.store import Store
from race.work.leak_scan import AuditRequest, audit_image
from race.workbench import Workbench

SITE = "usr/lib/python3/dist-packages"
TOML = '[release]\nname = "clean"\nsample = true\ncanary = "5d0c8f0e-3a52-4b9e-9b43-6a1f2c7d8e90"\n'


@pytest.fixture(scope="module")
def mined(sample_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The sample project's history, mined."""
    folder = tmp_path_factory.mktemp("mined")
    (folder / "release.toml").write_text(TOML)
    command = ["mine", str(folder), "--clone", str(sample_project), "--repo", "sample/brook"]
    assert run(command) == 0
    return Store(folder)


@pytest.mark.engine
def test_base_trees_of_the_sample_are_clean_for_every_other_task_too(
    mined: Store, bench: Workbench, engine: Engine, sample_project: Path, tmp_path: Path,
    tar_of: Callable[[Path, Path], Path], in_one_commit: Callable[[Path], None],
) -> None:  # fmt: skip
    """At least twelve clean images: no finding, with the base tree given and without it."""
    history = bench.clone(sample_project, "sample/brook")
    tasks = [(i, m) for i in mined.ids() if (m := mined.task(i).read(Mined)) and not m.members]
    assert len(tasks) >= 12
    for instance_id, record in tasks:
        assert record.fix_patch
        assert record.test_patch
        root, task = tmp_path / instance_id, mined.task(instance_id)
        archive = history.archive(record.base_commit)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
            tree.extractall(root / "repo", filter="data")
            base = [tree.extractfile(m).read() for m in tree if m.isreg()]  # type: ignore[union-attr]
        in_one_commit(root / "repo")
        tag = f"race-tests-seal:{instance_id}"
        engine.import_image(tar_of(root, tmp_path / "root.tar"), tag)
        try:
            patches = (
                read_patch(task.read_file(record.fix_patch)),
                read_patch(task.read_file(record.test_patch)),
            )
            for known in (base, None):
                wanted = wanted_from(*patches, known)
                audit = audit_image(engine, AuditRequest(image=tag, wanted=wanted, live=False))
                assert audit.clean, [
                    (instance_id, p.name, p.findings) for p in audit.probes if p.findings
                ]
                assert audit.fragments.fix > 0
        finally:
            engine.remove_image(tag)


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def _idioms(root: Path) -> None:
    """Another project that counts under a lock, and words of the fix in prose."""
    write(root, {
        f"{SITE}/meter/meter.py": (
            "import asyncio\n\n\nclass Meter:\n    def __init__(self):\n        self.count = 0\n"
            "        self._lock = asyncio.Lock()\n\n    async def add(self, amount):\n"
            "        async with self._lock:\n            before = self.count\n"
            "            await asyncio.sleep(0)\n            self.count = before + amount\n"
        ),
        "usr/share/doc/turnstile/README": "A turnstile is locked until an amount is paid.\n",
        "usr/share/doc/turnstile/journal.txt": "Journal entry: big step, the amount was extended.\n",
    })  # fmt: skip


def _encodings(root: Path) -> None:
    """Certificates, digests, mangled names and other text that looks encoded."""
    blob = base64.encodebytes(hashlib.sha512(b"certificate").digest() * 20).decode()
    write(root, {
        "etc/ssl/certs/some.pem": f"-----BEGIN CERTIFICATE-----\n{blob}-----END CERTIFICATE-----\n",
        f"{SITE}/a-1.dist-info/RECORD": "a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n",
        "opt/names.txt": "_ZN5boost10filesystem6detail14create_directoryERKNS0_4pathE\n" * 9,
        "opt/hex.txt": hashlib.sha512(b"x").hexdigest() * 3 + "\n",
    })  # fmt: skip


def _caches(root: Path) -> None:
    """Caches and byte-code of the base tree itself: its own tests, its own names."""
    write(root / "repo", {
        ".pytest_cache/v/cache/nodeids": '["tests/test_counter.py::test_total"]',
        ".mypy_cache/3.11/tallybook/counter.data.json": '{"names": {"_journal": {}, "total": {}}}',
    })  # fmt: skip
    assert compileall.compile_dir(root / "repo" / "src", quiet=1, force=True)


def _installed(root: Path) -> None:
    """The project itself, installed at the base version, with its package data."""
    write(root, {
        f"{SITE}/tallybook/report.py": "def render(tally):\n    return f'{tally.count} things'\n",
        f"{SITE}/tallybook-1.2.dist-info/METADATA": "Name: tallybook\nVersion: 1.2\n",
        f"{SITE}/tallybook-1.2.dist-info/direct_url.json": '{"url": "file:///repo", "dir_info": {}}',
        f"{SITE}/tallybook-1.2.dist-info/RECORD": "tallybook/report.py,,\n",
        f"{SITE}/__editable__.tallybook-1.2.pth": "/repo/src\n",
    })  # fmt: skip


def _archives(root: Path) -> None:
    """Compressed documentation, a database, a script with a payload, odd times: nothing of the fix."""
    database = root / "var/lib/app/app.db"
    database.parent.mkdir(parents=True)
    connection = sqlite3.connect(database)
    connection.execute("create table locks (name text, locked integer)")
    connection.execute("insert into locks values ('turnstile', 1)")
    connection.commit()
    connection.close()
    write(root, {"usr/share/doc/a/NEWS": "the counter waits for its turn\n"})
    for path, data in (
        ("usr/share/doc/a/changelog.gz", gzip.compress(b"test_total passes; amount before locked\n")),
        ("usr/share/doc/a/extra.zst", zstandard.ZstdCompressor().compress(b"before amount")),
        ("usr/local/bin/run", b"#!/bin/sh\nexit\n" + gzip.compress(b"import asyncio\n")),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    for number, path in enumerate(sorted((root / "repo").rglob("*.py"))):
        moment = 1767225600 + 40 * (number * 2 % 5)
        os.utime(path, (moment, moment))


def _packages(root: Path) -> None:
    """Libraries of the system's packages that hold a line by chance, in /usr and through /lib."""
    line = b"self._journal.extend(['big step', amount - before])"
    said = b"\x7fELF" + b"\0" * 9 + line + b"\0"
    listed = {"libtally1:amd64": "usr/lib/x86/libtally.so.1", "libcrowd2:amd64": "lib/x86/libcrowd.so.2"}
    for package, path in listed.items():
        library = root / ("" if path.startswith("usr/") else "usr") / path
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_bytes(said)
        digest = hashlib.md5(said).hexdigest()
        write(root, {f"var/lib/dpkg/info/{package}.md5sums": f"{digest}  {path}\n"})


@pytest.mark.engine
@pytest.mark.parametrize("tempt", [_idioms, _encodings, _caches, _installed, _archives, _packages])
def test_what_only_looks_like_a_leak_is_no_finding(
    tempt: Callable[[Path], None], workshop: Any, engine: Engine,
    tar_of: Callable[[Path, Path], Path], names: str, tmp_path: Path,
) -> None:  # fmt: skip
    """Idioms, encoded data, the base tree's own caches, the installed base, system packages: clean."""
    root = workshop.copy(tmp_path / "root")
    tempt(root)
    tag = f"{names}:look-alike"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), tag)
    try:
        for wanted in (workshop.strict, workshop.wanted):
            audit = audit_image(engine, AuditRequest(image=tag, wanted=wanted, live=False))
            assert audit.clean, [(p.name, p.findings) for p in audit.probes if p.findings]
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
def test_a_test_with_escapes_may_hold_what_it_holds_without_them(
    workshop: Any, engine: Engine, tar_of: Callable[[Path, Path], Path], names: str, tmp_path: Path,
    in_one_commit: Callable[[Path], None],
) -> None:  # fmt: skip
    """A line that is a project's idiom as the file lies is none the less one when the file is read again
    with its escapes undone, also in a file that the hidden tests touch."""
    root = workshop.copy(tmp_path / "root")
    shutil.rmtree(root / "repo/.git")
    file = root / "repo/tests/test_counter.py"
    escapes = "".join(f"\\x{n:02x}" for n in range(65, 91))
    line = "if amount > before and self._turnstile.locked():"
    file.write_text(f'{file.read_text()}\n\n# {line}\nTEXT = "{escapes}"\n')
    in_one_commit(root / "repo")
    tag = f"{names}:escapes"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), tag)
    try:
        audit = audit_image(engine, AuditRequest(image=tag, wanted=workshop.wanted, live=False))
        assert audit.clean, [(p.name, p.findings) for p in audit.probes if p.findings]
    finally:
        engine.remove_image(tag)
