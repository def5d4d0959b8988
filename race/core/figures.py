"""Figures as SVG text: no script, no font, no outside file; readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from race.core.contamination.gap import Band, Gap
from race.core.intervals import Estimate

STYLE = """
  .ink { fill: #1f2328; } .quiet { fill: #59636e; } .grid { stroke: #d1d9e0; stroke-width: 1; }
  .axis { stroke: #59636e; stroke-width: 1; }
  .old { fill: #0969da; stroke: #0969da; } .new { fill: #bc4c00; stroke: #bc4c00; }
  text { font: 13px system-ui, sans-serif; stroke: none; }
  .quiet { font-size: 12px; }
  @media (prefers-color-scheme: dark) {
    .ink { fill: #f0f6fc; } .quiet { fill: #9198a1; } .grid { stroke: #3d444d; }
    .axis { stroke: #9198a1; }
    .old { fill: #4493f8; stroke: #4493f8; } .new { fill: #f0883e; stroke: #f0883e; }
  }
"""
LEFT, RIGHT, WIDTH = 90, 560, 720


def _x(rate: float) -> float:
    return LEFT + (RIGHT - LEFT) * rate


def _mark(kind: str, y: float, estimate: Estimate) -> list[str]:
    """A point with its interval, and rate and count in words at the right."""
    if estimate.rate is None:
        return [f'<text class="quiet" x="{RIGHT + 16}" y="{y + 4:g}">no tasks</text>']
    parts = []
    if estimate.low is not None and estimate.high is not None:
        low, high = _x(estimate.low), _x(estimate.high)
        parts.append(
            f'<path class="{kind}" d="M{low:.1f} {y:g}H{high:.1f}M{low:.1f} {y - 4:g}v8'
            f'M{high:.1f} {y - 4:g}v8" stroke-width="2" fill="none"/>'
        )
    centre = _x(estimate.rate)
    if kind == "old":
        parts.append(f'<circle class="old" cx="{centre:.1f}" cy="{y:g}" r="5"/>')
    else:
        parts.append(f'<rect class="new" x="{centre - 4.5:.1f}" y="{y - 4.5:g}" width="9" height="9"/>')
    words = f"{100 * estimate.rate:.1f}% · n={estimate.n}"
    parts.append(f'<text class="quiet" x="{RIGHT + 16}" y="{y + 4:g}">{words}</text>')
    return parts


def _axis(top: float, bottom: float) -> list[str]:
    parts = []
    for step in range(5):
        x = _x(step / 4)
        parts.append(f'<path class="grid" d="M{x:.1f} {top:g}V{bottom:g}"/>')
        place = f'x="{x:.1f}" y="{bottom + 18:g}" text-anchor="middle"'
        parts.append(f'<text class="quiet" {place}>{25 * step}%</text>')
    return parts


def era_figure(bands: Sequence[Band], *, old: str, new: str, title: str, note: str = "") -> str:
    """Rate by size of the fix, older tasks (round) against newer (square), with 95% intervals."""
    height = 64 + 56 * len(bands) + 34 + (20 if note else 0)
    body = _axis(48, 48 + 56 * len(bands))
    body += [
        f'<circle class="old" cx="{LEFT}" cy="22" r="5"/>',
        f'<text class="ink" x="{LEFT + 12}" y="26">{escape(old)}</text>',
        f'<rect class="new" x="{LEFT + 230}" y="17.5" width="9" height="9"/>',
        f'<text class="ink" x="{LEFT + 248}" y="26">{escape(new)}</text>',
    ]
    for index, band in enumerate(bands):
        y = 48 + 56 * index + 28
        label = escape(band.band.replace("<=", "≤ ").replace(">", "> "))
        body.append(f'<text class="ink" x="{LEFT - 14}" y="{y - 2}" text-anchor="end">{label}</text>')
        body.append(f'<text class="quiet" x="{LEFT - 14}" y="{y + 14}" text-anchor="end">lines</text>')
        body += _mark("old", y - 10, band.old)
        body += _mark("new", y + 10, band.new)
    if note:
        body.append(f'<text class="quiet" x="{LEFT}" y="{height - 8}">{escape(note)}</text>')
    return _svg(title, height, body)


def gap_figure(gaps: Sequence[tuple[str, Gap]], note: str = "") -> str:
    """Per model, at its own cut-off: the size-adjusted difference old - new with its 95% interval.

    Empty when no model can be compared. The axis runs from -100 to 100 points.
    """
    known = [(name, gap) for name, gap in gaps if gap.difference is not None]
    if not known:
        return ""
    left, right, top = 220, 560, 40
    middle, bottom = (left + right) / 2, top + 34 * len(known)

    def x(points: float) -> float:
        return middle + (right - left) / 2 * points

    body = []
    for step in (-1.0, -0.5, 0.0, 0.5, 1.0):
        kind = "axis" if step == 0 else "grid"
        body.append(f'<path class="{kind}" d="M{x(step):g} {top}V{bottom}"/>')
        place = f'x="{x(step):g}" y="{bottom + 18}" text-anchor="middle"'
        label = f"{100 * step:+.0f}".replace("-", "−") if step else "0"
        body.append(f'<text class="quiet" {place}>{label}</text>')
    body.append(f'<text class="quiet" x="{left}" y="22">newer score higher</text>')
    body.append(f'<text class="quiet" x="{right}" y="22" text-anchor="end">older score higher</text>')
    for index, (name, gap) in enumerate(known):
        y = top + 34 * index + 17
        body.append(
            f'<text class="ink" x="{left - 14}" y="{y - 1}" text-anchor="end">{escape(name)}</text>'
        )
        cut = f"cut {gap.cut.isoformat()}"
        body.append(f'<text class="quiet" x="{left - 14}" y="{y + 13}" text-anchor="end">{cut}</text>')
        if gap.low is not None and gap.high is not None:
            body.append(
                f'<path class="old" d="M{x(gap.low):.1f} {y}H{x(gap.high):.1f}" stroke-width="2"/>'
            )
        body.append(f'<circle class="old" cx="{x(gap.difference or 0.0):.1f}" cy="{y}" r="5"/>')
        points = f"{100 * (gap.difference or 0.0):+.1f}".replace("-", "−")
        words = f"{points} points · n={gap.compared}"
        body.append(f'<text class="quiet" x="{right + 16}" y="{y + 4}">{words}</text>')
    if note:
        body.append(f'<text class="quiet" x="{left}" y="{bottom + 42}">{escape(note)}</text>')
    title = "Older against newer tasks for each model at its own training cut-off"
    return _svg(title, bottom + (54 if note else 34), body)


def interval_bar(estimate: Estimate) -> str:
    """A small bar for a table cell: the rate as a point on its interval, on a track from 0 to 100%."""
    if estimate.rate is None:
        return ""
    x = 5 + 86 * estimate.rate
    parts = ['<path class="grid" d="M5 9H91" stroke-width="4"/>']
    if estimate.low is not None and estimate.high is not None:
        low, high = 5 + 86 * estimate.low, 5 + 86 * estimate.high
        parts.append(f'<path class="old" d="M{low:.1f} 9H{high:.1f}" stroke-width="4"/>')
    parts.append(f'<circle class="ink" cx="{x:.1f}" cy="9" r="4.5"/>')
    return (
        '<svg class="bar" viewBox="0 0 96 18" width="96" height="18" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _svg(title: str, height: float, body: Sequence[str]) -> str:
    inside = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'role="img" style="max-width:100%;height:auto">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n{inside}\n</svg>\n"
    )
