"""One layer's files in, one LayerScan out. Files are searched in batches; memory stays bounded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from race.core.leaks.bytecode import is_code, names_in, source_size, telling
from race.core.leaks.disguise import UNDO
from race.core.leaks.encoded import SHORTEST_RUN
from race.core.leaks.forms import excerpt_of, printable
from race.core.leaks.fragments import Fragment, Wanted
from race.core.leaks.gitstore import (
    LOOSE,
    PACK,
    GitObject,
    bare_object,
    blob_ids,
    loose_object,
    packed_objects,
)
from race.core.leaks.hidden import headerless
from race.core.leaks.kinds import RANDOM, closed_kind, kind_of, looks_random, pack_start
from race.core.leaks.layers import Compiled, Entry, Hit, LayerScan
from race.core.leaks.needles import Needles
from race.core.leaks.places import is_cache, is_control
from race.core.leaks.shapes import SUFFIXES
from race.core.leaks.unpack import parts
from race.core.leaks.weight import bits

BATCH_BYTES = 2 * 2**20
BATCH_FILES = 600
WHOLE_LIMIT = 24 * 2**20
"""A file up to this size is held in memory and unpacked; a larger one is searched as it streams."""

DEPTH = 6
MOST_PARTS = 50_000
MOST_BYTES = 2**31
"""What one file may unpack to, all its parts together."""

NAMED_ENOUGH = 14.0
"""Bits of the fix's new names from which a cache tells that only names the file: more than one word."""

EXCERPTS = 6
OBJECTS_LIMIT = 400_000
_OVERLAP = 8192

_KEPT_LIMIT = 8 * 2**20


def windows(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of a large file in windows that overlap, so that nothing lies across two."""
    tail, held, size = b"", list[bytes](), 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BATCH_BYTES:
            window = b"".join((tail, *held))
            yield window
            tail, held, size = window[-_OVERLAP:], [], 0
    if held:
        yield b"".join((tail, *held))


@dataclass
class _Item:
    """A file or a part of one, waiting to be searched."""

    path: str
    inside: str
    how: tuple[str, ...]
    data: bytes
    git_id: str = ""

    @property
    def name(self) -> str:
        """The name of the file, or of the innermost part."""
        return (self.inside or self.path).rsplit("!", 1)[-1].rsplit("/", 1)[-1]


class LayerScanner:
    """Collects what matters of the files of one layer. `add` each, then `finish`."""

    def __init__(self, wanted: Wanted, workdir: str, *, needles: Needles | None = None) -> None:
        self._wanted = wanted
        self._fragments = wanted.fragments
        self._needles = needles or Needles.of(wanted)
        self._workdir = "/" + workdir.strip("/") + "/"
        self._names = tuple(fragment.text for fragment in wanted.names)
        self._touched = {self._workdir + p for p in wanted.product_paths | wanted.test_paths}
        self._stems = {
            p.rsplit("/", 1)[-1].rsplit(".", 1)[0] for p in wanted.product_paths | wanted.test_paths
        }
        self._tails = sorted(
            "/".join(p.rsplit(".", 1)[0].split("/")[-2:]) for p in wanted.product_paths if "/" in p
        )
        self._sources = [
            (f"/{p.rsplit('/', 1)[-1]}".encode(), p.rsplit("/", 1)[-1].rsplit(".", 1)[0])
            for p in sorted(wanted.product_paths)
            if p.endswith(".py") and not p.endswith("/__init__.py")
        ]
        self._batch: list[_Item] = []
        self._bytes = 0
        self.most_parts = MOST_PARTS
        self._codes: list[_Item] = []
        self._parts_left, self._bytes_left, self._told = self.most_parts, MOST_BYTES, False
        self.scan = LayerScan(digest="")

    def add(self, entry: Entry, data: bytes | None, attributes: bytes = b"") -> None:
        """One path, with its content when it is a regular file of at most WHOLE_LIMIT bytes, and
        what its header holds beside."""
        if attributes:
            self._take(_Item(entry.path, "attributes", ("attributes",), attributes), DEPTH)
        if data is None:
            self.scan.entries.append(entry)
            return
        if entry.path.startswith(self._workdir) and "/.git/" not in entry.path:
            entry = replace(entry, blob=blob_ids(data))
        self.scan.entries.append(entry)
        if len(data) <= _KEPT_LIMIT and (entry.path in self._touched or is_control(entry.path)):
            self.scan.kept[entry.path] = data.decode("latin-1")
        self._parts_left, self._bytes_left, self._told = self.most_parts, MOST_BYTES, False
        self._take(_Item(entry.path, "", (), data), DEPTH)

    def add_stream(self, entry: Entry, pieces: Iterable[bytes]) -> None:
        """A file that is too large to hold: searched piece by piece, not unpacked."""
        found: dict[int, tuple[str, bool]] = {}
        first = b""
        for window in windows(pieces):
            first = first or window[:512]
            for number, told in self.window(window).items():
                found.setdefault(number, told)
        self.streamed(entry, first, found)

    def window(self, window: bytes) -> dict[int, tuple[str, bool]]:
        """Fragments in a piece of a large file: number -> (excerpt, exact)."""
        found, disguised = self._needles.found([window])
        held = {
            number: self._excerpt(number, window)
            for number in found.get(0, ())
            if self._holds(self._fragments[number], window)
        }
        for how in sorted(disguised.get(0, ())):
            plain = UNDO[how](window, self._names)
            held |= {
                number: (self._excerpt(number, plain)[0], False)
                for number in self._needles.found([plain])[0].get(0, ())
                if number not in held and self._holds(self._fragments[number], plain)
            }
        return held

    def streamed(self, entry: Entry, first: bytes, found: dict[int, tuple[str, bool]]) -> None:
        """A large file that was searched in windows, with what they gave."""
        self.scan.entries.append(entry)
        if found:
            listed = tuple((n, *found[n]) for n in sorted(found))
            self.scan.hits.append(Hit(entry.path, "", (), listed))
        kind = kind_of(first) or closed_kind(first) or ("git pack" if pack_start(first) == 0 else "")
        kind = kind or ("" if b"\0" in first else "text")
        if kind:
            why = f"{kind} of {entry.size} bytes: searched as it is, too large to be unpacked"
            self.scan.unread.append((entry.path, why))

    def finish(self, digest: str, size: int) -> LayerScan:
        """Search what is left and give the scan."""
        while self._batch or self._codes:
            self._flush()
        self._paths()
        self.scan.digest, self.scan.size = digest, size
        return self.scan

    def _paths(self) -> None:
        """Pieces of the fix and names of hidden tests in the names of files and the targets of links."""
        texts = [(e.path, text.encode()) for e in self.scan.entries for text in (e.path, e.link) if text]
        for index, numbers in self._needles.found([text for _, text in texts])[0].items():
            path, text = texts[index]
            real = sorted(n for n in numbers if self._holds(self._fragments[n], text))
            if real and path not in self._touched:
                listed = tuple((n, text.decode(), True) for n in real)
                self.scan.hits.append(Hit(path, "", ("path",), listed))

    def _take(self, item: _Item, depth: int) -> None:
        """Queue an item, and what lies inside it."""
        self._batch.append(item)
        self._bytes += len(item.data)
        self._compiled(item)
        if self._bytes >= BATCH_BYTES or len(self._batch) >= BATCH_FILES:
            self._flush()
        if depth == 0:
            kind = kind_of(item.data)
            if kind and kind != "zlib":
                self._unread(item, f"{kind} within {DEPTH} others: searched as it is, but not unpacked")
            return
        loose = LOOSE.match(item.path) if not item.inside else None
        if loose:
            found = loose_object(loose["a"] + loose["b"], item.data)
            if found:
                self._git_object(item, loose["store"], found, depth)
                return
        start = pack_start(item.data)
        if start >= 0:
            pack = PACK.match(item.path) if not item.inside else None
            try:
                for found in packed_objects(item.data[start:]):
                    self._git_object(item, pack["store"] if pack else "", found, depth)
            except ValueError as error:
                self._unread(item, f"a damaged pack: {error}")
            return
        closed = closed_kind(item.data)
        if closed:
            self._unread(item, f"{closed}: searched as it is, but not unpacked")
        elif not item.inside and looks_random(item.data) and not headerless(item.data, 2**16):
            self._unread(item, RANDOM)
        if len(item.data) < SHORTEST_RUN and not kind_of(item.data):
            return
        for part in parts(item.data):
            self._parts_left -= 1
            self._bytes_left -= len(part.data)
            if self._parts_left < 0 or self._bytes_left < 0:
                if not self._told:
                    why = "unpacks to more than is searched of one file"
                    self.scan.unread.append((item.path, why))
                self._told = True
                return
            if part.cut:
                self._unread(item, f"{part.how} {part.name}: not read whole")
            bare = bare_object(part.data) if part.how == "zlib" else None
            if bare is not None:
                self._git_object(item, "", bare, depth)
            elif part.data:
                inside = f"{item.inside}!{part.name}" if item.inside else part.name
                self._take(_Item(item.path, inside, (*item.how, part.how), part.data), depth - 1)

    def _unread(self, item: _Item, why: str) -> None:
        path = f"{item.path}!{item.inside}" if item.inside else item.path
        self.scan.unread.append((path, why))

    def _git_object(self, item: _Item, store: str, found: GitObject, depth: int) -> None:
        kept = self.scan.objects.setdefault(store, {}) if store else {}
        if len(kept) < OBJECTS_LIMIT:
            kept[found.id] = (found.kind, found.links)
        content = found.content
        if found.kind == "tree":
            return
        name, how = f"{found.kind} {found.id}", (*item.how, "git-object")
        inside = f"{item.inside}!{name}" if item.inside else name
        self._take(_Item(item.path, inside, how, content, found.id), depth - 1)

    def _flush(self) -> None:
        """Search the batch."""
        batch, self._batch, self._bytes = self._batch, [], 0
        found, disguised = self._needles.found([item.data for item in batch])
        for index, item in enumerate(batch):
            for how in sorted(disguised.get(index, set()) - set(item.how)):
                self._undo(item, how)
            numbers = found.get(index, set())
            if self._needles.shapes and item.name.endswith(SUFFIXES):
                numbers = numbers | set(self._needles.shapes.find(item.data))
            if numbers:
                self._record(item, numbers)
        codes, self._codes = self._codes, []
        for item, names in zip(codes, self._needles.names.find([c.data for c in codes]), strict=True):
            if telling(names):
                self._keep_compiled(item, names, item.name.split(".", 1)[0])

    def _undo(self, item: _Item, how: str) -> None:
        """Queue what a text says without a disguise in which a line or name was found."""
        plain = UNDO[how](item.data, self._names)
        if plain:
            inside = f"{item.inside}!{how}" if item.inside else how
            self._batch.append(_Item(item.path, inside, (*item.how, how), plain, item.git_id))

    def _record(self, item: _Item, numbers: set[int]) -> None:
        real = sorted(n for n in numbers if self._holds(self._fragments[n], item.data))
        if not real:
            return
        listed = [(n, *self._excerpt(n, item.data)) for n in real[:EXCERPTS]]
        listed += [(n, "", False) for n in real[EXCERPTS:]]
        self.scan.hits.append(
            Hit(
                item.path,
                item.inside,
                item.how,
                tuple(listed),
                sha256=hashlib.sha256(item.data).hexdigest(),
                md5=hashlib.md5(item.data, usedforsecurity=False).hexdigest(),
                git_id=item.git_id,
            )
        )

    def _holds(self, fragment: Fragment, data: bytes) -> bool:
        """A name counts only as a whole word; in byte-code its length stands before it."""
        if fragment.form != "name":
            return True
        before = b"" if fragment.text.startswith(b":") else rb"(?<![A-Za-z0-9_])"
        pattern = before + re.escape(fragment.text) + rb"(?![A-Za-z0-9_])"
        if any(re.search(pattern, text, re.IGNORECASE) for text in (data, data.replace(b"\0", b""))):
            return True
        return len(fragment.text) < 256 and bytes([len(fragment.text)]) + fragment.text in data

    def _excerpt(self, number: int, data: bytes) -> tuple[str, bool]:
        if self._fragments[number].form == "shape":
            return printable(self._needles.shapes.find(data).get(number, b"")), False
        return excerpt_of(data, self._fragments[number].text)

    def _compiled(self, item: _Item) -> None:
        """Byte-code and caches of touched files: the source's size and the fix's new names. Byte-code
        of other names waits to be searched with others."""
        name = item.name
        code = is_code(item.data, name)
        if not code and (not is_cache(item.path) or "git-object" in item.how):
            return
        stem, least = name.split(".", 1)[0], 0.0
        if stem not in self._stems:
            least = NAMED_ENOUGH
            if code:
                source = self._source_named(item.data)
                known = names_in(self._wanted.identifiers, item.data) if source else ()
                if len(known) > 1:
                    self._keep_compiled(item, known, source)
                else:
                    self._codes.append(item)
                return
            stem = next(
                (tail.rsplit("/", 1)[-1] for tail in self._tails if tail.encode() in item.data), ""
            )
            if not stem:
                return
        words = self._wanted.identifiers
        if code:
            self._keep_compiled(item, names_in(words, item.data), stem)
        else:
            held = sorted(word for word in words if _whole(word, item.data))
            if bits(held) >= least:
                self._keep_compiled(item, tuple(word.decode("latin-1") for word in held), stem)

    def _source_named(self, code: bytes) -> str:
        """The stem of the patched file that byte-code says it was compiled from."""
        return next((stem for name, stem in self._sources if name in code), "")

    def _keep_compiled(self, item: _Item, names: tuple[str, ...], stem: str) -> None:
        code = is_code(item.data, item.name)
        size = source_size(item.data) if code else -1
        self.scan.compiled.append(Compiled(item.path, item.inside, stem, size, names, code))


def _whole(word: bytes, data: bytes) -> bool:
    """Whether a cache holds a word that is not a part of a longer one."""
    at = data.find(word)
    while at >= 0:
        around = data[at - 1 : at] + data[at + len(word) : at + len(word) + 1]
        if not any(chr(c).isalnum() or c == 95 for c in around):
            return True
        at = data.find(word, at + 1)
    return False
