"""Reads a tar archive as it streams by, in bounded memory.

The standard library's reader spends more time on a header than a scan of a small file takes; this
one reads what container engines write: ustar, GNU long names, pax headers, base-256 sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from race.errors import Accident

BLOCK = 512


class ByteReader:
    """Exact reads from an iterator of byte chunks. `seen` is told every byte once (for a digest)."""

    def __init__(self, chunks: Iterator[bytes], seen: Callable[[bytes], Any] | None = None) -> None:
        self._chunks = chunks
        self._seen = seen
        self._chunk = b""
        self._at = 0

    def some(self, limit: int) -> bytes:
        """Up to `limit` bytes, at least one unless the stream has ended."""
        while self._at >= len(self._chunk):
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            if self._seen is not None:
                self._seen(chunk)
            self._chunk, self._at = chunk, 0
        if self._at == 0 and limit >= len(self._chunk):
            piece = self._chunk
        else:
            piece = self._chunk[self._at : self._at + limit]
        self._at += len(piece)
        return piece

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes, fewer only at the end of the stream."""
        piece = self.some(size)
        if len(piece) == size:
            return piece
        pieces, left = [piece], size - len(piece)
        while left and (piece := self.some(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes as they come."""
        while size and (piece := self.some(min(size, 2**20))):
            size -= len(piece)
            yield piece

    def skip(self, size: int) -> None:
        """Pass over bytes."""
        for _ in self.pieces(size):
            pass

    def rest(self) -> None:
        """Pass over everything that is left."""
        while self.some(2**20):
            pass


@dataclass
class TarMember:
    """One member; its content must be taken from `reader` before the next is asked for."""

    name: str
    kind: str
    size: int
    mtime: float
    mode: int
    link: str
    reader: ByteReader
    attributes: bytes = b""
    """Extended attributes, comments and the like that stand in the member's header."""

    taken: bool = False

    def content(self) -> bytes:
        """The whole content."""
        self.taken = True
        return self.reader.read(self.size)

    def pieces(self) -> Iterator[bytes]:
        """The content as it streams."""
        self.taken = True
        return self.reader.pieces(self.size)


_OWN = frozenset(("path", "linkpath", "size", "mtime", "atime", "ctime", "uid", "gid", "hdrcharset"))
"""What a pax header says of a member itself; everything else is somebody's remark."""

_KINDS = {"1": "h", "2": "l", "3": "o", "4": "o", "5": "d", "6": "o"}
"""What is not a file; every other kind has content, as a file has, and is read as one."""

_SPARSE_MORE, _SPARSE_BLOCK_MORE = 482, 504
"""Where a head of GNU's sparse files, and a block after it, says that another block follows."""


def members(reader: ByteReader) -> Iterator[TarMember]:
    """Members of a tar archive, in order. Raises Accident when the stream is no tar or breaks off."""
    long_name = long_link = ""
    pax: dict[str, bytes] = {}
    said = b""
    while True:
        head = reader.read(BLOCK)
        if len(head) < BLOCK or head == bytes(BLOCK):
            return
        size, flag = _number(head[124:136]), chr(head[156])
        if flag in "LKxg":
            data = reader.read(size)
            reader.skip(-size % BLOCK)
            if len(data) < size:
                raise Accident("the image's stream broke off; run again")
            if flag == "g":
                said = _said(_pax(data))
            elif flag == "L":
                long_name = _text(data.rstrip(b"\0"))
            elif flag == "K":
                long_link = _text(data.rstrip(b"\0"))
            elif flag == "x":
                pax = _pax(data)
            continue
        name = head[:100].split(b"\0", 1)[0]
        if head[257:263] == b"ustar\0" and head[345:346] != b"\0":
            name = head[345:500].split(b"\0", 1)[0] + b"/" + name
        try:
            size = int(pax.get("size", size))
            changed = _moment(pax["mtime"]) if "mtime" in pax else _number(head[136:148])
        except ValueError as error:
            raise Accident("the engine's stream is no tar archive") from error
        kind = _KINDS.get(flag, "f")
        more = flag == "S" and head[_SPARSE_MORE] != 0
        while more:
            block = reader.read(BLOCK)
            more = len(block) == BLOCK and block[_SPARSE_BLOCK_MORE] != 0
        member = TarMember(
            name=_text(pax.get("GNU.sparse.name") or pax.get("path", b"")) or long_name or _text(name),
            kind=kind,
            size=size if kind == "f" else 0,
            mtime=changed,
            mode=_number(head[100:108]),
            link=_text(pax.get("linkpath", b"")) or long_link or _text(head[157:257].split(b"\0", 1)[0]),
            reader=reader,
            attributes=b"\n".join(filter(None, (said, _said(pax)))),
        )
        said = b""
        long_name = long_link = ""
        pax = {}
        yield member
        if not member.taken:
            reader.skip(member.size)
        reader.skip(-member.size % BLOCK)


def _said(pax: dict[str, bytes]) -> bytes:
    """What a header says beside the member's own facts: of one member, or of all that follow."""
    return b"\n".join(
        key.encode() + b"=" + value
        for key, value in pax.items()
        if key not in _OWN and not key.startswith("GNU.sparse.")
    )


def _moment(text: bytes) -> float:
    """Seconds, with their fraction when there is one."""
    moment = float(text)
    return int(moment) if moment.is_integer() else moment


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.split(b"\0", 1)[0].strip()
    try:
        return int(text, 8) if text else 0
    except ValueError as error:
        raise Accident("the engine's stream is no tar archive") from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _pax(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at)
        if space < 0 or not data[at:space].isdigit():
            break
        length = int(data[at:space])
        key, _, value = data[space + 1 : at + length - 1].partition(b"=")
        found[key.decode("utf-8", "replace")] = value
        at += max(length, 1)
    return found
