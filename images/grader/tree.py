"""The repository in the test image: what belongs there, and making it exactly that.

`base.json` names every file of the base tree with mode and SHA-256, `base.tar.gz` holds their bytes,
`hidden.json` says what the hidden tests put, change or remove. All three are root's alone. Before
tests run, the repository is made to be base + product part of the submission + hidden tests, no
matter what was done to it, and checked to be that after they ran. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import tarfile
import tempfile
import time
from typing import Callable

import cage

GIT = ["git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"]


class Mismatch(Exception):
    """The repository, or a patch, is not what it has to be; the message is for a person."""


_KNOWN: dict[str, tuple[tuple, str]] = {}
_SETTLED = 50_000_000
"""Nanoseconds after which a file that is written again has another change time for certain."""


def fingerprint(path: str) -> tuple[str, str] | None:
    """Kind and digest of what is at a path: `x`/`f` and SHA-256, `l` and target, or None.

    A file is not read again while its inode says that it was not touched: the kernel sets the change
    time on every write, and nobody can set it back.
    """
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(found.st_mode):
        return "l", os.readlink(path)
    if not stat.S_ISREG(found.st_mode):
        return "?", ""
    kind = "x" if found.st_mode & 0o100 else "f"
    inode = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    known = _KNOWN.get(path)
    if known is not None and known[0] == inode:
        return kind, known[1]
    read_at = time.time_ns()
    with open(path, "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
    if found.st_ctime_ns < read_at - _SETTLED:
        _KNOWN[path] = inode, digest
    return kind, digest


def walk(root: str) -> list[str]:
    """Every file, link and other non-folder below `root`, relative, sorted; without `.git`."""
    found = []
    for folder, folders, files in os.walk(root):
        if folder == root and ".git" in folders:
            folders.remove(".git")
        for name in list(folders):
            if os.path.islink(os.path.join(folder, name)):
                files.append(name)
        found.extend(os.path.relpath(os.path.join(folder, name), root) for name in files)
    return sorted(found)


def record(root: str, place: str) -> None:
    """Write base.json and base.tar.gz of the tree at `root`, `.git` and all, into `place`."""
    base = {path: fingerprint(os.path.join(root, path)) for path in walk(root)}
    inner = walk(os.path.join(root, ".git")) if os.path.isdir(os.path.join(root, ".git")) else []
    git = {path: fingerprint(os.path.join(root, ".git", path)) for path in inner}
    with open(os.path.join(place, "base.json"), "w", encoding="utf-8", errors="surrogateescape") as out:
        json.dump({"files": base, "git": git}, out)
    with tarfile.open(os.path.join(place, "base.tar.gz"), "w:gz", compresslevel=6) as tar:
        for path in base:
            tar.add(os.path.join(root, path), path, recursive=False)
        for path in git:
            if not path.startswith("objects/"):
                tar.add(os.path.join(root, ".git", path), ".git/" + path, recursive=False)


class Base:
    """The recorded base tree."""

    def __init__(self, place: str) -> None:
        with open(
            os.path.join(place, "base.json"), encoding="utf-8", errors="surrogateescape"
        ) as stream:
            recorded = json.load(stream)
        self.files: dict[str, tuple[str, str]] = {k: tuple(v) for k, v in recorded["files"].items()}
        self.git: dict[str, tuple[str, str]] = {k: tuple(v) for k, v in recorded["git"].items()}
        self._tar = os.path.join(place, "base.tar.gz")

    def bytes_of(self, root: str, paths: set[str]) -> dict[str, bytes]:
        """Recorded content of regular files: from the tree where it is untouched, else archived."""
        found: dict[str, bytes] = {}
        wanted = set()
        for path in paths:
            kind, digest = self.files[path]
            if kind == "l":
                continue
            where = os.path.join(root, path)
            if plain_parents(root, path) and fingerprint(where) == (kind, digest):
                with open(where, "rb") as stream:
                    found[path] = stream.read()
            else:
                wanted.add(path)
        if wanted:
            found.update(self.archived(wanted))
        return found

    def archived(self, wanted: set[str]) -> dict[str, bytes]:
        """Files out of the archive."""
        found = {}
        with tarfile.open(self._tar, "r:gz") as tar:
            for member in tar:
                if member.name in wanted and member.isreg():
                    stream = tar.extractfile(member)
                    found[member.name] = stream.read() if stream is not None else b""
        return found


def plain_parents(root: str, path: str) -> bool:
    """Are all folders above this path real folders, so that writing goes where it says?"""
    folder = root
    for part in path.split("/")[:-1]:
        folder = os.path.join(folder, part)
        if os.path.islink(folder) or (os.path.lexists(folder) and not os.path.isdir(folder)):
            return False
    return True


def write(root: str, path: str, data: bytes, executable: bool) -> None:
    """Put a file there, whatever is there now; parents are made. It belongs to root."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        folder = os.path.join(root, *parts[:depth])
        if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
            cage.remove(folder)
        if not os.path.isdir(folder):
            os.mkdir(folder)
    where = os.path.join(root, path)
    if os.path.lexists(where):
        cage.remove(where)
    with open(where, "wb") as stream:
        stream.write(data)
    os.chmod(where, 0o755 if executable else 0o644)


def apply_exactly(
    base: Base, root: str, patch: bytes, touched: list[str], uid: int
) -> dict[str, bytes | None]:
    """What a patch makes of the base: path -> new content, or None where it deletes.

    git applies it, exactly, as the unprivileged user, in an empty folder that holds nothing but
    the files which the patch touches. Raises Mismatch with git's words when it does not apply.
    """
    before = base.bytes_of(root, {path for path in touched if path in base.files})
    with tempfile.TemporaryDirectory(prefix="apply-", dir="/tmp") as scratch:
        for path, data in before.items():
            write(scratch, path, data, base.files[path][0] == "x")
        patch_file = os.path.join(scratch, ".submission")
        with open(patch_file, "wb") as stream:
            stream.write(patch)
        for folder, _, files in os.walk(scratch):
            os.chown(folder, uid, uid)
            for name in files:
                os.chown(os.path.join(folder, name), uid, uid)
        done = subprocess.run(
            [*GIT, "apply", "--whitespace=nowarn", *_without_context(patch), ".submission"],
            cwd=scratch,
            env={
                "PATH": "/usr/bin:/bin:/usr/local/bin",
                "HOME": "/nonexistent",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_CEILING_DIRECTORIES": "/tmp",
                "LC_ALL": "C",
            },
            preexec_fn=lambda: _become(uid),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            lines = done.stdout.decode(errors="replace").replace(".submission", "patch").splitlines()
            raise Mismatch("; ".join(line.replace("error: ", "") for line in lines[:3])[:400])
        os.unlink(patch_file)
        after: dict[str, bytes | None] = {}
        for path in walk(scratch):
            with open(os.path.join(scratch, path), "rb") as stream:
                after[path] = stream.read()
    changed = {path: data for path, data in after.items() if before.get(path) != data}
    changed.update({path: None for path in before if path not in after})
    return changed


def _without_context(patch: bytes) -> list[str]:
    """What git has to be told of a patch in which no hunk has a line of context, as of `diff -U0`.

    Its places are line numbers alone, which git otherwise takes for a mistake.
    """
    hunks = re.split(rb"^@@ -.*\n", patch, flags=re.MULTILINE)[1:]
    bodies = [re.split(rb"^(?:diff |--- .*\n\+\+\+ )", hunk, flags=re.MULTILINE)[0] for hunk in hunks]
    plain = bodies and not any(re.search(rb"^ ", body, re.MULTILINE) for body in bodies)
    return ["--unidiff-zero"] if plain else []


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def difference(base: Base, root: str) -> dict[str, bytes | None]:
    """What was done to the repository: path -> content now, or None where a base file is gone.

    Raises Mismatch for anything that is no regular file.
    """
    changed: dict[str, bytes | None] = dict.fromkeys(base.files)
    for path in walk(root):
        found = fingerprint(os.path.join(root, path))
        recorded = base.files.get(path)
        if recorded is not None and found is not None and found[1] == recorded[1]:
            changed.pop(path)
            continue
        if found is None or found[0] in "l?":
            raise Mismatch("%s: a link or special file" % path)
        with open(os.path.join(root, path), "rb") as stream:
            changed[path] = stream.read()
    return changed


def rebuild(
    base: Base,
    root: str,
    product: dict[str, bytes | None],
    hidden: dict[str, bytes | None],
    beside: Callable[[dict], dict[str, bytes]] = lambda wanted: {},
) -> dict:
    """Make the repository base + product + hidden; the manifest that it then has.

    The hidden tests win over the submission, the submission over the base. Their files are written anew
    each time, so that the times of files do not tell which of them were edited. `beside` says what
    lies beside the tree that is given to it, such as byte-code.
    """
    layers = {**product, **hidden}
    wanted = {path: entry for path, entry in base.files.items() if path not in layers}
    for path, data in layers.items():
        if data is not None:
            kind = base.files.get(path, ("f", ""))[0]
            wanted[path] = ("x" if kind == "x" else "f", hashlib.sha256(data).hexdigest())
    layers.update(beside(wanted))
    wanted.update((path, ("f", hashlib.sha256(layers[path]).hexdigest()))
                  for path in layers if path not in {*product, *hidden})  # fmt: skip
    for path in walk(root):
        if path not in wanted:
            cage.remove(os.path.join(root, path))
    missing = {path for path, data in hidden.items() if data is not None}
    for path, entry in wanted.items():
        if not plain_parents(root, path) or fingerprint(os.path.join(root, path)) != entry:
            missing.add(path)
    content = base.bytes_of(root, {path for path in missing if path not in layers})
    for path in sorted(missing):
        kind, value = wanted[path]
        if kind == "l":
            write(root, path, b"", False)
            os.unlink(os.path.join(root, path))
            os.symlink(value, os.path.join(root, path))
        else:
            data = layers[path] if path in layers else content[path]
            write(root, path, data or b"", kind == "x")
    _rebuild_git(base, root)
    _drop_empty_folders(root)
    return wanted


def _rebuild_git(base: Base, root: str) -> None:
    """Put git's own files back as they were; without their bytes, do without git."""
    git = os.path.join(root, ".git")
    if not base.git or not os.path.isdir(git) or os.path.islink(git):
        cage.remove(git)
        return
    for path in walk(git):
        if path not in base.git:
            cage.remove(os.path.join(git, path))
    broken = {path for path, entry in base.git.items() if fingerprint(os.path.join(git, path)) != entry}
    if not broken:
        return
    found = base.archived({".git/" + path for path in broken})
    if len(found) < len(broken):
        cage.remove(git)
        return
    for path in broken:
        write(git, path, found[".git/" + path], base.git[path][0] == "x")


def _drop_empty_folders(root: str) -> None:
    for folder, folders, files in os.walk(root, topdown=False):
        if folder != root and "/.git" not in folder[len(root) :] and not folders and not files:
            try:
                os.rmdir(folder)
            except OSError:
                continue


def check(root: str, wanted: dict) -> list[str]:
    """What of the repository is not as it has to be: changed or missing files."""
    return [path for path, entry in wanted.items() if fingerprint(os.path.join(root, path)) != entry]
