"""Sabotaged repositories: one image per kind, each found by the right probe at the right place."""

from __future__ import annotations

import gzip
import io
import shutil
import zipfile
from pathlib import Path

from sabotage import (
    FIX_LINE,
    Kit,
    Sabotages,
    drop,
    fresh,
    nested,
    registering,
)

SABOTAGES: Sabotages = {}
sabotage = registering(SABOTAGES)


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
    fresh(root / "repo", kit)


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
    fresh(root / "repo", kit)


SABOTAGES["reflog of a branch alone"] = (
    "git-reflog", "/repo/.git/logs/refs/heads/main",
    drop("repo/.git/logs/refs/heads/main", f"{'0' * 40} {'7' * 40} A <a@b.invalid> 1 +0000\tfix\n"),
)  # fmt: skip
SABOTAGES["alternates over the network"] = (
    "git-alternates", "/repo/.git/objects/info/http-alternates",
    drop("repo/.git/objects/info/http-alternates", "https://example.invalid/o.git/objects\n"),
)  # fmt: skip


@sabotage(
    "git pack in a tar in a wheel",
    "git-objects",
    "/opt/wheels/other-1.0-py3-none-any.whl!other/data.tgz!",
)
def _(root: Path, kit: Kit) -> None:
    upstream = root / "upstream"
    kit.write(upstream, kit.fixed)
    fresh(upstream, kit)
    kit.git(upstream, "repack", "-qad")
    pack = next((upstream / ".git/objects/pack").glob("*.pack")).read_bytes()
    shutil.rmtree(upstream)
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("other/data.tgz", gzip.compress(nested(pack)))
    drop("opt/wheels/other-1.0-py3-none-any.whl", wheel.getvalue())(root, kit)
