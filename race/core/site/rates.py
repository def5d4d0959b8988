"""How a rate is written on a page: never without its count, never without its interval."""

from __future__ import annotations

from dataclasses import dataclass

from race.core.figures import interval_bar
from race.core.intervals import Estimate


@dataclass(frozen=True)
class Rate:
    """A rate as words and as a small bar. `few` says that it rests on fewer tasks than the release asks
    for."""

    text: str
    interval: str
    count: str
    few: bool
    bar: str


def rate(estimate: Estimate | None, minimum_count: int, unit: str = "tasks") -> Rate | None:
    """An estimate for a table cell, or None when there is nothing."""
    if estimate is None or estimate.rate is None:
        return None
    interval = "no interval from one task" if estimate.n == 1 else "no interval"
    if estimate.low is not None and estimate.high is not None:
        interval = f"{100 * estimate.low:.0f}–{100 * estimate.high:.0f}%"
    word = unit.removesuffix("s") if estimate.n == 1 else unit
    return Rate(
        text=f"{100 * estimate.rate:.1f}%",
        interval=interval,
        count=f"{estimate.n} {word}",
        few=estimate.n < minimum_count,
        bar=interval_bar(estimate),
    )


def amount(value: float | None, digits: int = 0, before: str = "") -> str:
    """A number with thin thousands and a true minus, or a dash."""
    if value is None:
        return "–"
    return before + f"{value:,.{digits}f}".replace(",", " ").replace("-", "−")


def size(value: object) -> str:
    """Bytes as a person reads them; nothing when they are not known here."""
    if not isinstance(value, int | float):
        return ""
    return f"{value / 2**20:,.0f} MiB".replace(",", " ")
