"""Samples of a soak as one SVG: memory, descriptors, lag and size of the checkpoint over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from tests.integration.soak_proof import Sample, Soaked

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 820, 150, 80, 46, 44
_COLOURS = {"loop": "#1769aa", "service": "#b3541e", "killed": "#8a8f98"}
_MOST_POINTS = 1500

_Panel = tuple[str, Callable[[Sample], float]]
_PANELS: tuple[_Panel, ...] = (
    ("resident memory, MiB", lambda one: one.memory),
    ("open descriptors", lambda one: one.descriptors),
    ("lag of 99 of 100 transactions in a second, ms", lambda one: one.lag[1]),
    ("position and schema history on disk, KiB", lambda one: one.checkpoint / 1024),
)


def svg(found: Soaked, title: str) -> str:
    """The plot."""
    hours = max(found.hours, 1e-9)
    lines = [f'<text x="8" y="20" font-size="15">{escape(title)}</text>']
    for at, (name, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 110 * at
        lines.append(f'<rect x="{x}" y="29" width="14" height="4" fill="{colour}"/>')
        lines.append(f'<text x="{x + 20}" y="35">{name}</text>')
    for number, panel in enumerate(_PANELS):
        lines += _panel(found, panel, _TOP + 16 + number * (_HEIGHT + _GAP), hours)
    height = _TOP + 16 + len(_PANELS) * (_HEIGHT + _GAP) + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join((head, *lines, "</svg>\n"))


def _panel(found: Soaked, panel: _Panel, y: int, hours: float) -> list[str]:
    label, value = panel
    top = max((value(one) for one in found.samples), default=0.0) * 1.08 or 1.0
    lines = [f'<text x="{_LEFT}" y="{y - 5}" font-weight="bold">{escape(label)}</text>']
    for part in range(5):
        level = y + _HEIGHT - _HEIGHT * part / 4
        lines.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{level:.1f}" y2="{level:.1f}" stroke="#dde3ea"/>'
            f'<text x="{_LEFT - 8}" y="{level + 4:.1f}" text-anchor="end">{top * part / 4:,.4g}</text>'
        )
        lines.append(
            f'<text x="{_LEFT + _WIDTH * part / 4:.0f}" y="{y + _HEIGHT + 16}" text-anchor="middle">'
            f"{hours * part / 4:.3g} h</text>"
        )
    for name, colour in _COLOURS.items():
        points = [(one.hours / hours, value(one) / top) for one in found.of(name)]
        lines.append(_line(points, y, colour))
    return lines


def _line(points: Sequence[tuple[float, float]], y: int, colour: str) -> str:
    step = max(1, len(points) // _MOST_POINTS)
    text = " ".join(
        f"{_LEFT + x * _WIDTH:.1f},{y + _HEIGHT * (1 - value):.1f}" for x, value in points[::step]
    )
    return f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
