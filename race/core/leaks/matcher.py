"""Finds any of thousands of needles in a large haystack at memory speed.

A needle of at least 15 bytes holds, for each of the eight alignments, one whole 8-byte block that
starts at a multiple of eight in the haystack. So only every eighth position needs a look: the block
there is looked up in a bit table, then in the sorted list of the needles' blocks, then compared in
full. Needles of 7 to 14 bytes go through the same filter with 4-byte blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

MINIMUM = 7
"""Bytes of the shortest needle that can be found."""

_BITS = range(14, 21)
"""Sizes of the bit table: the smallest with 64 places for each block, so that it stays in the cache."""

_AT_ONCE = 2**17
"""Blocks that are looked at together, so that what is reckoned for them takes little memory."""

_MULTIPLIER = {8: 0x9E3779B97F4A7C15, 4: 0x9E3779B1}


class _Filter:
    """Needles of one block width."""

    def __init__(self, width: int, needles: Sequence[tuple[int, bytes]]) -> None:
        self._width = width
        self._type = np.dtype("<u8" if width == 8 else "<u4")
        blocks: dict[int, list[tuple[int, bytes, int]]] = {}
        for number, needle in needles:
            for offset in range(width):
                value = int.from_bytes(needle[offset : offset + width], "little")
                blocks.setdefault(value, []).append((number, needle, offset))
        self._blocks = blocks
        self._sorted = np.array(sorted(blocks), dtype=self._type)
        bits = next((b for b in _BITS if 1 << b >= 64 * len(blocks)), _BITS[-1])
        self._shift = self._type.type(8 * width - bits)
        self._multiplier = self._type.type(_MULTIPLIER[width])
        self._table = np.zeros(1 << bits, dtype=bool)
        self._table[self._hash(self._sorted)] = True

    def _hash(self, values: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        hashed: NDArray[np.unsignedinteger] = np.multiply(values, self._multiplier)
        hashed >>= self._shift
        return hashed

    def find(self, haystack: bytes) -> Iterator[tuple[int, int]]:
        values = np.frombuffer(haystack, dtype=self._type, count=len(haystack) // self._width)
        for first in range(0, len(values), _AT_ONCE):
            some = values[first : first + _AT_ONCE]
            likely = np.flatnonzero(self._table[self._hash(some)])
            if not len(likely):
                continue
            chosen = some[likely]
            place = np.searchsorted(self._sorted, chosen)
            place[place == len(self._sorted)] = 0
            for index in likely[self._sorted[place] == chosen].tolist():
                at = (first + index) * self._width
                for number, needle, offset in self._blocks[int(some[index])]:
                    start = at - offset
                    if start >= 0 and haystack.startswith(needle, start):
                        yield start, number


class Matcher:
    """A set of needles, numbered by their place in the sequence. Too short ones are never found."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        numbered = [(n, needle) for n, needle in enumerate(needles) if len(needle) >= MINIMUM]
        wide = [(n, needle) for n, needle in numbered if len(needle) >= 15]
        narrow = [(n, needle) for n, needle in numbered if len(needle) < 15]
        self._filters = [_Filter(w, some) for w, some in ((8, wide), (4, narrow)) if some]

    def find(self, haystack: bytes) -> set[tuple[int, int]]:
        """(position, number of the needle) of the occurrences, each at least once per place."""
        return {hit for some in self._filters for hit in some.find(haystack)}
