"""Charts as inline SVG, made here, without a script: a step line over revisions, and dots.

Colours come from the stylesheet by class, so that light, dark and print differ; positions are attributes. Each
chart has a title and a description in words, which is what a screen reader reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from advisories.text import visible

WIDTH, HEIGHT = 380, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 8, 12, 24
MOST_POINTS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: (place, value) in order; None where nothing is known of it."""

    name: str
    points: Sequence[tuple[int, float | None]]
    shown: Callable[[float], str]


def words(series: Series) -> str:
    """What a line shows, as a sentence."""
    known = [(place, value) for place, value in series.points if value is not None]
    if not known:
        return f"{series.name}: not known."
    values = [value for _, value in known]
    first, last = values[0], values[-1]
    turns = sum(a != b for a, b in pairwise(values))
    if not turns:
        return f"{series.name}: {series.shown(first)} throughout."
    often = "once" if turns == 1 else f"{turns} times"
    return (
        f"{series.name}: {series.shown(first)} at first, {series.shown(last)} now, between "
        f"{series.shown(min(values))} and {series.shown(max(values))}, moved {often}."
    )


def steps(series: Series, *, last: int, identity: str) -> Markup:
    """One line as a drawing; ``last`` is the newest place, ``identity`` a name for ids within the page."""
    known = [(place, value) for place, value in series.points if value is not None]
    told = words(series)
    if not known:
        return Markup('<p class="quiet">{}</p>').format(visible(told))
    top = max(value for _, value in known) * 1.08 or 1.0
    inner_w, inner_h = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(place: int) -> float:
        return _LEFT + inner_w * (place / last if last else 0.5)

    def y(value: float) -> float:
        return _TOP + inner_h * (1 - value / top)

    path = f"M{x(known[0][0]):.1f} {y(known[0][1]):.1f}"
    for place, value in known[1:]:
        path += f"H{x(place):.1f}V{y(value):.1f}"
    path += f"H{x(last) if last else WIDTH - _RIGHT:.1f}"
    most = max(value for _, value in known)
    grid = "".join(_rule(series.shown(most * share), y(most * share)) for share in (0.0, 0.5, 1.0))
    end_x, end_y = x(last) if last else WIDTH - _RIGHT, y(known[-1][1])
    title = f'<title id="{identity}-t">{escape(visible(series.name))}</title>'
    about = f'<desc id="{identity}-d">{escape(visible(told))}</desc>'
    return Markup(  # noqa: S704 - numbers, and texts that are escaped here
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-labelledby="{identity}-t {identity}-d">{title}{about}{grid}'
        f'<path class="line" d="{path}" fill="none"/>'
        f'<circle class="dot" cx="{end_x:.1f}" cy="{end_y:.1f}" r="3"/>'
        f"{_tick(_LEFT, HEIGHT - 6, 'first', 'start')}"
        f"{_tick(WIDTH - _RIGHT, HEIGHT - 6, f'newest of {last + 1}', 'end')}</svg>"
    )


def _rule(label: str, y: float) -> str:
    line = f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + _tick(_LEFT - 6, y + 4, label, "end")


def _tick(x: float, y: float, label: str, anchor: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(label)}</text>'


# --- dots ----------------------------------------------------------------------------------------

_SIDE = 360
_DECADES = (1e9, 1e10, 1e11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A pair of sizes in bytes; ``kind`` is ``right``, ``missed`` or ``alarm``, which also is its form."""

    x: float
    y: float
    kind: str
    told: str


def scatter(dots: Sequence[Dot], *, identity: str) -> Markup:
    """Expected against measured bytes, both on a logarithmic scale, with the line where they are equal."""
    low, high = math.log10(_DECADES[0]), math.log10(2.5 * _DECADES[-1])
    left, right, top, bottom = 52, _SIDE - 12, 12, _SIDE - 44

    def place(value: float, start: float, end: float) -> float:
        share = (math.log10(max(value, 1.0)) - low) / (high - low)
        return start + (end - start) * min(max(share, 0.0), 1.0)

    def tick(value: float) -> str:
        x, y, label = place(value, left, right), place(value, bottom, top), f"{value / 1e9:.0f} GB"
        return (
            f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
            f"{_tick(left - 6, y + 4, label, 'end')}{_tick(x, bottom + 16, label, 'middle')}"
        )

    about = f"{len(dots)} runs, expected peak to the right, measured upwards; on the slanted line they are equal."
    marks = "".join(_mark(dot, place(dot.x, left, right), place(dot.y, bottom, top)) for dot in dots)
    return Markup(  # noqa: S704 - numbers, and texts that are escaped here
        f'<svg class="chart square" viewBox="0 0 {_SIDE} {_SIDE}" width="{_SIDE}" height="{_SIDE}" role="img" '
        f'aria-labelledby="{identity}-t {identity}-d">'
        f'<title id="{identity}-t">Measured against expected peak</title>'
        f'<desc id="{identity}-d">{escape(about)}</desc>{"".join(map(tick, _DECADES))}'
        f'<line class="even" x1="{left}" y1="{bottom}" x2="{right}" y2="{top}"/>{marks}'
        f"{_tick((left + right) / 2, _SIDE - 8, 'expected', 'middle')}"
        f"{_tick(left + 6, top + 12, 'measured', 'start')}"
        "</svg>"
    )


def _mark(dot: Dot, x: float, y: float) -> str:
    title = f"<title>{escape(visible(dot.told))}</title>"
    if dot.kind == "missed":
        form = f"M{x - 4:.1f} {y - 4:.1f}l8 8M{x + 4:.1f} {y - 4:.1f}l-8 8"
        return f'<path class="missed" d="{form}">{title}</path>'
    return f'<circle class="{dot.kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.2">{title}</circle>'
