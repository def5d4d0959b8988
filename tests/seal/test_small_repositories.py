"""Small images whose repository tells, or only seems to."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from small_images import COMMIT, LINE, ZERO, G, audit, found, one_commit, packed, with_files

from race.core.leaks.fragments import wanted_from
from race.core.leaks.patchtext import read_patch


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
