"""Bytes written out as numbers or escapes: dumps of programs, arrays, escaped strings, memory images.

Hexadecimal, octal, decimal and binary dumps with or without addresses and a column of text; Intel HEX
and Motorola S-records; `\\u0041`, `\\x41` and `\\101`.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator

from race.core.leaks.encoded import Run

LEAST = 24
"""Numbers in a row from which they are read as bytes."""

_PAIRS = re.compile(
    rb"(?<![0-9A-Za-z])(?>[0-9a-fA-F]{2}[ :,;\t\r\n-]{1,3}){%d,}[0-9a-fA-F]{2}\b" % LEAST
)
_DECIMAL = re.compile(rb"(?<![0-9A-Za-z.])(?>[0-9]{1,3}[\s,;]{1,16}){%d,}[0-9]{1,3}\b" % LEAST)
_BINARY = re.compile(rb"(?<![0-9])(?>[01]{8}[\s,]{0,3}){%d,}" % LEAST)
_WORDS = rb"((?>[0-9a-fA-F]{2,8}[ \t]{1,3})*[0-9a-fA-F]{2,8})\b"
_LINE = re.compile(rb"^[ \t]{0,8}[0-9a-fA-F]{6,16}:?[ \t]{1,4}" + _WORDS, re.MULTILINE)
_OCTAL_LINE = re.compile(
    rb"^[0-7]{7,16}((?>[ ][0-7]{6}){1,16}|(?>[ ]{1,4}[0-7]{3}){1,32})[ \t]{0,8}$", re.MULTILINE
)
_IHEX = re.compile(
    rb"^:([0-9a-fA-F]{2})[0-9a-fA-F]{4}00([0-9a-fA-F]{2,510})[0-9a-fA-F]{2}\r?$", re.MULTILINE
)
_SREC = re.compile(rb"^S([123])[0-9a-fA-F]{2}([0-9a-fA-F]{8,514})\r?$", re.MULTILINE)
_ESCAPE = re.compile(
    rb"\\\\{0,3}(?:u00([0-9a-fA-F]{2})|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,2})\}|([0-3]?[0-7]{2,3}))"
)
_ESCAPED = frozenset((b"x", b"u", b"0", b"1"))
_PLACES, _LOOK = 16, 512
_FEWEST = 8
"""Escapes from which a text is read with them undone."""


def dump_runs(data: bytes) -> Iterator[Run]:
    """Everything in a text that is written out as numbers or escapes, as bytes."""
    for how, read in _READERS:
        content = read(data)
        if len(content) >= LEAST:
            yield Run(how, 0, content)


def _like_a_dump(data: bytes) -> bool:
    """Whether a text has the digits and the gaps of a dump somewhere: looked at in a few places."""
    step = max(len(data) // _PLACES, _LOOK)
    for at in range(0, len(data), step):
        some = data[at : at + _LOOK]
        digits = len(some) - len(some.translate(None, b"0123456789"))
        gaps = len(some) - len(some.translate(None, b" :,;\t\r\n-"))
        if digits > max(len(some) // 3, LEAST) and gaps * 11 > len(some):
            return True
    return False


def _dumped(data: bytes) -> bytes:
    """Lines of an address and hexadecimal bytes or words, in the order of the text and swapped."""
    pieces, swapped = list[bytes](), list[bytes]()
    for match in _LINE.finditer(data):
        words = match.group(1).split()
        if sum(map(len, words)) % 2 == 0 and all(len(word) % 2 == 0 for word in words):
            pieces.append(binascii.unhexlify(b"".join(words)))
            swapped += [binascii.unhexlify(word)[::-1] for word in words]
    if len(pieces) < 2:
        return b""
    return b"".join(pieces) + b"\n" + b"".join(swapped)


def _octal(data: bytes) -> bytes:
    pieces = list[bytes]()
    for match in _OCTAL_LINE.finditer(data):
        for word in match.group(1).split():
            pieces.append((int(word, 8) & 0xFFFF).to_bytes(2 if len(word) == 6 else 1, "little"))
    return b"".join(pieces)


def _pairs(data: bytes) -> bytes:
    runs = (re.sub(rb"[^0-9a-fA-F]", b"", match.group()) for match in _PAIRS.finditer(data))
    return b"\n".join(binascii.unhexlify(run) for run in runs)


def _decimal(data: bytes) -> bytes:
    runs = list[bytes]()
    for match in _DECIMAL.finditer(data):
        numbers = [int(number) for number in re.findall(rb"[0-9]+", match.group())]
        if all(number < 256 for number in numbers):
            runs.append(bytes(numbers))
    return b"\n".join(runs)


def _binary(data: bytes) -> bytes:
    if (data.count(b"0") + data.count(b"1")) * 3 < len(data):
        return b""
    runs = (re.sub(rb"[^01]", b"", match.group()) for match in _BINARY.finditer(data))
    return b"\n".join(int(run, 2).to_bytes(len(run) // 8, "big") for run in runs)


def _memory(data: bytes) -> bytes:
    """The data of Intel HEX and of Motorola S-records."""
    if data.count(b"\n:") + data.count(b"\nS") < 2:
        return b""
    pieces = [
        binascii.unhexlify(found.group(2)[: 2 * int(found.group(1), 16)])
        for found in _IHEX.finditer(data)
        if len(found.group(2)) == 2 * int(found.group(1), 16)
    ]
    for found in _SREC.finditer(data):
        body = found.group(2)[2 + 2 * int(found.group(1)) : -2]
        pieces.append(binascii.unhexlify(body[: len(body) // 2 * 2]))
    return b"".join(pieces)


def _unescaped(data: bytes) -> bytes:
    after = data.split(b"\\")
    if len(after) <= _FEWEST or sum(piece[:1] in _ESCAPED for piece in after) < _FEWEST:
        return b""

    def meant(match: re.Match[bytes]) -> bytes:
        octal = match.group(4)
        number = int(octal, 8) if octal else int(match.group(1) or match.group(2) or match.group(3), 16)
        return bytes([number & 255])

    content, count = _ESCAPE.subn(meant, data)
    return content if count >= _FEWEST else b""


_NUMBERS: tuple[Callable[[bytes], bytes], ...] = (_dumped, _pairs, _octal, _decimal, _binary)


def _numbers(data: bytes) -> bytes:
    if not _like_a_dump(data):
        return b""
    return b"\n".join(content for read in _NUMBERS if (content := read(data)))


_READERS = (("numbers", _numbers), ("numbers", _memory), ("escapes", _unescaped))
