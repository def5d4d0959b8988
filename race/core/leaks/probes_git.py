"""Probes over git: one commit, and nothing that remembers another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from race.core.leaks.gitstore import is_blob
from race.core.leaks.layers import Repository, packed_refs
from race.core.leaks.probing import Answer, NotChecked, Probe, Subject
from race.core.sealed import LeakFinding

_HEADS = (
    "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG",
    "AUTO_MERGE", "REBASE_HEAD", "BISECT_EXPECTED_REV", "MERGE_MSG", "SQUASH_MSG",
)  # fmt: skip
_UNDERWAY = ("rebase-merge/", "rebase-apply/", "sequencer/")
_CHANGE = re.compile(r"#\d|pull request|https?://|\b[0-9a-f]{12,64}\b", re.IGNORECASE)
_REMOTE = re.compile(
    r"(?mi)^\s*(?:\[(?:remote|submodule|url) .*\]|(?:push)?url\s*=.*|(?:push)?remote\s*=\s*\S*[/:].*)"
    r"|^\s*(?:URL|Pull):.*"
)
_LIST = 20
_EMPTY = ("4b825dc642cb6eb9a060e54bf8d69288fbee4904", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
"""The empty tree and the empty file."""


def _layer(subject: Subject, path: str) -> int:
    for number in range(len(subject.view.layers) - 1, -1, -1):
        if path in subject.view.layers[number].kept:
            return number
    shown = subject.view.final.get(path)
    return shown[0] if shown else 0


def _said(subject: Subject, repository: Repository, name: str, what: str, text: str) -> LeakFinding:
    path = f"{repository.root}/{name}"
    return LeakFinding(path=path, layer=_layer(subject, path), what=what, excerpt=text[:160])


def _own(subject: Subject) -> Repository | None:
    return subject.view.repository


def _both(repository: Repository, name: str) -> Iterator[str]:
    """A control file's versions: the one a container sees, and a hidden one of a lower layer."""
    for place in (repository.kept, repository.ghosts):
        if name in place:
            yield place[name]


def _commits(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        commits = sorted(i for i, (kind, _) in repository.objects.items() if kind == "commit")
        tip = repository.head()
        if len(commits) > 1:
            others = [c for c in commits if c != tip]
            what = f"{len(commits)} commits are stored, not one"
            found.append(
                _said(subject, repository, "objects", what, " ".join(c[:12] for c in others[:8]))
            )
        elif commits and repository is _own(subject) and tip and tip not in commits:
            what = "HEAD names a commit that is not stored"
            found.append(_said(subject, repository, "HEAD", what, tip))
    return found


def _refs(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        refs = repository.refs()
        ghosts = [n for n in repository.ghosts if n.startswith("refs/") and n not in refs]
        heads = [n for n in refs if n.startswith("refs/heads/")]
        extra = [n for n in refs if not n.startswith("refs/heads/")]
        if len(heads) > 1:
            names = ", ".join(heads[:_LIST])
            found.append(_said(subject, repository, "refs/heads", f"{len(heads)} branches", names))
        for name in extra[:_LIST]:
            kind = name.split("/")[1] if name.count("/") else name
            what = {
                "tags": "a tag", "remotes": "a remote-tracking branch", "stash": "a stash",
                "notes": "notes", "replace": "a replaced object", "pull": "a pull request's ref",
            }.get(kind, "a ref outside branches")  # fmt: skip
            found.append(_said(subject, repository, name, what, f"{name} {refs[name]}"))
        tables = [n for n in (*repository.kept, *repository.ghosts) if n.startswith("reftable/")]
        for name in tables[:1]:
            found.append(_said(subject, repository, name, "refs in a table, which is not read", name))
        ghosts += sorted(set(packed_refs(repository.ghosts.get("packed-refs", ""))) - set(refs))
        for name in ghosts[:_LIST]:
            found.append(_said(subject, repository, name, "a ref in a lower layer", name))
    return found


def _remotes(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        names = (*repository.kept, *repository.ghosts)
        old = {name for name in names if name.startswith(("remotes/", "branches/"))}
        for name in ("config", "config.worktree", *sorted(old)):
            for text in _both(repository, name):
                lines = [text] if name.startswith("branches/") else _REMOTE.findall(text)
                for line in lines:
                    found.append(_said(subject, repository, name, "a remote", line.strip()))
    return found


def _reflog(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        for place in (repository.kept, repository.ghosts):
            for name, text in place.items():
                if name.startswith("logs/") and text.strip() and not _only_head(repository, text):
                    line = text.strip().splitlines()[-1]
                    found.append(_said(subject, repository, name, "a reflog", line))
    return found


def _only_head(repository: Repository, text: str) -> bool:
    """Whether a reflog tells only that the one commit was made."""
    first, second = (*text.split(), "", "")[:2]
    return (
        len(text.strip().splitlines()) == 1
        and first != ""
        and not first.strip("0")
        and second == repository.head()
    )


def _heads(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        left = {n for n in (*repository.kept, *repository.ghosts) if n.startswith(_UNDERWAY)}
        for name in (*_HEADS, *sorted(left)):
            for text in _both(repository, name):
                if text.strip():
                    what = "left by an earlier git command"
                    found.append(_said(subject, repository, name, what, text.strip()))
        for text in _both(repository, "COMMIT_EDITMSG"):
            if _CHANGE.search(text):
                what = "a commit's message that names a change"
                found.append(_said(subject, repository, "COMMIT_EDITMSG", what, text.strip()))
    return found


def _unreachable(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        if not repository.objects:
            continue
        starts = [repository.head(), *repository.refs().values()]
        starts += [blob for _, blob in repository.index]
        lost = sorted(set(repository.objects) - repository.reachable(starts))
        # git always knows the empty tree and blob; an image may store them for no commit
        lost = [i for i in lost if i not in _EMPTY]
        if lost:
            kinds = ", ".join(f"{repository.objects[i][0]} {i[:12]}" for i in lost[:6])
            what = f"{len(lost)} objects that HEAD does not reach"
            found.append(_said(subject, repository, "objects", what, kinds))
    return found


def _alternates(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        for place in (repository.kept, repository.ghosts):
            for name, text in place.items():
                if name in ("objects/info/alternates", "objects/info/http-alternates", "commondir"):
                    found.append(_said(subject, repository, name, "objects kept elsewhere", text))
                elif name.startswith("worktrees/"):
                    found.append(_said(subject, repository, name, "another work tree", text))
                elif name.startswith("modules/"):
                    found.append(_said(subject, repository, name, "a submodule's store", text))
    for _, path, text in subject.view.kept():
        if path.endswith("/.git") and text.startswith("gitdir:"):
            layer = _layer(subject, path)
            found.append(
                LeakFinding(path=path, layer=layer, what="a pointer to a git store", excerpt=text[:160])
            )
    return found


def _shallow(subject: Subject) -> Answer:
    return [
        _said(subject, repository, name, "names a commit beyond this one", text.strip())
        for repository in subject.view.repositories.values()
        for name in ("shallow", "info/grafts")
        for text in _both(repository, name)
        if text.strip()
    ]


def _index(subject: Subject) -> Answer:
    found = []
    for repository in subject.view.repositories.values():
        head = repository.head()
        if head not in repository.objects or not repository.index:
            continue
        reached = repository.reachable([head])
        for path, blob in repository.index:
            if blob not in reached:
                found.append(_said(subject, repository, "index", f"{path} is not in HEAD", blob))
    return found[:_LIST]


def _second(subject: Subject) -> Answer:
    own = f"{subject.view.workdir}/.git"
    roots = set(subject.view.repositories)
    found = []
    for number, layer in enumerate(subject.view.layers):
        for entry in layer.entries:
            if entry.path.endswith("/.git") and entry.kind == "d":
                roots.add(entry.path)
        for root in sorted(r for r in roots if r != own):
            if any(p.startswith(root + "/") for p in (*layer.kept, *(e.path for e in layer.entries))):
                what = "a second git repository"
                found.append(LeakFinding(path=root, layer=number, what=what, excerpt=root))
    return found


def _fixed_blobs(subject: Subject) -> Answer:
    """Objects whose id is the one that the patch's index lines give to a fixed or hidden file."""
    wanted = {}
    files = [*subject.wanted.fix_files]
    if not subject.hidden_tests_belong:
        files += subject.wanted.test_files
    for file in files:
        if len(file.new_blob) >= 7 and set(file.new_blob) != {"0"}:
            wanted[file.new_blob] = file.path
    own = _own(subject)
    tracked = [(blob, path) for path, blob in own.index] if own else []
    found = []
    for repository in subject.view.repositories.values():
        for identity in repository.objects:
            for blob, path in wanted.items():
                if identity.startswith(blob) and identity not in _EMPTY:
                    if any(it == identity and at != path for it, at in tracked):
                        continue  # the base has the same content elsewhere: copied or moved
                    name = f"objects/{identity[:2]}/{identity[2:]}"
                    found.append(_said(subject, repository, name, f"{path} as patched", identity))
    return found


def _work_tree(subject: Subject) -> Answer:
    """Tracked files whose content is not what the index says: leftovers of an attempt, or the fix."""
    repository = _own(subject)
    if repository is None:
        return NotChecked("the work directory is no git repository")
    found = []
    filtered = f"{subject.view.workdir}/.gitattributes" in subject.view.final
    for path, blob in repository.index:
        whole = f"{subject.view.workdir}/{path}"
        shown = subject.view.final.get(whole)
        if shown is None:
            found.append((path, 0, "tracked, but not in the work tree"))
        elif filtered or shown[1].kind != "f" or not shown[1].blob:
            continue
        elif not is_blob(shown[1].blob, blob):
            found.append((path, shown[0], "differs from what is committed"))
    return [
        LeakFinding(path=f"{subject.view.workdir}/{path}", layer=layer, what=what, excerpt=path)
        for path, layer, what in found[:_LIST]
    ]


def _present(subject: Subject) -> Answer:
    repository = _own(subject)
    if repository is None:
        return NotChecked(f"{subject.view.workdir} is no git repository")
    if not repository.head():
        return [_said(subject, repository, "HEAD", "HEAD names no commit", "")]
    return []


PROBES = (
    Probe("git-repository", "git", "HEAD of the work directory names a commit", _present),
    Probe("git-commits", "git", "exactly one commit is stored", _commits),
    Probe("git-refs", "git", "one branch; no tags, stash, notes, replace or remote refs", _refs),
    Probe("git-remotes", "git", "no remote and no submodule is configured", _remotes),
    Probe("git-reflog", "git", "no reflog", _reflog),
    Probe("git-heads", "git", "no ORIG_HEAD, FETCH_HEAD, MERGE_HEAD and the like", _heads),
    Probe("git-unreachable", "git", "no object that HEAD does not reach", _unreachable),
    Probe("git-alternates", "git", "no alternates, extra work trees, submodule stores", _alternates),
    Probe("git-shallow", "git", "no shallow or graft file", _shallow),
    Probe("git-index", "git", "the index names nothing outside HEAD", _index),
    Probe("git-second-repository", "git", "no second repository anywhere", _second),
    Probe("git-fixed-blobs", "git", "no object with the id of a patched file", _fixed_blobs),
    Probe("git-work-tree", "git", "tracked files are as committed", _work_tree),
)
