"""A git repository as bytes: objects loose and packed, and the index. No git program is run on it."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

LOOSE = re.compile(r"^(?P<store>.*?)/?objects/(?P<a>[0-9a-f]{2})/(?P<b>[0-9a-f]{38}|[0-9a-f]{62})$")
PACK = re.compile(r"^(?P<store>.*?)/?objects/pack/[^/]+\.pack$")
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_CACHE_BYTES = 48 * 2**20
OBJECT_LIMIT = 48 * 2**20


@dataclass(frozen=True)
class GitObject:
    """One object: its id, its kind, its content, and the ids that it points to."""

    id: str
    kind: str
    content: bytes

    @property
    def links(self) -> tuple[str, ...]:
        """Ids that this object names: a commit's tree and parents, a tree's entries, a tag's target."""
        if self.kind == "tree":
            width = len(self.id) // 2
            entries = tree_entries(self.content, width)
            return tuple(identity for _, identity, mode in entries if mode != "160000")
        if self.kind in ("commit", "tag"):
            head = self.content.split(b"\n\n", 1)[0].splitlines()
            names = (b"tree ", b"parent ", b"object ")
            return tuple(line.split()[1].decode() for line in head if line.startswith(names))
        return ()


_OBJECT = re.compile(rb"(blob|commit|tree|tag) (\d+)\0")


def bare_object(content: bytes) -> GitObject | None:
    """An object from its inflated file, wherever that lay; None when it is none."""
    found = _OBJECT.match(content[:32])
    if found is None or int(found.group(2)) != len(content) - found.end():
        return None
    identity = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return GitObject(identity, found.group(1).decode(), content[found.end() :])


def blob_id(data: bytes) -> str:
    """The id that git gives a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def blob_ids(data: bytes) -> str:
    """The two ids that git may give a file's content, by SHA-1 and by SHA-256, in a row."""
    return blob_id(data) + hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest()


def is_blob(ids: str, identity: str) -> bool:
    """Whether an id is one of a content's two."""
    return identity == (ids[:40] if len(identity) == 40 else ids[40:])


def tree_entries(content: bytes, width: int = 20) -> Iterator[tuple[str, str, str]]:
    """(name, id, mode) of a tree object whose ids have so many bytes; a damaged rest is left out."""
    at = 0
    while (space := content.find(b" ", at)) > 0 and (end := content.find(b"\0", space)) > 0:
        mode, name = content[at:space].decode("ascii", "replace"), content[space + 1 : end]
        yield name.decode("utf-8", "replace"), content[end + 1 : end + 1 + width].hex(), mode
        at = end + 1 + width


def loose_object(identity: str, data: bytes) -> GitObject | None:
    """An object from its loose file, or None when the file is damaged."""
    try:
        decoder = zlib.decompressobj()
        raw = decoder.decompress(data, OBJECT_LIMIT)
    except zlib.error:
        return None
    head, _, content = raw.partition(b"\0")
    kind = head.split(b" ")[0].decode("ascii", "replace")
    return GitObject(identity, kind, content) if kind in _KINDS.values() else None


class _Pack:
    """One pack file; objects resolved in file order with a bounded cache of bases."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        usual = hashlib.sha1(data[:-20]).digest() == data[-20:]
        wide = not usual and hashlib.sha256(data[:-32]).digest() == data[-32:]
        self._hash = hashlib.sha256 if wide else hashlib.sha1
        self._width = self._hash().digest_size
        self._cache: OrderedDict[int, tuple[str, bytes]] = OrderedDict()
        self._held = 0
        self._places: dict[str, int] = {}

    def _remember(self, place: int, kind: str, content: bytes) -> None:
        self._cache[place] = (kind, content)
        self._held += len(content)
        while self._held > _CACHE_BYTES and len(self._cache) > 1:
            _, (_, old) = self._cache.popitem(last=False)
            self._held -= len(old)

    def _header(self, at: int) -> tuple[int, int, int]:
        byte = self._data[at]
        number, size, shift = (byte >> 4) & 7, byte & 15, 4
        at += 1
        while byte & 0x80:
            byte = self._data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
        return number, size, at

    def _inflate(self, at: int, size: int) -> tuple[bytes, int]:
        decoder, pieces, step = zlib.decompressobj(), [], size + size // 500 + 128
        while not decoder.eof:
            piece = self._data[at : at + step]
            if not piece:
                raise zlib.error("the pack ends within an object")
            pieces.append(decoder.decompress(piece))
            at += len(piece)
        return b"".join(pieces), at - len(decoder.unused_data)

    def read(self, place: int, depth: int = 0) -> tuple[str, bytes, int]:
        """(kind, content, where the next object starts). KeyError for a base outside the pack."""
        number, size, at = self._header(place)
        base = None
        if number == 6:
            byte = self._data[at]
            at += 1
            back = byte & 0x7F
            while byte & 0x80:
                byte = self._data[at]
                at += 1
                back = ((back + 1) << 7) | (byte & 0x7F)
            base = place - back
        elif number == 7:
            base = self._places.get(self._data[at : at + self._width].hex(), -1)
            at += self._width
        content, end = self._inflate(at, size)
        if base is None:
            kind = _KINDS.get(number, "unknown")
        else:
            if base < 0 or depth > 200:
                raise KeyError(end)
            if base in self._cache:
                kind, whole = self._cache[base]
                self._cache.move_to_end(base)
            else:
                kind, whole, _ = self.read(base, depth + 1)
            content = _patched(whole, content)
        self._remember(place, kind, content)
        return kind, content, end

    def objects(self) -> Iterator[GitObject]:
        count = struct.unpack(">I", self._data[8:12])[0]
        at, waiting = 12, []
        for _ in range(count):
            place = at
            try:
                kind, content, at = self.read(place)
            except KeyError as error:
                at = int(error.args[0])
                waiting.append(place)
                continue
            yield self._named(place, kind, content)
        for _ in range(50):
            left = []
            for place in waiting:
                try:
                    kind, content, _ = self.read(place)
                except KeyError:
                    left.append(place)
                    continue
                yield self._named(place, kind, content)
            if len(left) == len(waiting):
                break
            waiting = left

    def _named(self, place: int, kind: str, content: bytes) -> GitObject:
        head = f"{kind} {len(content)}\0".encode()
        identity = self._hash(head + content).hexdigest()
        self._places[identity] = place
        return GitObject(identity, kind, content)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _patched(base: bytes, delta: bytes) -> bytes:
    _, at = _varint(delta, 0)
    _, at = _varint(delta, at)
    pieces = []
    while at < len(delta):
        code = delta[at]
        at += 1
        if code & 0x80:
            offset = size = 0
            for bit in range(4):
                if code & (1 << bit):
                    offset |= delta[at] << (8 * bit)
                    at += 1
            for bit in range(3):
                if code & (0x10 << bit):
                    size |= delta[at] << (8 * bit)
                    at += 1
            pieces.append(base[offset : offset + (size or 0x10000)])
        else:
            pieces.append(delta[at : at + code])
            at += code
    return b"".join(pieces)


def packed_objects(data: bytes) -> Iterator[GitObject]:
    """Every object of a pack file, deltas resolved. Raises ValueError when the pack is damaged."""
    if data[:4] != b"PACK" or len(data) < 32:
        raise ValueError("no pack")
    try:
        yield from _Pack(data).objects()
    except (zlib.error, IndexError, struct.error) as error:
        raise ValueError(str(error)) from error


def index_entries(data: bytes, width: int = 20) -> list[tuple[str, str]]:
    """(path, blob id) of a git index of version 2, 3 or 4, whose ids have so many bytes; what could
    be read of a damaged one."""
    if data[:4] != b"DIRC" or len(data) < 12:
        return []
    version, count = struct.unpack(">II", data[4:12])
    entries, at, last = [], 12, b""
    for _ in range(min(count, 500_000)):
        if at + 42 + width > len(data):
            break
        identity = data[at + 40 : at + 40 + width].hex()
        flags = struct.unpack(">H", data[at + 40 + width : at + 42 + width])[0]
        start = at + 42 + width + (2 if flags & 0x4000 and version >= 3 else 0)
        if version == 4:
            strip, start = _offset(data, start)
            end = data.find(b"\0", start)
            name = last[: len(last) - strip] + data[start:end]
            at = end + 1
        else:
            end = data.find(b"\0", start)
            name = data[start:end]
            at += (end - at + 8) // 8 * 8
        last = name
        entries.append((name.decode("utf-8", "replace"), identity))
    return entries


def _offset(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value = byte & 0x7F
    while byte & 0x80:
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at
