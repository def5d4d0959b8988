"""What a file's first bytes say it is, which formats are opened, and which are not."""

from __future__ import annotations

import numpy as np

OPENED = (
    "git objects, packs and bundles", "zip and wheels", "tar", "Debian packages", "gzip", "bzip2", "xz",
    "Zstandard", "zlib", "deflate without a header", "SQLite", "HTML and XML",
    "archives and streams behind or within scripts, programs and pictures", "deflated streams of PDF",
    "compressed texts and raw pixels of PNG", "base64", "base32", "hexadecimal",
    "base85, ascii85, Z85 and binary patches of git", "uuencode", "yEnc", "quoted-printable",
    "percent signs", "dumps and arrays of numbers, escapes, Intel HEX and S-records",
    "colours of a terminal", "wide letters, EBCDIC, rot13, rot47, reversed text",
    "files whose every byte was turned by one number",
)  # fmt: skip
"""What is taken apart, in words for the audit's page."""

NOT_OPENED = (
    "7-Zip, RAR, LZ4, lzip, cabinet, xar, compress, squashfs, snappy and what is encrypted by openssl, "
    "PGP, age, Ansible or git-crypt (named where met)",
    "compressed or encoded files of more than 24 MiB (named where met)",
    "files that look random and that no package lists: compressed or encrypted (named where met)",
    "encodings other than these or reversed, ciphers (keys of several bytes, letters in another order), "
    "base85 within binary files, turned bytes that are only a part of a file",
    "streams of zlib within programs and pictures other than PNG, and within a PDF those that are not "
    "deflated",
    "pieces of a fix between whose words other words stand, as in a list of tokens with their places",
    "what is drawn or spoken: a picture of text, a sound, a font",
    "times of change and access, owners and modes of files, times noted in the index of git",
    "bytes between and behind the files in the archive of a layer, which no container shows",
)
"""What is searched as it lies, but not taken apart."""

SKIPPED = b"\x2a\x4d\x18"
"""What follows the first byte of a frame of Zstandard that holds no content."""

_MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"]\x00\x00": "xz",
    b"SQLite format 3\x00": "sqlite",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"!<arch>\ndebian-binary": "ar",
}
_CLOSED = {
    b"7z\xbc\xaf\x27\x1c": "7-zip",
    b"Rar!\x1a\x07": "rar",
    b"\x04\x22\x4d\x18": "lz4",
    b"SQSH": "squashfs",
    b"hsqs": "squashfs",
    b"LZIP": "lzip",
    b"MSCF": "cabinet",
    b"xar!": "xar",
    b"\x1f\x9d": "compress",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
    b"Salted__": "encrypted by openssl",
    b"age-encryption.org/": "encrypted by age",
    b"-----BEGIN AGE ENCRYPTED FILE-----": "encrypted by age",
    b"-----BEGIN PGP MESSAGE-----": "encrypted by PGP",
    b"$ANSIBLE_VAULT;": "encrypted by Ansible",
    b"\0GITCRYPT\0": "encrypted by git-crypt",
    b"LUKS\xba\xbe": "encrypted disk",
}
PROGRAMS = (b"#!", b"\x7fELF", b"MZ")
_FIRST = frozenset(magic[0] for magic in (*_MAGIC, *_CLOSED))


def kind_of(data: bytes) -> str:
    """What a file's first bytes say it is; empty for anything that needs no unpacking."""
    if not data:
        return ""
    first = data[0]
    if first in _FIRST:
        kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "")
        if kind:
            return kind
    if data[257:262] == b"ustar":
        return "tar"
    if data[1:4] == SKIPPED and first >> 4 == 5:
        return "zstd"
    if first in (0x78, 0x58) and len(data) > 2 and (first << 8 | data[1]) % 31 == 0:
        return "zlib"
    return ""


def closed_kind(data: bytes) -> str:
    """The name of a compressed format that cannot be opened here; empty for anything else."""
    if not data or data[0] not in _FIRST:
        return ""
    return next((name for magic, name in _CLOSED.items() if data.startswith(magic)), "")


def pack_start(data: bytes) -> int:
    """Where a git pack starts: at the front, or after a bundle's head; -1 when it is none."""
    if data.startswith(b"PACK\x00\x00\x00"):
        return 0
    if data.startswith((b"# v2 git bundle\n", b"# v3 git bundle\n")):
        end = data.find(b"\n\nPACK")
        return end + 2 if end >= 0 else -1
    return -1


RANDOM = "looks random, compressed or encrypted in a way that is not known: searched as it is"
_MEDIA = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"wOFF", b"wOF2", b"OggS", b"ID3", b"fLaC", b"%PDF",
)  # fmt: skip
_LOOK, _LEAST_RANDOM = 4096, 512
_EVEN = (150.0, 380.0)
"""Between these lies the chi-square of random bytes, but for one time in a hundred thousand; a table of
all bytes is more even than chance."""


def looks_random(data: bytes) -> bool:
    """Whether the beginning of a file of no known kind holds all bytes about equally often, as what
    is compressed or encrypted does."""
    some = data[:_LOOK]
    if (
        len(some) < _LEAST_RANDOM
        or some.isascii()
        or kind_of(data)
        or some.startswith(_MEDIA)
        or b"ftyp" in some[:12]
    ):
        return False
    counts = np.bincount(np.frombuffer(some, dtype=np.uint8), minlength=256)
    expected = len(some) / 256
    return _EVEN[0] < float(((counts - expected) ** 2).sum() / expected) < _EVEN[1]
