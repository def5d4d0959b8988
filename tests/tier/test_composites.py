"""Composites: several fixes carried to the oldest member's base, by exact context or not at all."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from race.core.composites import combine
from race.core.records import Mined
from race.errors import Malformed, Rejection
from race.progress import Progress
from race.store import Store
from race.work.composing import mine_composites
from race.work.mining_run import mine_release
from race.workbench import Workbench

HEAD = """\
[release]
name = "sample"
sample = true
canary = "00000000-0000-4000-8000-000000000000"
"""


def git(repository: Path, *arguments: str, given: bytes = b"") -> bytes:
    command = [
        "git",
        "-C",
        str(repository),
        "-c",
        "user.name=Sample",
        "-c",
        "user.email=s@example.invalid",
    ]
    return subprocess.run([*command, *arguments], input=given, capture_output=True, check=True).stdout


class Project:
    """A real repository whose commits are made of whole trees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")

    def commit(self, files: dict[str, bytes | None]) -> str:
        for name, data in files.items():
            path = self.folder / name
            if data is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "x")
        return git(self.folder, "rev-parse", "HEAD").decode().strip()

    def diff(self, old: str, new: str) -> bytes:
        return git(self.folder, "diff", "--binary", "--full-index", "--no-renames", old, new)

    def read(self, commit: str, path: str) -> bytes | None:
        done = subprocess.run(
            ["git", "-C", str(self.folder), "show", f"{commit}:{path}"], capture_output=True, check=False
        )
        return done.stdout if done.returncode == 0 else None

    def applied(self, commit: str, patch: bytes) -> dict[str, bytes]:
        """The tree that git makes of a commit and a patch."""
        git(self.folder, "checkout", "-q", "--detach", commit)
        git(self.folder, "apply", "--index", "-", given=patch)
        names = git(self.folder, "ls-files", "-z").decode().split("\0")[:-1]
        tree = {name: (self.folder / name).read_bytes() for name in names}
        git(self.folder, "reset", "-q", "--hard")
        return tree


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def lines(*words: str) -> bytes:
    return "".join(f"{word}\n" for word in words).encode()


BODY = [f"line {number}" for number in range(40)]


def changed(**by_number: str) -> bytes:
    body = list(BODY)
    for number, text in by_number.items():
        body[int(number[1:])] = text
    return lines(*body)


def test_files_of_one_member_keep_their_part_byte_for_byte(project: Project) -> None:
    """What one member alone touches stays as git wrote it, binary files too."""
    first = project.commit({"a.py": changed(), "b.bin": b"\0\1", "old.py": b"x\n"})
    second = project.commit({"a.py": changed(n3="fixed"), "new.py": b"n\n"})
    third = project.commit({"b.bin": b"\0\2\xff", "old.py": None})
    one, two = project.diff(first, second), project.diff(second, third)
    combined = combine([one, two], lambda path: project.read(first, path))
    assert sorted(combined.split(b"diff --git ")[1:]) == sorted((one + two).split(b"diff --git ")[1:])
    tree = project.applied(first, combined)
    assert tree == {"a.py": changed(n3="fixed"), "b.bin": b"\0\2\xff", "new.py": b"n\n"}


def test_two_members_in_one_file_are_both_in(project: Project) -> None:
    """Changes to one file add up, also when the second stands at another line now."""
    first = project.commit({"a.py": changed()})
    second = project.commit({"a.py": lines("more", "at", "the", "top") + changed(n3="fixed")})
    third = project.commit(
        {"a.py": lines("more", "at", "the", "top") + changed(n3="fixed", n30="mended")}
    )
    parts = [project.diff(first, second), project.diff(second, third)]
    tree = project.applied(first, combine(parts, lambda path: project.read(first, path)))
    assert tree["a.py"] == project.read(third, "a.py")


def test_what_lies_between_the_members_stays_out(project: Project) -> None:
    """A change that came between two members is not part of the composite."""
    first = project.commit({"a.py": changed(), "c.py": b"c\n"})
    second = project.commit({"a.py": changed(n3="fixed")})
    between = project.commit({"a.py": lines("header") + changed(n3="fixed"), "c.py": b"other\n"})
    third = project.commit({"a.py": lines("header") + changed(n3="fixed", n30="mended")})
    parts = [project.diff(first, second), project.diff(between, third)]
    tree = project.applied(first, combine(parts, lambda path: project.read(first, path)))
    assert tree == {"a.py": changed(n3="fixed", n30="mended"), "c.py": b"c\n"}


def test_the_end_of_a_file_without_newline_survives(project: Project) -> None:
    """A file that ends without a newline, before or after, comes out right."""
    first = project.commit({"a.py": changed() + b"end"})
    second = project.commit({"a.py": changed(n1="fixed") + b"end"})
    third = project.commit({"a.py": changed(n1="fixed") + b"end\n"})
    fourth = project.commit({"a.py": changed(n1="fixed") + b"last"})
    steps = [first, second, third, fourth]
    parts = [project.diff(old, new) for old, new in pairwise(steps)]
    tree = project.applied(first, combine(parts, lambda path: project.read(first, path)))
    assert tree["a.py"] == changed(n1="fixed") + b"last"


@pytest.mark.parametrize(
    ("before", "between", "after", "why"),
    [
        (
            {"a.py": changed()},
            {"a.py": changed(n30="moved on")},
            {"a.py": changed(n30="mended")},
            "hunk 1",
        ),
        ({"a.py": changed()}, {"b.py": b"b\n"}, {"b.py": b"c\n"}, "not there"),
        ({"a.bin": b"\0\1"}, {"a.bin": b"\0\2"}, {"a.bin": b"\0\3"}, "not text"),
    ],
    ids=["context-changed", "file-came-later", "binary-on-another-base"],
)
def test_what_does_not_fit_is_rejected_with_its_path(
    project: Project,
    before: dict[str, bytes],
    between: dict[str, bytes],
    after: dict[str, bytes],
    why: str,
) -> None:
    """A change whose surroundings the oldest base does not have is a rejection that names the file."""
    first = project.commit(before)
    second = project.commit(between)
    third = project.commit(after)
    with pytest.raises(Rejection, match=why) as refused:
        combine([project.diff(second, third)], lambda path: project.read(first, path))
    assert refused.value.rule == "composite-does-not-apply"
    assert refused.value.place == next(iter(after))


def test_two_members_that_add_one_file_are_rejected(project: Project) -> None:
    """Two members cannot both bring the same new file."""
    first = project.commit({"a.py": b"a\n"})
    second = project.commit({"n.py": b"one\n"})
    part = project.diff(first, second)
    with pytest.raises(Rejection, match="two members add"):
        combine([part, part], lambda path: project.read(first, path))


def release(folder: Path, *composites: str) -> Store:
    folder.mkdir(exist_ok=True)
    (folder / "release.toml").write_text(HEAD + "".join(composites))
    return Store(folder)


def composite(name: str, *members: str) -> str:
    return f'[[composite]]\nid = "{name}"\nmembers = {list(members)!r}\n'


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory, sample_project: Path, bench: Workbench) -> Store:
    """The sample release, mined, with one composite."""
    folder = tmp_path_factory.mktemp("mined") / "sample"
    store = release(folder, composite("sample__brook-both", "sample__brook-32", "sample__brook-23"))
    mine_release(store, bench, {"sample/brook": sample_project}, progress=Progress("mine", 1))
    return store


def test_the_sample_composite_is_a_task_of_its_own(mined: Store, sample_project: Path) -> None:
    """It starts at the older member's base, has both fixes and both tests, and the newer one's date."""
    both = mined.task("sample__brook-both").read(Mined)
    old, new = (mined.task(f"sample__brook-{number}").read(Mined) for number in (23, 32))
    assert both is not None
    assert old is not None
    assert new is not None
    assert (both.accepted, both.sample) == (True, True)
    assert both.members == ("sample__brook-23", "sample__brook-32")
    assert (both.base_commit, both.merged_at) == (old.base_commit, new.merged_at)
    assert both.fix_lines == old.fix_lines + new.fix_lines
    assert both.fix_patch is not None
    assert both.test_patch is not None
    work = sample_project.parent / "composite"
    git(sample_project, "worktree", "add", "--detach", "--force", str(work), both.base_commit)
    try:
        for ref in (both.fix_patch, both.test_patch):
            git(work, "apply", "--index", "-", given=mined.task("sample__brook-both").read_file(ref))
        for name in ("src/brook/pipeline.py", "src/brook/service.py", "tests/test_pipeline.py"):
            assert (work / name).read_bytes() == git(sample_project, "show", f"main:{name}")
    finally:
        git(sample_project, "worktree", "remove", "--force", str(work))


def test_a_composite_is_made_once(mined: Store, bench: Workbench) -> None:
    """A second mining run leaves a composite alone whose members are the same."""
    path = mined.folder / "sample__brook-both" / "mine.json"
    before = path.stat().st_mtime_ns
    assert mine_composites(mined, bench, Progress("mine", 1)) == []
    assert path.stat().st_mtime_ns == before


def test_members_of_two_projects_are_malformed(mined: Store, bench: Workbench, tmp_path: Path) -> None:
    """release.toml is told off by name when a composite mixes projects."""
    store = release(tmp_path / "mixed", composite("mixed", "a__one-1", "a__two-2"))
    like = mined.task("sample__brook-23").read(Mined)
    assert like is not None
    for name, repo in (("a__one-1", "a/one"), ("a__two-2", "a/two")):
        store.task(name).write(like.model_copy(update={"instance_id": name, "repo": repo}))
    with pytest.raises(Malformed, match=r"composite\.mixed: members of several projects"):
        mine_composites(store, bench, Progress("mine", 1))


def test_a_rejected_member_rejects_the_composite(mined: Store, bench: Workbench, tmp_path: Path) -> None:
    """A composite cannot hold a fix that mining turned down."""
    store = release(tmp_path / "half", composite("half", "a__one-1", "a__one-2"))
    like = mined.task("sample__brook-23").read(Mined)
    assert like is not None
    for name, accepted in (("a__one-1", True), ("a__one-2", False)):
        store.task(name).write(like.model_copy(update={"instance_id": name, "accepted": accepted}))
    assert mine_composites(store, bench, Progress("mine", 1)) == ["half"]
    record = store.task("half").read(Mined)
    assert record is not None
    assert not record.accepted
    assert record.reasons == ["mining turned down a__one-2"]


def test_a_composite_waits_for_its_members(bench: Workbench, tmp_path: Path) -> None:
    """Members that are not mined yet keep a composite waiting, without a record."""
    store = release(tmp_path / "waiting", composite("waits", "a__one-1", "a__one-2"))
    assert mine_composites(store, bench, Progress("mine", 1)) == []
    assert store.ids() == []
