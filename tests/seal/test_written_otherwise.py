"""Text written as numbers, escapes, colours or turned letters; streams within other files."""

from __future__ import annotations

import base64
import codecs
import gzip
import io
import json
import lzma
import os
import random
import re
import struct
import subprocess
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from race.core.leaks.layers import Entry, LayerScan
from race.core.leaks.scanner import LayerScanner
from race.core.leaks.unpack import parts

TEXT = (
    b"if amount > before and self._turnstile.locked():\n"
    b"    self._journal.extend(['big step', amount - before])  # and so on, for a while longer\n"
)
SHORT = b"self._journal_entry(amount, before)"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def scanned(workshop, data: bytes, path: str = "/opt/x") -> LayerScan:
    """What a scan keeps of a layer with one file."""
    scanner = LayerScanner(workshop.strict, "/repo")
    scanner.add(Entry(path, "f", len(data), 0, 0o644), data)
    return scanner.finish("sha256:0", 0)


def rows(data: bytes, width: int) -> list[tuple[int, bytes]]:
    """Pieces of a width with their places."""
    return [(at, data[at : at + width]) for at in range(0, len(data), width)]


def xxd(data: bytes) -> bytes:
    """As the program of that name prints."""
    lines = []
    for at, row in rows(data, 16):
        words = " ".join(row.hex()[n : n + 4] for n in range(0, 2 * len(row), 4))
        shown = "".join(chr(c) if 32 <= c < 127 else "." for c in row)
        lines.append(f"{at:08x}: {words:<39}  {shown}\n")
    return "".join(lines).encode()


def hexdump(data: bytes) -> bytes:
    """As `hexdump -C` prints."""
    lines = []
    for at, row in rows(data, 16):
        shown = "".join(chr(c) if 32 <= c < 127 else "." for c in row)
        lines.append(f"{at:08x}  {row[:8].hex(' ')}  {row[8:].hex(' ')}  |{shown}|\n")
    return "".join(lines).encode()


def octal(data: bytes) -> bytes:
    """As `od` prints."""
    return subprocess.run(["od", "-v"], input=data, capture_output=True, check=True).stdout


def intel(data: bytes) -> bytes:
    """Intel HEX."""
    records = [bytes([len(row)]) + struct.pack(">HB", at, 0) + row for at, row in rows(data, 16)]
    return b"".join(b":%s%02X\n" % (r.hex().upper().encode(), -sum(r) & 255) for r in records)


def motorola(data: bytes) -> bytes:
    """S-records."""
    records = [bytes([len(row) + 3]) + struct.pack(">H", at) + row for at, row in rows(data, 16)]
    return b"".join(b"S1%s%02X\n" % (r.hex().upper().encode(), ~sum(r) & 255) for r in records)


def z85(data: bytes) -> bytes:
    """Base85 in the alphabet of ZeroMQ."""
    data += b" " * (-len(data) % 4)
    groups = (int.from_bytes(row, "big") for _, row in rows(data, 4))
    return bytes(_Z85[group // 85 ** (4 - n) % 85] for group in groups for n in range(5))


def binary_patch(data: bytes) -> bytes:
    """A file as git writes it into a binary patch."""
    lines = []
    for _, row in rows(zlib.compress(data), 52):
        size = len(row) + (64 if len(row) <= 26 else 70)
        lines.append(bytes([size]) + base64.b85encode(row, pad=True) + b"\n")
    head = b"diff --git a/x b/x\nGIT binary patch\nliteral %d\n" % len(data)
    return head + b"".join(lines) + b"\n"


def zipped(data: bytes) -> bytes:
    """A zip archive with one member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pool.py", data)
    return buffer.getvalue()


PICTURE = b"\xff\xd8\xff\xe0" + bytes(60) + random.Random(1).randbytes(5000)
PROGRAM = b"\x7fELF" + bytes(3000)

FORMS: dict[str, Callable[[bytes], bytes]] = {
    "xxd": xxd,
    "hexdump": hexdump,
    "octal words": octal,
    "bytes with blanks": lambda d: d.hex(" ").encode(),
    "bytes with colons": lambda d: d.hex(":").encode(),
    "decimal array": lambda d: json.dumps(list(d)).encode(),
    "decimal array, a number a line": lambda d: json.dumps(list(d), indent=2).encode(),
    "binary digits": lambda d: " ".join(f"{c:08b}" for c in d * 9).encode(),
    "Intel HEX": intel,
    "S-records": motorola,
    "escapes of JSON": lambda d: b'"' + b"".join(b"\\u%04x" % c for c in d) + b'"',
    "escapes of a shell": lambda d: b"printf '" + b"".join(b"\\%03o" % c for c in d) + b"'",
    "blanks escaped only": lambda d: d.replace(b" ", b"\\u0020"),
    "base32 in small letters": lambda d: base64.b32encode(d).lower(),
    "base32 with its other alphabet": base64.b32hexencode,
    "Z85": z85,
    "binary patch of git": binary_patch,
    "colours": lambda d: re.sub(rb"(\w+)", b"\x1b[38;5;12m\\1\x1b[0m", d),
    "tags without a page": lambda d: (
        b"<div>" + re.sub(rb"(\w+)", b"<span class='n'>\\1</span>", d) + b"</div>"
    ),
    "wide letters": lambda d: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in d.decode()
    ).encode(),
    "EBCDIC": lambda d: d.decode().encode("cp037"),
    "rot13": lambda d: codecs.encode(d.decode(), "rot13").encode(),
    "backwards": lambda d: d[::-1],
    "each line backwards": lambda d: b"\n".join(line[::-1] for line in d.split(b"\n")),
    "one short line in base64": lambda _: base64.b64encode(b"#" + SHORT),
    "one short line in hexadecimal": lambda _: SHORT.hex().encode(),
    "a short line, compressed, in base64": lambda _: base64.b64encode(gzip.compress(SHORT)),
    "gzip behind a program": lambda d: PROGRAM + gzip.compress(d),
    "xz behind a program": lambda d: PROGRAM + lzma.compress(d),
    "zstd behind a program": lambda d: PROGRAM + zstandard.ZstdCompressor().compress(d),
    "zip behind a picture": lambda d: PICTURE + zipped(d),
    "zip without its list": lambda d: zipped(d)[:-60],
    "first of two zips": lambda d: zipped(d) + zipped(b"nothing"),
    "second stream of zlib": lambda d: zlib.compress(b"first") + zlib.compress(d),
    "zstd behind an empty frame": lambda d: (
        b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstandard.ZstdCompressor().compress(d)
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_found(name: str, workshop) -> None:
    """The text is found in every form, and not by chance: it does not stand there as it is."""
    data = FORMS[name](TEXT)
    assert TEXT[:40] not in data
    hits = scanned(workshop, data).hits
    assert {workshop.strict.fragments[n].source for hit in hits for n, _, _ in hit.found} == {"fix"}


@pytest.mark.parametrize(
    "spelled",
    [
        "the test named test concurrent additions are kept",
        "test-concurrent-additions-are-kept",
        "TestConcurrentAdditionsAreKept",
        "bin\0test_concurrent_additions_are_kept\0",
        "word\0test_concurrent_additions_are_kept",
        base64.b64encode(b"test_concurrent_additions_are_kept").decode(),
        base64.b64encode(b"x test_concurrent_additions_are_kept").decode(),
        b"test_concurrent_additions_are_kept".hex(),
    ],
)
def test_a_hidden_test_s_name_is_found_in_other_spellings(spelled: str, workshop) -> None:
    """Words, dashes, capitals, a text before it that ends with a zero, short encoded text."""
    names = {
        workshop.strict.fragments[n].text
        for hit in scanned(workshop, spelled.encode()).hits
        for n, _, _ in hit.found
    }
    assert b"test_concurrent_additions_are_kept" in names


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Salted__" + os.urandom(900), "encrypted by openssl"),
        (b"age-encryption.org/v1\n" + os.urandom(900), "encrypted by age"),
        (b"-----BEGIN PGP MESSAGE-----\n\nhQ" + b"x" * 90, "encrypted by PGP"),
        (b"\xff\x06\x00\x00sNaPpY" + os.urandom(900), "snappy"),
        (random.Random(3).randbytes(4000), "looks random"),
    ],
)
def test_what_nobody_can_open_is_said(data: bytes, said: str, workshop) -> None:
    """What is encrypted or looks like it is named as not searched inside."""
    assert [why.startswith(said) for _, why in scanned(workshop, data).unread] == [True]


@pytest.mark.parametrize("data", [PICTURE, PROGRAM, TEXT * 90, bytes(range(256)) * 8])
def test_pictures_and_programs_are_not_said_to_be_unread(data: bytes, workshop) -> None:
    """Only what looks random and is of no known kind is named."""
    assert not scanned(workshop, data).unread


@pytest.mark.parametrize(
    "data",
    [
        b"12" + b" " * 50_000 + b"13",
        b"\\" * 200_000,
        b"1, " * 100_000,
        b"00 " * 100_000 + b"x",
        b"0000000 " + b"123 " * 60_000,
        b"S1" + b"0" * 200_000,
        b"<" * 200_000,
        b"PK\x03\x04" * 40_000,
        b"\0" + b"\x1f\x8b\x08" * 40_000,
        (b"\x1b[" + b"0" * 999) * 200,
        b"GIT binary patch\nliteral 1\n" + b"zAAAAA\n" * 30_000,
    ],
)
def test_no_text_takes_long(data: bytes) -> None:
    """What looks like the beginning of many things is given up soon."""
    started = time.process_time()
    for _ in parts(data):
        pass
    assert time.process_time() - started < 2


def test_the_rest_of_a_text_of_numbers_is_no_dump(tmp_path: Path) -> None:
    """Tables of measurements, versions and sums are not read as bytes of anything that is sought."""
    table = "\n".join(f"{n} {n * n} {n / 7:.3f}" for n in range(300)).encode()
    assert not [part for part in parts(table) if b"turnstile" in part.data]
