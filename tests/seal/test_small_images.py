"""Kinds of leak on small images that need no engine: each found by its probe, at its place."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from race.core.leaks.fragments import wanted_from
from race.core.leaks.patchtext import applied, read_patch
from race.core.leaks.tarstream import ByteReader, members
from race.ports import Image
from race.work.leak_scan import Audit, AuditRequest, audit_image

LINE = "if amount > before and self._turnstile.locked():"
NAME = "test_concurrent_additions_are_kept"
SITE = "usr/lib/python3/dist-packages"
COMMIT = "f8b9f011e548c2c1" * 2 + "f8b9f011"
ZERO = "0" * 40
IDENTITY = [
    *("-c", "user.name=a", "-c", "user.email=a@b.invalid"),
    *("-c", "core.logAllRefUpdates=false"),
]

Files = Mapping[str, bytes]


def packed(root: Path, form: int = tarfile.GNU_FORMAT) -> bytes:
    """A folder as a layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, str(path.relative_to(root)), recursive=False)
    return buffer.getvalue()


class Saved:
    """An engine with one image, as the stream of `docker save`."""

    def __init__(self, layers: list[bytes], config: Mapping[str, Any]) -> None:
        self.ids = tuple("sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers)
        document = {"config": {}, **config, "rootfs": {"type": "layers", "diff_ids": list(self.ids)}}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, data in (
                *((f"{number}/layer.tar", layer) for number, layer in enumerate(layers)),
                ("config.json", json.dumps(document).encode()),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        self.stream = buffer.getvalue()

    def image(self, ref: str) -> Image:
        return Image("sha256:" + "0" * 64, ("x:1",), {}, self.ids, 1)

    def save(self, ref: str):
        yield self.stream


def audit(workshop, layers: list[bytes], config: Mapping[str, Any] | None = None, **more) -> Audit:
    """An audit without an engine and without the base tree, as of a stranger's image."""
    wanted = more.pop("wanted", workshop.wanted)
    request = AuditRequest(image="x", wanted=wanted, live=False, numbers=("7",), **more)
    return audit_image(Saved(layers, config or {}), request)  # type: ignore[arg-type]


def found(told: Audit, probe: str) -> list[str]:
    """Places of one probe's findings."""
    return [f.path for p in told.probes if p.name == probe for f in p.findings]


def with_files(workshop, root: Path, files: Files) -> Path:
    """The clean file system with further files."""
    workshop.copy(root)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


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


G = "repo/.git"
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


def one_commit(root: Path) -> None:
    """Make the repository one commit of what it holds now."""
    shutil.rmtree(root / G)
    said = {"user.name": "a", "user.email": "a@b.invalid", "core.logAllRefUpdates": "false"}
    settings = [word for name, value in said.items() for word in ("-c", f"{name}={value}")]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "b"]):
        subprocess.run(["git", *settings, *words], cwd=root / "repo", check=True)


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


def test_a_packed_ref_of_a_lower_layer_is_found(workshop, tmp_path: Path) -> None:
    """A later layer that packs refs anew does not hide the old ones."""
    head = (workshop.clean / G / "refs/heads/main").read_text().strip()
    lower = with_files(workshop, tmp_path / "a", {f"{G}/packed-refs": f"{head} refs/tags/v2\n".encode()})
    upper = tmp_path / "b"
    (upper / G).mkdir(parents=True)
    (upper / G / "packed-refs").write_text("# pack-refs with: peeled\n")
    told = audit(workshop, [packed(lower), packed(upper)])
    assert found(told, "git-refs") == [f"/{G}/refs/tags/v2"]


def test_a_reflog_of_the_one_commit_alone_is_no_finding(workshop, tmp_path: Path) -> None:
    """`git init` and `git commit` leave a line that tells what HEAD tells; any other id is a finding."""
    head = (workshop.clean / G / "refs/heads/main").read_text().strip()
    for before, after, places in (
        (ZERO, head, []),
        (ZERO, COMMIT, [f"/{G}/logs/HEAD"]),
        (COMMIT, head, 1),
    ):
        line = f"{before} {after} A <a@b.invalid> 1 +0000\tcommit (initial): base\n"
        root = with_files(workshop, tmp_path / f"{before}{after}", {f"{G}/logs/HEAD": line.encode()})
        reflogs = found(audit(workshop, [packed(root)]), "git-reflog")
        assert len(reflogs) == places if isinstance(places, int) else reflogs == places


def test_an_object_store_anywhere_is_one_of_git(workshop, tmp_path: Path) -> None:
    """A loose object is known by its content, wherever it lies and whatever it is called."""
    import zlib

    blob = b"# " + LINE.encode() + b"\n"
    loose = zlib.compress(b"blob %d\0" % len(blob) + blob)
    told = audit(workshop, [packed(with_files(workshop, tmp_path / "r", {"var/lib/x/1": loose}))])
    assert [place.split("!")[0] for place in found(told, "git-objects")] == ["/var/lib/x/1"]


def test_a_repository_with_long_ids_is_read(workshop, tmp_path: Path) -> None:
    """SHA-256: clean when it is clean, and what is lost in it is found, loose and packed."""
    root = workshop.copy(tmp_path / "root")
    shutil.rmtree(root / G)

    def git(*words: str) -> None:
        identity = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.invalid",
            "-c",
            "core.logAllRefUpdates=false",
        ]
        subprocess.run(["git", *identity, *words], cwd=root / "repo", check=True, capture_output=True)

    git("init", "-q", "-b", "main", "--object-format=sha256")
    git("add", "-A")
    git("commit", "-qm", "base")
    assert audit(workshop, [packed(root)], wanted=workshop.strict).clean
    assert audit(workshop, [packed(root)]).clean
    git("repack", "-qad")
    assert audit(workshop, [packed(root)]).clean
    (root / "repo/x").write_text(LINE)
    git("hash-object", "-w", "x")
    (root / "repo/x").unlink()
    told = audit(workshop, [packed(root)])
    assert found(told, "git-unreachable")
    assert found(told, "git-objects")


def test_a_commit_that_nothing_may_name_is_found_in_any_file(workshop, tmp_path: Path) -> None:
    """In a note, compressed too; and the record says what it is."""
    files = read_patch(workshop.fix_patch), read_patch(workshop.test_patch)
    wanted = wanted_from(*files, commits=(COMMIT, "no id"))
    data = gzip.compress(b"see " + COMMIT.encode() + b"\n")
    told = audit(
        workshop, [packed(with_files(workshop, tmp_path / "r", {"srv/n.gz": data}))], wanted=wanted
    )
    (finding,) = (f for p in told.probes if p.name == "fix-anywhere" for f in p.findings)
    assert (finding.path, finding.what) == (
        "/srv/n.gz!content",
        "the id of a commit that nothing may name",
    )
    assert told.fragments.fix == audit(workshop, [packed(workshop.clean)]).fragments.fix


def test_content_that_the_base_has_elsewhere_is_no_patched_file(workshop, tmp_path: Path) -> None:
    """A patch that copies or moves a file, or adds an empty one, gives ids that the base has already."""
    same, empty = "README.md", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    listed = subprocess.run(
        ["git", "rev-parse", f"HEAD:{same}"],
        cwd=workshop.clean / "repo",
        capture_output=True,
        check=True,
    )
    (file,) = workshop.wanted.fix_files
    moved = replace(file, path="docs/index.md", new_blob=listed.stdout.decode().strip(), hunks=())
    hollow = replace(file, path="src/tallybook/py.typed", new_blob=empty, hunks=())
    wanted = replace(workshop.wanted, fix_files=(file, moved, hollow))
    assert audit(workshop, [packed(workshop.clean)], wanted=wanted).clean


def test_a_new_test_module_of_a_name_that_the_tree_has_is_no_leak(workshop, tmp_path: Path) -> None:
    """`test_report` exists elsewhere in the base tree: its path names no hidden test."""
    root = with_files(workshop, tmp_path / "r", {"repo/src/tallybook/test_report.py": b"x = 1\n"})
    one_commit(root)
    patch = (
        b"diff --git a/tests/test_report.py b/tests/test_report.py\nnew file mode 100644\n"
        b"--- /dev/null\n+++ b/tests/test_report.py\n@@ -0,0 +1 @@\n+import tallybook.report as what\n"
    )
    base = [p.read_bytes() for p in (root / "repo").rglob("*.py")]
    for known in (base, None):
        wanted = wanted_from(read_patch(workshop.fix_patch), read_patch(patch), known)
        told = audit(workshop, [packed(root)], wanted=wanted)
        assert not found(told, "hidden-test-names")


def test_sparse_and_unknown_members_are_read_as_files() -> None:
    """GNU's sparse files, and kinds that the standard leaves open: their content is not skipped over."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind in (("odd", b"Z"), ("after", tarfile.REGTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(LINE)
            archive.addfile(info, io.BytesIO(LINE.encode()))
    reader = ByteReader(iter([buffer.getvalue()]))
    assert [(m.name, m.kind, m.content()) for m in members(reader)] == [
        ("odd", "f", LINE.encode()), ("after", "f", LINE.encode()),
    ]  # fmt: skip


def test_a_sparse_file_of_gnu_tar_is_read(tmp_path: Path) -> None:
    """What lies between the holes is read, and what follows is not lost."""
    with (tmp_path / "holes").open("wb") as stream:
        for number in range(12):
            stream.seek(number * 2**16)
            stream.write(b"%d " % number + LINE.encode())
        stream.truncate(2**21)
    (tmp_path / "next").write_text("next")
    for form in ("gnu", "pax"):
        command = [
            "tar",
            "--sparse",
            f"--format={form}",
            "-C",
            str(tmp_path),
            "-cf",
            "-",
            "holes",
            "next",
        ]
        data = subprocess.run(command, check=True, capture_output=True).stdout
        read = {m.name: m.content() for m in members(ByteReader(iter([data]))) if m.kind == "f"}
        assert read["next"] == b"next"
        assert read["holes"].count(LINE.encode()) == 12


def test_the_name_of_an_attribute_is_searched(workshop, tmp_path: Path) -> None:
    """An extended attribute tells by its name as well as by its value."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("opt/x")
        info.pax_headers = {f"SCHILY.xattr.user.{NAME}": "1"}
        archive.addfile(info)
    told = audit(workshop, [packed(workshop.clean), buffer.getvalue()])
    assert found(told, "hidden-test-names") == ["/opt/x!attributes"]


def test_a_second_singles_a_file_out_where_all_others_have_one_time() -> None:
    """Nearly all files have one and the same time: then a second is as telling as an hour."""
    from race.core.leaks.probes_times import singled_out

    times = {f"src/{n}.py": 1_767_225_600 for n in range(80)} | {"src/pool.py": 1_767_225_601}
    assert set(singled_out(times, {"src/pool.py"})) == {"src/pool.py"}
    assert not singled_out(times, {"src/3.py"})


def test_formats_that_are_never_opened_are_in_the_document(workshop) -> None:
    """Whoever reads the answer of a program learns what was not looked into at all."""
    document = audit(workshop, [packed(workshop.clean)]).as_json()
    assert document["clean"]
    assert any("encrypted" in what for what in document["not_opened"])
