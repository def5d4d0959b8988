"""Sentences derived from numbers by rule, never typed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEVEL = 0.05
"""The level of every test in these sentences."""


def points(value: float) -> str:
    """A difference of rates in percentage points, with its sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def p_words(p: float) -> str:
    """A p-value as a person reads it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def gap_sentence(gap: Mapping[str, Any], *, minimum_count: int, cut_name: str = "") -> str:
    """What a comparison of eras shows, and what it cannot show, from the fields of a Gap.

    Direction by band first, then the size-adjusted difference with interval and p, then the verdict on
    significance, the tasks that are missing for it, and the cells that are too small to read.
    """
    cut = cut_name or gap["cut"].isoformat()
    if gap["difference"] is None:
        return (
            f"No size band has tasks from both sides of {cut} ({gap['old_tasks']} older, "
            f"{gap['new_tasks']} newer), so the eras cannot be compared."
        )
    both = [band for band in gap["bands"] if band.old.n and band.new.n]
    parts = [_direction(both), _difference(gap), _small(both, minimum_count)]
    return " ".join(part for part in parts if part)


def _direction(bands: list[Any]) -> str:
    higher = sum(1 for band in bands if band.old.rate > band.new.rate)
    lower = sum(1 for band in bands if band.old.rate < band.new.rate)
    if higher == lower:
        return f"Neither older nor newer tasks score higher in most of {_bands(len(bands))}."
    word, count = ("Older", higher) if higher > lower else ("Newer", lower)
    return f"{word} tasks score higher in {count} of {_bands(len(bands))}."


def _bands(count: int) -> str:
    return f"{count} size band{'' if count == 1 else 's'}"


def _difference(gap: Mapping[str, Any]) -> str:
    difference, p = gap["difference"], gap["p_permutation"]
    text = f"Adjusted for size, older tasks score {_higher(difference)}"
    if gap["low"] is not None:
        text += f" (95% interval {points(gap['low'])} to {points(gap['high'])}, {p_words(p)})"
    else:
        text += f" ({p_words(p)})"
    if p <= LEVEL:
        if difference > 0:
            return (
                f"{text}: significant; memorisation would look like this, and so would newer tasks "
                "being harder."
            )
        return f"{text}: significant, in the direction that memorisation does not explain."
    text += ": not significant at this sample size"
    if gap["minimum_detectable"] is None:
        return f"{text}; outcomes do not vary, so there is nothing to measure power with."
    if gap["minimum_detectable"] >= 1:
        text += ", which could not have shown any difference"
    else:
        text += f", which could have shown {100 * gap['minimum_detectable']:.1f} points"
    needed, have = gap["tasks_needed_per_era"], min(gap["old_tasks"], gap["new_tasks"])
    if needed is not None and needed > have:
        more = needed - have
        return f"{text}; at least {more} more tasks per era needed for a difference of this size."
    return f"{text}."


def _higher(difference: float) -> str:
    if abs(difference) < 0.0005:
        return "the same"
    return f"{100 * abs(difference):.1f} points {'higher' if difference > 0 else 'lower'}"


def _small(bands: list[Any], minimum_count: int) -> str:
    few = sum(1 for band in bands for rate in (band.old, band.new) if rate.n < minimum_count)
    if not few:
        return ""
    return f"{few} of {2 * len(bands)} rates rest on fewer than {minimum_count} tasks."


def did_sentence(estimate: float, low: float | None, high: float | None, p: float, models: int) -> str:
    """What the comparison across models with different cut-offs shows."""
    spread = "" if low is None or high is None else f"95% interval {points(low)} to {points(high)}, "
    text = (
        f"Across {models} models with different cut-offs, tasks from before a model's own cut-off "
        f"differ by {points(estimate)} points from those of models that cannot have seen them "
        f"({spread}{p_words(p)})"
    )
    if p > LEVEL:
        return f"{text}: not significant at this sample size."
    if estimate > 0:
        return (
            f"{text}: significant; it follows each model's own date, which drift in difficulty does not."
        )
    return f"{text}: significant, against what memorisation would do."
