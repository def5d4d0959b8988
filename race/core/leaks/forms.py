"""Two normal forms in which a piece of code is found again after it was reformatted.

`squeezed` is the text in lower case without white space and NUL: a change of indentation, of line
breaks, of case or of encoding width (UTF-16) does not hide a match. `worded` keeps letters, digits
and underscores only: quotes, escapes, commas and operators do not matter either.
"""

from __future__ import annotations

import re

_LOWER = bytes(c + 32 if 65 <= c <= 90 else c for c in range(256))
_SPACE = b" \t\r\n\x0b\x0c\x00"
_WORD = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_NOT_WORD = bytes(c for c in range(256) if c not in _WORD)
_TOKEN = re.compile(rb"[A-Za-z0-9_]+")

SEPARATOR = b"\x01" * 16
"""Put between files in a batch: no needle holds it."""


def squeezed(data: bytes) -> bytes:
    """The text without white space, in lower case."""
    return data.translate(_LOWER, _SPACE)


def worded(data: bytes) -> bytes:
    """The text's letters, digits and underscores, in lower case."""
    return data.translate(_LOWER, _NOT_WORD)


def tokens(line: bytes) -> list[bytes]:
    """The words of a line, in order and in their own case."""
    return _TOKEN.findall(line)


def excerpt_of(data: bytes, text: bytes, *, width: int = 160) -> tuple[str, bool]:
    """Where `text` lies in `data` up to its formatting, as a printable excerpt; whether exactly."""
    at = data.find(text)
    if at >= 0:
        return printable(data[at : at + max(len(text), 1)], width), True
    words = tokens(text)[:40]
    if words:
        pattern = rb"[^A-Za-z0-9_]{0,200}?".join(re.escape(word) for word in words)
        found = re.search(pattern, data, re.IGNORECASE)
        if found:
            return printable(found.group(), width), False
    return printable(text, width), False


def printable(data: bytes, width: int = 160) -> str:
    """Bytes for a person: one line, no control characters, cut to a width."""
    text = " ".join(data.decode("utf-8", "replace").split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= width else text[: width - 1] + "…"
