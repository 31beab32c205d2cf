"""The figures as an SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_BAR, _GAP, _LEFT, _WIDTH = 18, 6, 250, 420


def svg(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Bars of ratios, one group per workload, longest value 1.0 of the width on a log-free scale."""
    lines: list[str] = []
    y = 40
    for group, values in groups.items():
        lines.append(f'<text x="8" y="{y + 4}" font-weight="bold">{escape(group)}</text>')
        y += 14
        top = max(values.values(), default=1.0)
        for name, value in values.items():
            size = max(1.0, value / top * _WIDTH)
            lines.append(
                f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            )
            lines.append(
                f'<rect x="{_LEFT}" y="{y}" width="{size:.0f}" height="{_BAR}" fill="#3465a4"/>'
            )
            lines.append(f'<text x="{_LEFT + size + 6:.0f}" y="{y + 13}">{value:.1f}x</text>')
            y += _BAR + _GAP
        y += 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 90}" height="{y}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join(
        (head, f'<text x="8" y="20" font-size="15">{escape(title)}</text>', *lines, "</svg>\n")
    )
