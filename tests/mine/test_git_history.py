"""Pull requests, diffs and trees of a local clone."""

from __future__ import annotations

import io
import subprocess
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from race.adapters.git_history import GitHistory
from race.core.mining.facts import PullRequestFacts
from race.errors import Malformed

REPO = "someone/project"


def test_merge_and_squash_commits_are_pull_requests(small: Any) -> None:
    """Newest first, with the parent on the branch as base and the title without its number."""
    found = list(GitHistory(small.path, REPO).pull_requests())
    assert [(r.number, r.merge_style, r.title) for r in found] == [
        (3, "squash", "Explain locks"),
        (2, "squash", "Add Counter.reset"),
        (1, "merge", "Fix race condition when tasks add at the same time"),
    ]
    assert found[2].base_commit == small.git("rev-parse", f"{found[2].merge_commit}^1")
    assert found[0].merged_at.endswith("Z")


def test_a_merge_without_a_title_is_named_by_its_last_commit(small: Any) -> None:
    """The name of a branch is no title."""
    small.merge(31, "", {"pkg/x.py": "x = 1\n"})
    small.merge(32, "Its own title", {"pkg/y.py": "y = 1\n"})
    titles = {r.number: r.title for r in GitHistory(small.path, REPO).pull_requests()}
    assert titles[31] == "work on 31"
    assert titles[32] == "Its own title"


def test_dates_bound_the_listing(small: Any) -> None:
    """`since` is in, `until` is out."""
    history = GitHistory(small.path, REPO)
    middle = datetime.fromisoformat(list(history.pull_requests())[1].merged_at)
    assert [r.number for r in history.pull_requests(since=middle)] == [3, 2]
    assert [r.number for r in history.pull_requests(until=middle)] == [1]
    assert list(history.pull_requests(since=datetime(2100, 1, 1, tzinfo=UTC))) == []


def test_facts_make_a_rebase_merge_a_pull_request(small: Any) -> None:
    """Commits put on the branch one by one are one pull request when somebody says so."""
    base = small.git("rev-parse", "HEAD")
    small.commit("first half", {"pkg/a.py": "a = 1\n"})
    last = small.commit("second half", {"pkg/b.py": "b = 1\n"})
    facts = {7: PullRequestFacts(merge_commit=last, base_commit=base, title="Both halves")}
    history = GitHistory(small.path, REPO, facts=facts)
    request = next(r for r in history.pull_requests() if r.number == 7)
    assert (request.merge_style, request.title, request.base_commit) == ("rebase", "Both halves", base)
    changed = dict(history.changes([request]))[request]
    assert [change.path for change in changed] == ["pkg/a.py", "pkg/b.py"]


def test_wide_diffs_carry_whole_functions(small: Any) -> None:
    """The function around a changed line is there, also what lies far from the line."""
    body = "".join(f"    x{n} = {n}\n" for n in range(40))
    long = f"def first():\n{body}"
    small.commit("start long", {"pkg/long.py": long})
    small.commit("Change it (#8)", {"pkg/long.py": long.replace("x39 = 39", "x39 = 0")})
    history = GitHistory(small.path, REPO)
    request = next(r for r in history.pull_requests() if r.number == 8)
    ((_, diff),) = history.wide_diffs([request])
    assert b"\n def first():\n     x0 = 0\n" in diff
    assert b"x0 = 0" not in history.diff(request.base_commit, request.merge_commit)


def test_requests_without_changes_keep_their_place(small: Any) -> None:
    """A pull request that changes nothing comes out, with nothing."""
    small.commit("Nothing at all (#11)")
    small.commit("Nothing again (#12)")
    small.commit("Something (#13)", {"pkg/c.py": "c = 1\n"})
    history = GitHistory(small.path, REPO)
    requests = list(history.pull_requests())
    found = [(request.number, len(changes)) for request, changes in history.changes(requests)]
    assert found == [(13, 1), (12, 0), (11, 0), (3, 1), (2, 2), (1, 2)]
    assert [r.number for r, _ in history.wide_diffs(requests)] == [13, 12, 11, 3, 2, 1]


def test_an_archive_is_the_tree_and_nothing_else(small: Any) -> None:
    """Deterministic, with links and modes, whatever the tree's attributes say of archives."""
    (small.path / "link").symlink_to("pkg/counter.py")
    attributes = "hidden.txt export-ignore\nid.txt export-subst\n"
    small.write({".gitattributes": attributes, "hidden.txt": "here\n"})
    small.write({"id.txt": "$Format:%H$\n", "run.sh": "#!/bin/sh\n"})
    (small.path / "run.sh").chmod(0o755)
    commit = small.commit("odd files (#20)")
    history = GitHistory(small.path, REPO)
    data = history.archive(commit)
    assert data == GitHistory(small.path, REPO).archive(commit)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {member.name: member for member in archive}
        assert members["link"].linkname == "pkg/counter.py"
        assert members["run.sh"].mode == 0o755
        assert {(m.mtime, m.uid, m.gid, m.uname) for m in members.values()} == {(0, 0, 0, "")}
        assert list(members) == sorted(members)
        assert archive.extractfile("id.txt").read() == b"$Format:%H$\n"  # type: ignore[union-attr]
        assert "hidden.txt" in members


def test_patches_are_applied_without_touching_the_clone(small: Any) -> None:
    """The clone is read-only for us: no object, ref or index entry is added."""
    history = GitHistory(small.path, REPO)
    request = next(r for r in history.pull_requests() if r.number == 1)

    def contents() -> dict[Path, bytes]:
        return {p: p.read_bytes() for p in (small.path / ".git").rglob("*") if p.is_file()}

    before = contents()
    diff = history.diff(request.base_commit, request.merge_commit)
    assert history.applied(request.base_commit, [diff]) == history.tree_entries(request.merge_commit)
    with pytest.raises(Malformed, match="git apply"):
        history.applied(request.merge_commit, [diff])
    assert contents() == before


def test_hostile_configuration_of_a_clone_runs_nothing(small: Any, tmp_path: Path) -> None:
    """External diffs, text conversions and monitors that a clone's configuration names stay unused."""
    mark = tmp_path / "ran"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    small.commit("attributes (#30)", {".gitattributes": "*.py diff=evil\n", "pkg/d.py": "d = 1\n"})
    small.commit("more (#31)", {"pkg/d.py": "d = 2\n"})
    for key in ("diff.external", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor"):
        small.git("config", key, str(script))
    history = GitHistory(small.path, REPO)
    requests = list(history.pull_requests())
    assert history.diff(requests[0].base_commit, requests[0].merge_commit)
    assert len(list(history.wide_diffs(requests))) == len(requests)
    history.applied(requests[0].base_commit, [])
    assert not mark.exists()


def test_reading_files(small: Any) -> None:
    """A file at a commit, or None for what is not a file there."""
    history = GitHistory(small.path, REPO)
    assert history.read("HEAD", "README.md") == b"Locks.\n"
    assert history.read("HEAD", "pkg") is None
    assert history.read("HEAD", "nothing") is None
    assert set(history.top("HEAD")) == {"LICENSE", "README.md", "pkg", "tests"}


def test_what_is_no_clone_is_said_in_one_line(tmp_path: Path, small: Any) -> None:
    """No folder, no repository, a repository that lacks an object: each names the path."""
    with pytest.raises(Malformed, match="no such folder"):
        GitHistory(tmp_path / "nothing", REPO)
    with pytest.raises(Malformed, match="not a git repository"):
        GitHistory(tmp_path, REPO)
    blob = small.git("rev-parse", "HEAD:README.md")
    (small.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    history = GitHistory(small.path, REPO)
    with pytest.raises(Malformed, match="lacks this object"):
        history.archive("HEAD")
    empty = tmp_path / "empty"
    subprocess.run(["git", "init", "-q", str(empty)], check=True)
    with pytest.raises(Malformed):
        list(GitHistory(empty, REPO).pull_requests())


def test_bare_clones_and_work_trees_are_read_alike(small: Any, tmp_path: Path) -> None:
    """A bare clone, a linked work tree and the repository itself tell the same."""
    bare, tree = tmp_path / "bare", tmp_path / "tree"
    subprocess.run(["git", "clone", "-q", "--bare", str(small.path), str(bare)], check=True)
    small.git("worktree", "add", "-q", "--detach", str(tree))
    told = [list(GitHistory(path, REPO).pull_requests()) for path in (small.path, bare, tree)]
    assert told[0] == told[1] == told[2]
    request = told[0][2]
    diff = GitHistory(tree, REPO).diff(request.base_commit, request.merge_commit)
    assert GitHistory(tree, REPO).applied(request.base_commit, [diff])
