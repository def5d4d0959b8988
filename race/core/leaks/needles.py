"""All that one audit looks for, made ready to be looked for: made once, used for every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from race.core.leaks.bytecode import NameSearch
from race.core.leaks.disguise import variants
from race.core.leaks.forms import SEPARATOR, squeezed, worded
from race.core.leaks.fragments import Wanted, shape_search
from race.core.leaks.matcher import Matcher
from race.core.leaks.shapes import ShapeSearch

MOST_DISGUISED = 1500
"""Lines that are looked for in disguise, too."""


@dataclass(frozen=True)
class Needles:
    """`texts` finds pieces by their letters, digits and underscores, and after them lines and names
    in disguise (`disguises` says in which); `names` the fix's new names in byte-code, `shapes` lines
    with other names."""

    wanted: Wanted
    texts: Matcher
    disguises: tuple[str, ...]
    names: NameSearch
    shapes: ShapeSearch

    @classmethod
    def of(cls, wanted: Wanted) -> Needles:
        """Ready to look for what is wanted."""
        plain = [b"" if f.form == "shape" else worded(f.needle) for f in wanted.fragments]
        lines = [f.text for f in wanted.fragments if f.form == "line"][:MOST_DISGUISED]
        disguised = list(variants(lines, (f.text for f in wanted.names)))
        return cls(
            wanted,
            Matcher([*plain, *(needle for _, needle in disguised)]),
            tuple(how for how, _ in disguised),
            NameSearch(wanted.identifiers),
            shape_search(wanted.fragments),
        )

    def found(self, texts: Sequence[bytes]) -> tuple[dict[int, set[int]], dict[int, set[str]]]:
        """Fragments in some texts, in one pass: index of the text -> numbers; and which disguises are
        to be undone. What holds a fragment in any form holds its words."""
        ends, pieces, at = [], [], 0
        for text in texts:
            pieces.append(worded(text))
            at += len(pieces[-1]) + len(SEPARATOR)
            ends.append(at)
        likely: dict[int, set[int]] = {}
        disguised: dict[int, set[str]] = {}
        index, plain = 0, len(self.wanted.fragments)
        for place, number in sorted(self.texts.find(SEPARATOR.join(pieces))):
            while place >= ends[index]:
                index += 1
            if number < plain:
                likely.setdefault(index, set()).add(number)
            else:
                disguised.setdefault(index, set()).add(self.disguises[number - plain])
        confirmed = {n: self._confirmed(texts[n], numbers) for n, numbers in likely.items()}
        return {n: numbers for n, numbers in confirmed.items() if numbers}, disguised

    def _confirmed(self, data: bytes, likely: set[int]) -> set[int]:
        """Those that are there up to their formatting: letters and digits alone are not enough for
        a line whose punctuation counts."""
        fragments = self.wanted.fragments
        if all(fragments[n].wordy for n in likely):
            return likely
        text = squeezed(data)
        return {n for n in likely if fragments[n].wordy or fragments[n].needle in text}
