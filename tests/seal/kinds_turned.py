"""Sabotaged images: turned bytes, streams without a header, texts of pictures, bare byte-code."""

from __future__ import annotations

import py_compile
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from sabotage import Kit, Sabotages, drop

SABOTAGES: Sabotages = {}


def rot47(text: str) -> bytes:
    """Each shown character moved by half of their number."""
    return "".join(chr(33 + (ord(c) + 14) % 94) if 33 <= ord(c) < 127 else c for c in text).encode()


def yenc(text: str) -> bytes:
    """As newsgroups carry files."""
    data = bytes((c + 42) & 255 for c in text.encode())
    for special in (61, 0, 10, 13):
        data = data.replace(bytes([special]), b"=" + bytes([(special + 64) & 255]))
    rows = b"\r\n".join(data[at : at + 128] for at in range(0, len(data), 128))
    return b"=ybegin line=128 size=%d name=counter.py\r\n" % len(text) + rows + b"\r\n=yend size=1\r\n"


def deflated(text: str) -> bytes:
    """A deflated stream without any header."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(text.encode()) + packer.flush()


def noise(size: int) -> str:
    """Text that packs badly, so that what is packed is long enough to look random."""
    draw = random.Random(size)
    return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz \n") for _ in range(size))


def chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def picture(*chunks: bytes) -> bytes:
    """A PNG of one grey point, with further chunks."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            head,
            *chunks,
            chunk(b"IDAT", zlib.compress(b"\0\0")),
            chunk(b"IEND", b""),
        )
    )


def drawn(text: str) -> bytes:
    """A PNG whose points are a text."""
    row = b"\0" + text.encode()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", len(row) - 1, 1, 8, 0, 0, 0, 0))
    packed = zlib.compress(row)
    points = [chunk(b"IDAT", packed[at : at + 99]) for at in range(0, len(packed), 99)]
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(points) + chunk(b"IEND", b"")


FORMS: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "rot47": ("encoded", rot47),
    "xor with one byte": ("encoded", lambda text: bytes(c ^ 0x5A for c in text.encode())),
    "xor with a high byte": ("encoded", lambda text: bytes(c ^ 0xC3 for c in text.encode())),
    "a number added to each byte": (
        "encoded", lambda text: bytes((c + 77) & 255 for c in text.encode())
    ),
    "yEnc": ("encoded", yenc),
    "deflate without a header": ("archives", deflated),
    "deflate without a header, stored": (
        "archives",
        lambda text: b"\x01" + struct.pack("<HH", len(text), len(text) ^ 65535) + text.encode(),
    ),
    "deflate behind a head of its own": (
        "archives", lambda text: b"FORMAT\x01\0\0\xff" + deflated(text + noise(9000))
    ),
    "zlib within another program's file": (
        "archives",
        lambda text: b"\x80\x04\x95" + bytes(8) + zlib.compress((text + noise(9000)).encode()),
    ),
    "compressed text of a PNG": (
        "archives", lambda text: picture(chunk(b"zTXt", b"Comment\0\0" + zlib.compress(text.encode())))
    ),
    "international text of a PNG": (
        "archives",
        lambda text: picture(chunk(b"iTXt", b"Comment\0\1\0en\0Note\0" + zlib.compress(text.encode()))),
    ),
    "international text of a PNG, no language": (
        "archives",
        lambda text: picture(chunk(b"iTXt", b"Comment\0\1\0\0\0" + zlib.compress(text.encode()))),
    ),
    "colour profile of a PNG": (
        "archives", lambda text: picture(chunk(b"iCCP", b"sRGB\0\0" + zlib.compress(text.encode())))
    ),
    "plain text of a PNG": ("elsewhere", lambda text: picture(chunk(b"tEXt", b"C\0" + text.encode()))),
    "points of a PNG": ("archives", drawn),
    "a script with a stream far behind": (
        "archives", lambda text: b"# notes\n" * 400 + zlib.compress(b"") + b"\x1f\x8b\x08\0\0\0\0\0\0\3"
        + deflated(text) + struct.pack("<II", zlib.crc32(text.encode()), len(text))
    ),
}  # fmt: skip

for _name, (_probe, _form) in FORMS.items():
    SABOTAGES[_name] = (
        _probe, "/opt/a.bin",
        lambda root, kit, form=_form: drop("opt/a.bin", form(kit.counter))(root, kit),
    )  # fmt: skip


def bare(root: Path, kit: Kit) -> None:
    """Byte-code without docstrings, under a name that says nothing."""
    source = root / "counter.py"
    source.write_text(kit.counter)
    (root / "srv").mkdir()
    py_compile.compile(str(source), cfile=str(root / "srv/m"), optimize=2, doraise=True)
    source.unlink()


SABOTAGES["byte-code without docstrings, renamed"] = ("byte-code", "/srv/m", bare)
