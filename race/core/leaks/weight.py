"""How much a piece of code says about where it comes from, in bits.

`except ValueError: pass` stands in every second module; `self._waiters.discard(waiter)` does not.
Keywords, built-ins and the words that all programs share weigh next to nothing, other words weigh
by their length, so that the sum grows with what is particular to the piece.
"""

from __future__ import annotations

import builtins
import keyword
import re
from functools import lru_cache

ENOUGH = 18.0
"""Bits from which a single piece is evidence by itself."""

_WORDS = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SHARED = frozenset(
    """
    self cls args kwargs name names value values data result results key keys item items index count
    size length path file files line lines text msg message error errors exc err exception default
    config options option start stop end first last next prev current new old state status node root
    parent child children callback func function method fn obj object cls type types info debug log
    logger logging warning test tests mock assert equal true false none async await asyncio future
    task tasks loop event lock queue thread threading timeout cancel cancelled timeouterror runtime
    time sleep wait get set add remove append pop clear close closed open read write send recv run
    main init exit enter call called make create update copy join split strip format print return
    returns raise raises param params typing optional any list dict tuple str int bool float bytes
    import from os sys re json collections functools contextlib abc exists isinstance len range
    """.split()  # noqa: SIM905 - a list of 150 quoted words is no easier to read
)
_PLAIN = (
    {word.lower() for word in (*keyword.kwlist, *keyword.softkwlist)}
    | {name.lower() for name in dir(builtins)}
    | _SHARED
)


@lru_cache(maxsize=65536)
def word_bits(word: bytes) -> float:
    """What one identifier or number says."""
    text = word.decode("ascii", "replace")
    if text.lower().strip("_") in _PLAIN:
        return 1.0
    total = 0.0
    for part in _WORDS.findall(word):
        lower = part.decode().lower()
        if lower in _PLAIN or len(lower) == 1:
            total += 1.5
        elif lower.isdigit():
            total += min(1.0 + len(lower), 6.0)
        else:
            total += min(3.0 + 0.8 * len(lower), 10.0)
    return total or 1.0


def bits(words: list[bytes]) -> float:
    """What some words say together; a word said twice counts once."""
    return sum(word_bits(word) for word in set(words))
