"""A pull request's diff, split into what fixes and what tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from race.core.mining.diffs import Section, sections
from race.core.paths import TEST_SIDE, Layout, is_code


@dataclass(frozen=True)
class Split:
    """Two patches and the paths behind them. `other` is in neither: docs, changelog, CI, build."""

    fix: bytes
    test: bytes
    product: tuple[str, ...]
    tests: tuple[str, ...]
    other: tuple[str, ...]
    fix_lines: int
    """Lines of product code that differ: added and removed, without lines that only moved."""


def split(diff: bytes, layout: Layout) -> Split:
    """Split a diff by what each path is for.

    A submodule is never part of a patch: its commit lies in another repository.
    """
    fix: list[bytes] = []
    test: list[bytes] = []
    paths: dict[str, list[str]] = {"product": [], "tests": [], "other": []}
    product: list[Section] = []
    for section in sections(diff):
        kind = layout.kind(section.path)
        if section.submodule:
            paths["other"].append(section.path)
        elif kind == "product":
            paths["product"].append(section.path)
            fix.append(section.data)
            product.append(section)
        elif kind in TEST_SIDE:
            paths["tests"].append(section.path)
            test.append(section.data)
        else:
            paths["other"].append(section.path)
    return Split(
        fix=b"".join(fix),
        test=b"".join(test),
        product=tuple(paths["product"]),
        tests=tuple(paths["tests"]),
        other=tuple(paths["other"]),
        fix_lines=size(product),
    )


def size(product: list[Section]) -> int:
    """Changed lines of code, where a line taken away here and added there counts as moved."""
    taken: Counter[str] = Counter()
    added: Counter[str] = Counter()
    for section in product:
        if not section.binary and is_code(section.path):
            old, new = section.changed_lines()
            taken.update(old)
            added.update(new)
    if any("new file mode" in section.modes for section in product) and any(
        "deleted file mode" in section.modes for section in product
    ):
        moved = taken & added
        taken, added = taken - moved, added - moved
    return taken.total() + added.total()
