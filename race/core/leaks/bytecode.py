"""Byte-code of fixed code, also when it was renamed: which of the fix's new names a file holds."""

from __future__ import annotations

from collections.abc import Sequence

from race.core.leaks.forms import SEPARATOR
from race.core.leaks.matcher import Matcher
from race.core.leaks.weight import ENOUGH, bits

SHORTEST_WORD = 6
"""Shorter names are too common to be looked for in every file."""


def is_code(data: bytes, name: str) -> bool:
    """Whether this is byte-code, by the magic number of CPython 3 or by its name."""
    return name.endswith((".pyc", ".pyo")) or (
        len(data) > 16 and data[2:4] == b"\r\n" and 0x0B <= data[1] <= 0x0F
    )


def source_size(data: bytes) -> int:
    """The size of the source by the header; -1 when it does not say."""
    if len(data) > 16 and data[4:8] == b"\0\0\0\0":
        return int.from_bytes(data[12:16], "little")
    return -1


def source_of(path: str) -> str:
    """Where the source of a byte-code file has to lie."""
    folder, _, name = path.rpartition("/")
    stem = name.split(".", 1)[0]
    return f"{folder.removesuffix('/__pycache__')}/{stem}.py"


def telling(names: Sequence[str]) -> bool:
    """Whether names that first appear with the fix are evidence together, wherever they are found."""
    return len(names) > 1 and bits([name.encode("latin-1") for name in names]) >= ENOUGH


def names_in(words: frozenset[bytes], data: bytes) -> tuple[str, ...]:
    """Which words are names or constants of some byte-code: their length stands before them."""
    held = (word for word in words if len(word) < 256 and bytes([len(word)]) + word in data)
    return tuple(sorted(word.decode("latin-1") for word in held))


class NameSearch:
    """The same for many files at once, longer words only."""

    def __init__(self, words: frozenset[bytes]) -> None:
        self._words = sorted(word for word in words if SHORTEST_WORD <= len(word) < 256)
        self._matcher = Matcher([bytes([len(word)]) + word for word in self._words])

    def find(self, files: Sequence[bytes]) -> list[tuple[str, ...]]:
        """Per file, which words it holds."""
        held: list[set[str]] = [set() for _ in files]
        ends, at = [], 0
        for data in files:
            at += len(data) + len(SEPARATOR)
            ends.append(at)
        number = 0
        for place, word in sorted(self._matcher.find(SEPARATOR.join(files))):
            while place >= ends[number]:
                number += 1
            held[number].add(self._words[word].decode("latin-1"))
        return [tuple(sorted(names)) for names in held]
