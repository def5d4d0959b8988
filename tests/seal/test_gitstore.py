"""Git's own stores, read without git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from race.core.leaks.gitstore import blob_id, index_entries, loose_object, packed_objects


def git(folder: Path, *words: str) -> str:
    """Run the real git."""
    names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
    fixed = dict.fromkeys(names, "sample@example.invalid") | {"GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=os.environ | fixed, capture_output=True, check=True
    )
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Thirty commits to files that delta well, and one that does not compress."""
    git(tmp_path, "init", "-q")
    for number in range(30):
        text = "".join(f"line {i} of {number if i % 7 == 0 else 0}\n" for i in range(400))
        (tmp_path / "grows.txt").write_text(text * (1 + number % 3))
        (tmp_path / f"file {number}.bin").write_bytes(os.urandom(1 + number * 37))
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", f"change {number}")
    return tmp_path


def listed(folder: Path) -> dict[str, str]:
    """Every object as git lists it: id -> kind."""
    lines = git(folder, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


@pytest.mark.parametrize("options", [("--depth=50",), ("--depth=50", "--window=1"), ("--depth=0",)])
def test_a_pack_gives_every_object_that_git_lists(repository: Path, options: tuple[str, ...]) -> None:
    """All objects of a pack come out with the id, kind and content that git gives them."""
    git(repository, "repack", "-adfq", *options)
    pack = next((repository / ".git/objects/pack").glob("*.pack"))
    found = {o.id: o for o in packed_objects(pack.read_bytes())}
    assert {i: o.kind for i, o in found.items()} == listed(repository)
    blob = git(repository, "rev-parse", "HEAD:grows.txt").strip()
    assert found[blob].content == (repository / "grows.txt").read_bytes()


def test_loose_objects_and_links(repository: Path) -> None:
    """A loose commit names its tree and parent, a tree its entries."""
    head, tree = git(repository, "rev-parse", "HEAD", "HEAD^{tree}").split()
    parent = git(repository, "rev-parse", "HEAD^").strip()
    commit = loose_object(head, (repository / f".git/objects/{head[:2]}/{head[2:]}").read_bytes())
    assert commit
    assert commit.links == (tree, parent)
    loose = loose_object(tree, (repository / f".git/objects/{tree[:2]}/{tree[2:]}").read_bytes())
    assert loose
    assert blob_id((repository / "grows.txt").read_bytes()) in loose.links


def test_a_damaged_pack_is_said_to_be_one(repository: Path) -> None:
    """A pack that breaks off is an error, never a short list of objects."""
    git(repository, "repack", "-adfq")
    data = next((repository / ".git/objects/pack").glob("*.pack")).read_bytes()
    with pytest.raises(ValueError):
        list(packed_objects(data[: len(data) // 2]))


@pytest.mark.parametrize("version", ["2", "4"])
def test_the_index_lists_what_git_lists(repository: Path, version: str) -> None:
    """Paths and blob ids of the index, in its plain and its compressed form."""
    git(repository, "update-index", "--index-version", version)
    lines = git(repository, "ls-files", "-s", "-z").split("\0")[:-1]
    expected = [(line.split("\t")[1], line.split()[1]) for line in lines]
    assert index_entries((repository / ".git/index").read_bytes()) == expected
