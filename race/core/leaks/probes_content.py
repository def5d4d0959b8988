"""Probes over what was found of the fix and of hidden tests: first anywhere, then by place."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator

from race.core.leaks.bytecode import source_of, telling
from race.core.leaks.forms import printable
from race.core.leaks.judge import Leak
from race.core.leaks.layers import Compiled, ImageView
from race.core.leaks.patchtext import PatchedFile, applied
from race.core.leaks.places import is_cache
from race.core.leaks.probing import Answer, Probe, Subject
from race.core.sealed import LeakFinding

_SITE = re.compile(r"/(site-packages|dist-packages)/")
_RESIDUE = re.compile(r"(\.egg-info|\.dist-info|\.egg)(/|$)|^(build|dist|_build|\.eggs|sdist)/")


_ENCODED = frozenset(
    [
        *("base64", "base32", "hex", "base85", "uuencode", "quoted-printable", "percent"),
        *("numbers", "escapes", "rot13", "reversed", "EBCDIC"),
        *("xor", "plus", "rot47", "yEnc"),
    ]
)
_PACKED = frozenset(("zip", "tar", "ar", "gzip", "bzip2", "xz", "zstd", "zlib", "deflate", "pdf", "png"))


def finding(leak: Leak) -> LeakFinding:
    """A leak as a finding."""
    path = leak.hit.path + (f"!{leak.hit.inside}" if leak.hit.inside else "")
    return LeakFinding(path=path, layer=leak.layer, what=leak.what, excerpt=leak.excerpt)


def place_of(leak: Leak, view: ImageView) -> str:
    """The named probe that a leak's place belongs to."""
    how, path = leak.hit.how, leak.hit.path
    below = view.below(path)
    if "git-object" in how or re.search(r"(^|/)(\.git|[^/]+\.git)/", path):
        return "git-objects"
    inner = (leak.hit.inside or path).rsplit("!", 1)[-1]
    if inner.endswith((".pyc", ".pyo")):
        return "byte-code"
    if _ENCODED & set(how):
        return "encoded"
    if _PACKED & set(how):
        return "archives"
    if is_cache(path):
        return "tool-caches"
    if _SITE.search(path):
        return "installed-copies"
    if below is not None:
        return "build-residue" if _RESIDUE.search(below) else "work-tree"
    if _RESIDUE.search(path):
        return "build-residue"
    return "elsewhere"


def _counted(subject: Subject) -> Iterator[Leak]:
    """Leaks that count: on a grading image, hidden tests and the grader's folder are by design."""
    for leak in subject.leaks:
        if subject.hidden_tests_belong and leak.source == "tests":
            continue
        if any(leak.hit.path.startswith(prefix) for prefix in subject.allowed):
            continue
        yield leak


def _fix_anywhere(subject: Subject) -> Answer:
    return [finding(leak) for leak in _counted(subject) if leak.source == "fix"]


def _tests_anywhere(subject: Subject) -> Answer:
    leaks = _counted(subject)
    return [finding(leak) for leak in leaks if leak.source == "tests" and not leak.names_only]


def _names_anywhere(subject: Subject) -> Answer:
    leaks = _counted(subject)
    return [
        finding(leak)
        for leak in leaks
        if leak.source == "tests" and any(f.form == "name" for f in leak.fragments)
    ]


def _at(place: str) -> Probe:
    name, title = place, _TITLES[place]

    def check(subject: Subject) -> Answer:
        found = [finding(x) for x in _counted(subject) if place_of(x, subject.view) == place]
        if place == "byte-code":
            found += _compiled(subject, code=True)
        if place == "tool-caches":
            found += _compiled(subject, code=False)
            inside = (x for x in _counted(subject) if _PACKED & set(x.hit.how) and is_cache(x.hit.path))
            found += [finding(x) for x in inside if "/.cache/" not in x.hit.path]
        return found

    return Probe(name, "content", title, check)


def _compiled(subject: Subject, *, code: bool) -> list[LeakFinding]:
    """Byte-code and caches of touched files that hold the fix's new names, or its source's size; and
    byte-code of any name that holds such names and whose source is not there."""
    found = []
    for number, layer in enumerate(subject.view.layers):
        for item in layer.compiled:
            if item.code is not code:
                continue
            path = item.path + (f"!{item.inside}" if item.inside else "")
            told = None
            for file in subject.wanted.fix_files:
                if _stem(file.path) == item.stem and _may_be_of(subject, item, file):
                    told = told or _told_by(subject, item, file)
            told = told or _stranger(subject, item)
            if told:
                found.append(_leaf(path, number, *told))
    return found


def _may_be_of(subject: Subject, item: Compiled, file: PatchedFile) -> bool:
    """Whether byte-code of a patched file's name can be of that file, and not of a namesake elsewhere.

    Every package has an `__init__`: that is told by its folder. Any other is one as long as no source
    of its own lies where it should.
    """
    of = file.path.rpartition("/")[0].rpartition("/")[2]
    if source_of(item.inside or item.path).rpartition("/")[0].rpartition("/")[2] == of:
        return True
    return not item.stem.startswith("__") and not _searched(subject, item)


def _searched(subject: Subject, item: Compiled) -> bool:
    """Whether a source of its size lies where it should: it was itself searched."""
    source = subject.view.final.get(source_of(item.path)) if not item.inside else None
    return source is not None and item.source_size in (-1, source[1].size)


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].rsplit(".", 1)[0]


def _told_by(subject: Subject, item: Compiled, file: PatchedFile) -> tuple[str, str] | None:
    """What byte-code or a cache tells of a patched file of the same name."""
    base = subject.view.text(f"{subject.view.workdir}/{file.path}")
    new = [name for name in item.names if base is None or name not in base]
    if new:
        return f"names that first appear with the fix of {file.path}", ", ".join(new[:8])
    if base is not None and file.grown and item.source_size == len(base) + file.grown:
        what = f"compiled from a source of the size that the fixed {file.path} has"
        return what, f"{item.source_size} bytes"
    return None


def _stranger(subject: Subject, item: Compiled) -> tuple[str, str] | None:
    """What byte-code of any name tells when its source is not there."""
    if not item.code or _searched(subject, item):
        return None
    sizes = {
        len(base) + file.grown: file.path
        for file in subject.wanted.fix_files
        if file.grown
        and _stem(file.path) == item.stem
        and (base := subject.view.text(f"{subject.view.workdir}/{file.path}")) is not None
    }
    if item.source_size in sizes:
        what = f"compiled from a source of the size that the fixed {sizes[item.source_size]} has"
        return what, f"{item.source_size} bytes"
    if not telling(item.names):
        return None
    return "names that first appear with the fix, without their source", ", ".join(item.names[:8])


def _leaf(path: str, layer: int, what: str, excerpt: str) -> LeakFinding:
    return LeakFinding(path=path, layer=layer, what=what, excerpt=printable(excerpt.encode()))


def _deleted(subject: Subject) -> Answer:
    """Leaks in files that a later layer removes or replaces: gone for ls, not for docker save."""
    return [
        finding(leak) for leak in _counted(subject) if not subject.view.shown(leak.hit.path, leak.layer)
    ]


def _new_files(subject: Subject) -> Answer:
    """Files that only exist after the fix or with the hidden tests."""
    found = []
    files = [*subject.wanted.fix_files]
    if not subject.hidden_tests_belong:
        files += subject.wanted.test_files
    added = {f"{subject.view.workdir}/{f.path}": f.path for f in files if f.added}
    for number, layer in enumerate(subject.view.layers):
        for entry in layer.entries:
            if entry.path in added and entry.kind in "flh":
                what = "a file that the fix or the test patch adds"
                found.append(_leaf(entry.path, number, what, entry.path))
    return found


def _listings(subject: Subject) -> Answer:
    """RECORD, SOURCES.txt and the like that list files which only the patches add."""
    files = [*subject.wanted.fix_files]
    if not subject.hidden_tests_belong:
        files += subject.wanted.test_files
    added = [f.path for f in files if f.added]
    digests = _digests(subject, files)
    found = []
    for number, path, text in subject.view.kept():
        if not path.endswith(("/RECORD", "/SOURCES.txt", "/installed-files.txt", ".md5sums")):
            continue
        for digest, name in digests.items():
            if digest in text:
                found.append(_leaf(path, number, f"names the digest of the patched {name}", digest))
        lines = set(text.replace(",", "\n").splitlines())
        for name in added:
            short = name.split("/", 1)[-1] if name.startswith("src/") else name
            if name in lines or short in lines:
                found.append(_leaf(path, number, f"lists {name}, which only a patch adds", name))
    return found


def _digests(subject: Subject, files: list[PatchedFile]) -> dict[str, str]:
    """Digests that lists give to patched files, as far as the old file is there or it is a new one."""
    found = {}
    for file in files:
        text = subject.view.text(f"{subject.view.workdir}/{file.path}")
        old = b"" if text is None or file.added else text.encode("latin-1")
        new = applied(file, old) if old or file.added else None
        for content in (new, new + b"\n" if new is not None and file.added else None):
            if content:
                raw = hashlib.sha256(content).digest()
                found[base64.urlsafe_b64encode(raw).rstrip(b"=").decode()] = file.path
                found[hashlib.md5(content, usedforsecurity=False).hexdigest()] = file.path
    return found


_TITLES = {
    "work-tree": "no piece of fix or hidden tests in a file of the work directory",
    "git-objects": "no piece of fix or hidden tests in a git object, loose, packed or unreachable",
    "archives": "no piece in a zip, wheel, tar, package, or a compressed stream",
    "encoded": "no piece in a run of base64, base85, hexadecimal or another encoding",
    "byte-code": "no byte-code of fixed code or of hidden tests",
    "installed-copies": "no fixed or newer copy of the project among installed packages",
    "build-residue": "no piece in build, dist, egg-info or dist-info folders",
    "tool-caches": "no trace in caches of test runners, coverage, type checkers, property testers",
    "elsewhere": "no piece of fix or hidden tests in any other file of any layer",
}

PROBES = (
    Probe("fix-anywhere", "content", "no distinctive piece of the fix in any layer", _fix_anywhere),
    Probe("hidden-tests-anywhere", "content", "no piece of a hidden test in any layer", _tests_anywhere),
    Probe("hidden-test-names", "content", "no name of a hidden test in any layer", _names_anywhere),
    *(_at(place) for place in _TITLES),
    Probe("deleted-files", "content", "no leak in files that a later layer deletes", _deleted),
    Probe("new-files", "content", "no file that only the fix or the test patch adds", _new_files),
    Probe("listings", "content", "no file list that names what only a patch adds", _listings),
)
