"""The fixed file packed and encoded in an image: each found by the right probe at its place."""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import json
import lzma
import quopri
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path

import zstandard
from sabotage import (
    Kit,
    Sabotages,
    drop,
    nested,
    registering,
    tarred,
    zipped,
)

SABOTAGES: Sabotages = {}
sabotage = registering(SABOTAGES)


def _packed(name: str, place: str, path: str, pack: Callable[[str], bytes]) -> None:
    def spoil(root: Path, kit: Kit) -> None:
        drop(path.lstrip("/"), pack(kit.counter))(root, kit)

    SABOTAGES[name] = (place, path, spoil)


_packed("gzip", "archives", "/opt/a.gz", lambda text: gzip.compress(text.encode()))
_packed("bzip2", "archives", "/opt/a.bz2", lambda text: bz2.compress(text.encode()))
_packed("xz", "archives", "/opt/a.xz", lambda text: lzma.compress(text.encode()))
_packed("zip", "archives", "/opt/a.bin", lambda text: zipped({"x": text}))
_packed("tar", "archives", "/opt/a.tar", lambda text: tarred({"x": text}, "w"))
_packed(
    "wheel in a tar in gzip", "archives", "/opt/a.tgz",
    lambda text: gzip.compress(nested(zipped({"x": text}))),
)  # fmt: skip
_packed("base64", "encoded", "/opt/a.txt", lambda text: base64.encodebytes(text.encode()))
_packed(
    "gzip in base64 in JSON", "encoded", "/opt/a.json",
    lambda text: json.dumps({"k": base64.b64encode(gzip.compress(text.encode())).decode()}).encode(),
)  # fmt: skip
_packed(
    "zstandard",
    "archives",
    "/opt/a.zst",
    lambda text: zstandard.ZstdCompressor().compress(text.encode()),
)
_packed(
    "base64 in short indented lines", "encoded", "/opt/a.yaml",
    lambda text: textwrap.indent(
        textwrap.fill(base64.b64encode(text.encode()).decode(), 40), "  "
    ).encode(),
)  # fmt: skip
_packed(
    "zip behind a script", "archives", "/usr/local/bin/tool",
    lambda text: b"#!/usr/bin/env python3\n" + zipped({"__main__.py": text}),
)  # fmt: skip
_packed("base85", "encoded", "/opt/a.b85", lambda text: base64.b85encode(text.encode()))
_packed("ascii85", "encoded", "/opt/a.a85", lambda text: base64.a85encode(text.encode(), adobe=True))
_packed(
    "uuencode", "encoded", "/opt/a.uu",
    lambda text: b"begin 644 counter.py\n" + b"".join(
        binascii.b2a_uu(text.encode()[at : at + 45]) for at in range(0, len(text), 45)
    ) + b"`\nend\n",
)  # fmt: skip
_packed(
    "quoted-printable", "encoded", "/opt/a.eml",
    lambda text: quopri.encodestring(text.encode(), quotetabs=True),
)  # fmt: skip
_packed(
    "stream of a PDF", "archives", "/opt/a.pdf",
    lambda text: b"%PDF-1.7\n1 0 obj << >> stream\n" + zlib.compress(text.encode()) + b"\nendstream\n",
)  # fmt: skip
_packed("hexadecimal", "encoded", "/opt/a.hex", lambda text: text.encode().hex().encode())
