"""Lags of each interface at each rate, as a table of Markdown and as one SVG."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Self

from tests.integration.saving_proof import Lags

_LEFT, _WIDTH, _ROW, _TOP = 330, 520, 20, 60
_LEAST, _MOST = 1e-3, 100.0
_COLOURS = {"p50": "#1769aa", "p99": "#b3541e", "most": "#8a8f98"}


@dataclass(frozen=True)
class LagRow:
    """What one interface showed at one rate.

    Attributes:
        rate: transactions a second that were asked for; 0: all there could be.
        name: of the interface.
        found: transactions a second that arrived.
        p50: the median lag in seconds.
        p99: what one in a hundred exceeded.
        most: the longest.
        growth: median of the second half, less that of the first: it falls behind where this grows.
        processor: share of one.
        load: of the machine, at the end.
    """

    rate: int
    name: str
    found: float
    p50: float
    p99: float
    most: float
    growth: float
    processor: float
    load: float

    @classmethod
    def of(cls, rate: int, lags: Lags, load: float) -> Self:
        """The row of what was measured; lags are none where fewer than two transactions arrived."""
        found, processor = len(lags.lags) / lags.seconds, lags.cpu / lags.seconds
        if len(lags.lags) < 2:
            nan = math.nan
            return cls(rate, lags.name, found, nan, nan, nan, nan, processor, load)
        cuts = statistics.quantiles(lags.lags, n=100)
        half = len(lags.lags) // 2
        growth = statistics.median(lags.lags[half:]) - statistics.median(lags.lags[:half])
        most = max(lags.lags)
        return cls(rate, lags.name, found, cuts[49], cuts[98], most, growth, processor, load)

    @property
    def asked(self) -> str:
        """The rate, as it is shown."""
        return f"{self.rate:,}" if self.rate else "full rate"


def table(rows: Sequence[LagRow], seconds: float) -> str:
    """The rows as Markdown; ``seconds`` is how long each was measured."""
    lines = [
        f"One-row transactions, {seconds:g} s each; lags in milliseconds.",
        "Growth is the median of the second half less that of the first.",
        "",
        "| asked a second | interface | arrived a second | p50 | p99 | most | growth | processor | load |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.asked} | {one.name} | {one.found:,.0f} | {one.p50 * 1e3:,.1f} | {one.p99 * 1e3:,.1f} | "
        f"{one.most * 1e3:,.0f} | {one.growth * 1e3:,.1f} | {one.processor:.0%} | {one.load:.1f} |"
        for one in rows
    ]
    return "\n".join(lines) + "\n"


def svg(rows: Sequence[LagRow], title: str) -> str:
    """The rows as dots on a logarithmic scale from 1 ms to 100 s."""
    height = _TOP + len(rows) * _ROW + 30
    lines = [f'<text x="8" y="20" font-size="15">{escape(title)}</text>']
    for at, (name, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 90 * at
        lines.append(f'<circle cx="{x}" cy="36" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{x + 9}" y="40">{name}</text>')
    for power in range(-3, 3):
        x = _at(10.0**power)
        label = f"{10**power:g} s" if power >= 0 else f"{10 ** (power + 3)} ms"
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 10}" y2="{height - 22}" stroke="#dde3ea"/>'
            f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>'
        )
    for number, one in enumerate(rows):
        y = _TOP + number * _ROW
        lines.append(
            f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(f"{one.asked}: {one.name}")}</text>'
        )
        lines += [
            f'<circle cx="{_at(value):.1f}" cy="{y}" r="4" fill="{colour}"/>'
            for value, colour in zip((one.p50, one.p99, one.most), _COLOURS.values(), strict=True)
            if not math.isnan(value)
        ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join((head, *lines, "</svg>\n"))


def _at(seconds: float) -> float:
    share = math.log10(min(max(seconds, _LEAST), _MOST) / _LEAST) / math.log10(_MOST / _LEAST)
    return _LEFT + _WIDTH * share
