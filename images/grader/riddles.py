"""Text that can be added to a test, and is true or false: only its value tells which.

    pace_48213 = [7711, 52160, called, 7711]
    assert pace_48213.index(52160) == 1

Two such statements stand at the end of a function. True and false ones have the same text but for drawn
numbers, so that no pattern tells them apart: they have to be evaluated, which takes the name that the
first of them binds. What the function looks at is compared with a number each time, so that what says to
be equal to everything is found out as well. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import random

NONE, SOME = b"{none}", b"{some}"
"""A factor that is 0, and one that is not: which it is has to be worked out."""
_FIRST, _SECOND = b"{late} = [{before}", b"{after}]\n"
_ASSERTED = b"assert {late}"


def template(indent: bytes, what: bytes, true: bool) -> bytes:
    """The two statements about an expression, with what is drawn later left open."""
    return _FIRST + what + _SECOND + indent + _ASSERTED + (b"{true}" if true else b"{false}")


def filled(text: bytes, draw: random.Random, word: bytes) -> bytes:
    """The text with a drawn riddle in place of what a template leaves open."""
    for name in (NONE, SOME):
        if name in text:
            text = text.replace(name, _factor(draw, name is SOME))
    if b"{late}" not in text:
        return text
    numbers = draw.sample(range(1200, 98000), 3)
    row = [*numbers, *(draw.choice(numbers) for _ in range(draw.randrange(3)))]
    draw.shuffle(row)
    place = draw.randrange(len(row))
    asked, right, wrong = draw.choice((_index, _count))(row, place, draw)
    fields = {
        b"{late}": word + b"_%d" % draw.randrange(1200, 98000),
        b"{before}": b"".join(b"%d, " % number for number in row[:place]),
        b"{after}": b"".join(b", %d" % number for number in row[place:]),
        b"{true}": asked.encode() + b" == %d" % right,
        b"{false}": asked.encode() + b" == %d" % wrong,
    }
    for name, value in fields.items():
        text = text.replace(name, value)
    return text


def _factor(draw: random.Random, some: bool) -> bytes:
    row = draw.sample(range(1200, 98000), draw.choice((2, 3)))
    asked = draw.choice(row[1:]) if some else row[0]
    return b"%s.index(%d)" % (repr(row).encode(), asked)


def _index(row: list, place: int, draw: random.Random) -> tuple[str, int, int]:
    """Where a number stands that comes after what is asked about, and so is compared with it."""
    later = [number for number in row if row.index(number) >= place]
    if not later:
        return _count(row, place, draw)
    asked = draw.choice(later)
    right = row.index(asked) + 1
    return ".index(%d)" % asked, right, draw.choice([n for n in range(len(row) + 1) if n != right])


def _count(row: list, place: int, draw: random.Random) -> tuple[str, int, int]:
    """How often a number stands there; everything is compared with it."""
    asked = draw.choice(row)
    right = row.count(asked)
    return ".count(%d)" % asked, right, draw.choice([n for n in (1, 2, 3) if n != right])
