"""What a scan keeps of one layer, and how layers stack up to the file system that a container sees."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from race.core.leaks.gitstore import index_entries

FORMAT = 12
"""Raised when what a scan keeps changes, so that older cached scans are not used."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a layer. `kind` is f (file), d, l (link), h (hard link) or o; `blob` is the git
    id of the content, for files of the work directory only."""

    path: str
    kind: str
    size: int
    mtime: float
    mode: int
    link: str = ""
    blob: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """Fragments found in one place. `inside` names the way from the file to that place, with how
    each step was unpacked; `found` holds (number of the fragment, excerpt, exact)."""

    path: str
    inside: str
    how: tuple[str, ...]
    found: tuple[tuple[int, str, bool], ...]
    sha256: str = ""
    md5: str = ""
    git_id: str = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Byte-code, or a tool's cache, of a file that a patch touches: the source's size by the header
    (or -1), and which of the fix's new names are in it."""

    path: str
    inside: str
    stem: str
    source_size: int
    names: tuple[str, ...]
    code: bool = True


_FIELDS = ("path", "kind", "size", "mtime", "mode", "link", "blob")


@dataclass
class LayerScan:
    """All that the judge and the probes need to know of one layer."""

    digest: str
    size: int = 0
    entries: list[Entry] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    compiled: list[Compiled] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """Small control files by path, as latin-1 text."""
    objects: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = field(default_factory=dict)
    """Git objects: store -> id -> (kind, ids it names)."""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """(path, why) of what was not searched whole."""

    def absorb(self, other: LayerScan) -> None:
        """Take over what a scan of further files of the same layer gave."""
        self.entries += other.entries
        self.hits += other.hits
        self.compiled += other.compiled
        self.kept.update(other.kept)
        for store, objects in other.objects.items():
            self.objects.setdefault(store, {}).update(objects)
        self.unread += other.unread

    def as_json(self) -> dict[str, Any]:
        """For the cache; the many entries as rows."""
        return {
            "format": FORMAT,
            "digest": self.digest,
            "size": self.size,
            "entries": [[getattr(entry, name) for name in _FIELDS] for entry in self.entries],
            "hits": [asdict(hit) for hit in self.hits],
            "compiled": [asdict(item) for item in self.compiled],
            "kept": self.kept,
            "objects": self.objects,
            "unread": self.unread,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LayerScan | None:
        """From the cache; None when it was kept by another version."""
        if value.get("format") != FORMAT:
            return None
        return cls(
            digest=value["digest"],
            size=value["size"],
            entries=[Entry(*row) for row in value["entries"]],
            hits=[
                Hit(**hit | {"how": tuple(hit["how"]), "found": tuple(tuple(f) for f in hit["found"])})
                for hit in value["hits"]
            ],
            compiled=[Compiled(**item | {"names": tuple(item["names"])}) for item in value["compiled"]],
            kept=dict(value["kept"]),
            objects={
                store: {key: (kind, tuple(links)) for key, (kind, links) in found.items()}
                for store, found in value["objects"].items()
            },
            unread=[(path, why) for path, why in value["unread"]],
        )


def packed_refs(text: str) -> dict[str, str]:
    """Names and values of a file of packed refs."""
    lines = (line.partition(" ") for line in text.splitlines() if not line.startswith(("#", "^")))
    return {name.strip(): value for value, _, name in lines if name}


@dataclass
class Repository:
    """A git directory somewhere in an image, all layers taken together."""

    root: str
    objects: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """Control files of the final file system, by path below the git directory."""
    ghosts: dict[str, str] = field(default_factory=dict)
    """Control files that only an earlier layer has."""

    @property
    def index(self) -> list[tuple[str, str]]:
        """(path, blob id) of the index."""
        wide = re.search(r"(?i)objectformat\s*=\s*sha256", self.kept.get("config", ""))
        return index_entries(self.kept.get("index", "").encode("latin-1"), 32 if wide else 20)

    def refs(self) -> dict[str, str]:
        """Every ref's name and value, loose and packed, without HEAD."""
        refs = packed_refs(self.kept.get("packed-refs", ""))
        for name, text in self.kept.items():
            if name.startswith("refs/"):
                refs[name] = text.strip()
        return refs

    def head(self) -> str:
        """The id that HEAD comes to; empty when it names nothing."""
        value = self.kept.get("HEAD", "").strip()
        if value.startswith("ref: "):
            return self.refs().get(value[5:].strip(), "")
        return value

    def reachable(self, start: Iterable[str]) -> set[str]:
        """Ids of this store that can be reached from some ids."""
        seen: set[str] = set()
        waiting = [identity for identity in start if identity in self.objects]
        while waiting:
            identity = waiting.pop()
            if identity in seen:
                continue
            seen.add(identity)
            waiting.extend(link for link in self.objects[identity][1] if link in self.objects)
        return seen


class ImageView:
    """An image as a probe sees it: layers base first, the final file system, config and history."""

    def __init__(self, layers: Sequence[LayerScan], config: Mapping[str, Any], workdir: str) -> None:
        self.layers = layers
        self.config = config
        self.workdir = "/" + workdir.strip("/")

    def below(self, path: str) -> str | None:
        """A path relative to the work directory, or None when it is elsewhere."""
        prefix = self.workdir + "/"
        return path[len(prefix) :] if path.startswith(prefix) else None

    @cached_property
    def final(self) -> dict[str, tuple[int, Entry]]:
        """Path -> (layer, entry) of the file system that a container sees."""
        seen: dict[str, tuple[int, Entry]] = {}
        for number, layer in enumerate(self.layers):
            gone, opaque = self._whiteouts(layer)
            replaced = {
                entry.path for entry in layer.entries if entry.kind != "d" and entry.path in seen
            }
            if gone or opaque or replaced:
                ended = gone | {p for p in replaced if seen[p][1].kind == "d"}
                seen = {
                    path: value
                    for path, value in seen.items()
                    if not _under(path, ended) and not _under(path, opaque, itself=False)
                }
            for entry in layer.entries:
                name = entry.path.rsplit("/", 1)[-1]
                if not name.startswith(".wh."):
                    seen[entry.path] = (number, entry)
        return seen

    def real(self, path: str, depth: int = 20) -> str:
        """Where a path really lies, links followed; the path itself when it is not there."""
        steps, done = path.strip("/").split("/"), ""
        while steps:
            done = f"{done}/{steps.pop(0)}"
            found = self.final.get(done)
            if found is not None and found[1].kind == "l" and depth:
                target = found[1].link
                folder = done.rsplit("/", 1)[0]
                whole = posixpath.normpath(target if target.startswith("/") else f"{folder}/{target}")
                return self.real("/".join([whole, *steps]), depth - 1)
        return done

    def _whiteouts(self, layer: LayerScan) -> tuple[set[str], set[str]]:
        gone: set[str] = set()
        opaque: set[str] = set()
        for entry in layer.entries:
            folder, _, name = entry.path.rpartition("/")
            if name == ".wh..wh..opq":
                opaque.add(folder)
            elif name.startswith(".wh."):
                gone.add(f"{folder}/{name[4:]}")
        return gone, opaque

    def shown(self, path: str, layer: int) -> bool:
        """Whether a container sees this layer's version of a path."""
        found = self.final.get(path)
        return found is not None and found[0] == layer

    def text(self, path: str) -> str | None:
        """A kept control file as the container sees it."""
        found = self.final.get(path)
        return self.layers[found[0]].kept.get(path) if found else None

    def kept(self) -> Iterable[tuple[int, str, str]]:
        """(layer, path, text) of every kept file, hidden versions included."""
        for number, layer in enumerate(self.layers):
            for path, text in layer.kept.items():
                yield number, path, text

    @cached_property
    def repositories(self) -> dict[str, Repository]:
        """Git directories by root path: a folder with HEAD and objects, or one that holds objects."""
        roots: dict[str, Repository] = {}
        for layer in self.layers:
            for store, objects in layer.objects.items():
                roots.setdefault(store, Repository(store)).objects.update(objects)
            for path in layer.kept:
                if path.endswith("/HEAD") and "/logs/" not in path and "/refs/" not in path:
                    root = path[: -len("/HEAD")]
                    if root.endswith(".git") or f"{root}/config" in layer.kept:
                        roots.setdefault(root, Repository(root))
        for number, path, text in self.kept():
            for root, repository in roots.items():
                if path.startswith(root + "/"):
                    place = repository.kept if self.shown(path, number) else repository.ghosts
                    place[path[len(root) + 1 :]] = text
        return roots

    @property
    def repository(self) -> Repository | None:
        """The work directory's own repository."""
        return self.repositories.get(f"{self.workdir}/.git")


def _under(path: str, folders: set[str], *, itself: bool = True) -> bool:
    if not folders:
        return False
    if itself and path in folders:
        return True
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        if path in folders:
            return True
    return "" in folders
