"""Options of the commands on archives, and pages about archives."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from replica_client.archive.archive import Archive, FoundChange, open_archive
from replica_client.archive.question import Key
from replica_client.archive.statistics import ArchiveStatistics
from replica_client.cli.flags import decode_options
from replica_client.cli.output import clock, commit_clock
from replica_client.cli.reading import schema_of
from replica_client.cli.row_output import row_text
from replica_client.cli.sources import binlog_paths
from replica_client.errors import ConfigError
from replica_client.storage.files import write_file

Sources = Annotated[
    list[str],
    typer.Argument(metavar="ARCHIVE", help="Binlog files, globs, directories, or their URLs."),
]


@contextmanager
def opened(
    sources: Sequence[str],
    *,
    schema: Path | None = None,
    key_file: Path | None = None,
    invalid_text: Literal["strict", "replace", "bytes"] = "strict",
    **archive_options: Any,
) -> Iterator[Archive]:
    """Open an archive, with a bar on a terminal while its indexes are read or made.

    Raises:
        ConfigError: nothing is there.
    """
    paths = binlog_paths(sources)
    with _bar() as advance:
        archive = open_archive(
            [str(path) for path in paths],
            options=decode_options(key_file, invalid_text=invalid_text),
            schema=schema_of(schema, None),
            progress=advance,
            **archive_options,
        )
        archive.index()
    yield archive


@contextmanager
def _bar() -> Iterator[Callable[[int], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    from replica_client.cli.output import progress_console

    columns = (TextColumn("indexes"), BarColumn(), TextColumn("{task.completed:,} bytes"))
    with Progress(*columns, console=progress_console(), transient=True) as progress:
        task = progress.add_task("indexes", total=None)
        yield lambda size: progress.update(task, advance=size)


def key_of(values: Sequence[str] | None) -> Key | None:
    """Return the key that ``--key`` gives.

    Raises:
        ConfigError: some values have a column's name and some have not.
    """
    if not values:
        return None
    named = [value.partition("=") for value in values if "=" in value]
    if not named:
        return list(values)
    if len(named) < len(values):
        raise ConfigError("--key: give a COLUMN=VALUE for each column, or values only")
    return {name: value for name, _, value in named}


_MOST: Final = 10_000
_WIDTH: Final = 960
_COLOURS: Final = {"insert": "#2f855a", "update": "#b7791f", "delete": "#c53030"}
_PALETTE: Final = (
    *("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280"),
    *("#319795", "#744210", "#4a5568"),
)
_HOUR: Final = 3600
_STYLE: Final = (
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1000px;padding:0 1em;color:#1a202c}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.3em .6em;border-bottom:1px solid #e2e8f0;"
    "text-align:left;vertical-align:top}td.n,th.n{text-align:right}code{overflow-wrap:anywhere}"
    "svg{width:100%;min-width:600px;height:auto}.s{color:#4a5568}h2{margin-top:2em}"
    ".w{overflow-x:auto}.u{white-space:nowrap}.g td{background:#f7fafc;color:#4a5568;padding-top:.6em}"
)
_TABLE: Final = '<div class="w"><table>'
_TABLE_END: Final = "</table></div>"
_SLOTS: Final = 240
"""Columns of the timeline at most."""
_WIDEST: Final = 60.0
"""The maximum width of a column: a single one still looks like a column."""


def write_timeline(path: Path, title: str, found: Iterable[FoundChange]) -> None:
    """Write changes as a page: a timeline, and a row for each of the first 10,000.

    Raises:
        OSError: the page cannot be written.
    """
    changes = iter(found)
    shown = list(islice(changes, _MOST))
    more = sum(1 for _ in changes)
    rows = "".join(_change_rows(shown))
    counted = f"{len(shown) + more} changes"
    if more:
        counted += f", of which the first {_MOST} are shown"
    body = (
        f"<p>{counted}</p>{_timeline(shown)}{_TABLE}<tr><th>time (UTC)<th>position<th>thread<th>kind<th>row</tr>"
        f"{rows}{_TABLE_END}"
    )
    _write(path, title, body)


def _change_rows(shown: Sequence[FoundChange]) -> Iterator[str]:
    """Yield a row for each change, with the GTID before the first of its transaction."""
    before = ""
    for one in shown:
        change = one.change
        if change.gtid != before:
            before = change.gtid
            yield f'<tr class="g"><td colspan="5"><code>{escape(change.gtid)}</code></tr>'
        statement = ""
        if one.statement is not None:
            statement = f'<div class="s"><code>{escape(one.statement)}</code></div>'
        thread = "" if one.thread_id is None else str(one.thread_id)
        yield (
            f'<tr><td class="u">{commit_clock(one.transaction.commit_us)}'
            f'<td class="u"><code>{escape(change.file)}:{change.offset}</code><td>{thread}'
            f'<td style="color:{_COLOURS[change.kind]}">{change.kind}'
            f"<td>{escape(change.database)}.{escape(change.table)}: <code>{escape(row_text(change))}</code>"
            f"{statement}</tr>"
        )


def _timeline(shown: Sequence[FoundChange]) -> str:
    """Draw a column for each part of the time between the first change and the last, by kind."""
    times = [one.transaction.commit_us // 1_000_000 for one in shown]
    if not times:
        return ""
    first, last = min(times), max(times)
    step = max(1, -(-(last - first + 1) // _SLOTS))
    count = (last - first) // step + 1
    slots: Counter[tuple[int, str]] = Counter(
        ((one.transaction.commit_us // 1_000_000 - first) // step, one.change.kind) for one in shown
    )
    kinds = list(_COLOURS)
    highest = max(sum(slots[at, kind] for kind in kinds) for at in {at for at, _ in slots})
    width = (_WIDTH - 20) / count
    drawn = min(_WIDEST, max(2.0, width - 1))
    bars = []
    for at in sorted({at for at, _ in slots}):
        y = 70.0
        for kind in kinds:
            height = 60 * slots[at, kind] / highest
            if height:
                y -= height
                bars.append(
                    f'<rect x="{10 + (at + 0.5) * width - drawn / 2:.1f}" y="{y:.1f}" width="{drawn:.1f}" '
                    f'height="{height:.1f}" fill="{_COLOURS[kind]}">'
                    f"<title>{clock(first + at * step)}: {slots[at, kind]} {kind}</title></rect>"
                )
    legend = "".join(
        f'<tspan fill="{colour}" dx="12">{kind}</tspan>' for kind, colour in _COLOURS.items()
    )
    return (
        f'<div class="w"><svg viewBox="0 0 {_WIDTH} 95" role="img" aria-label="timeline">{"".join(bars)}<line x1="10" '
        f'x2="{_WIDTH - 10}" y1="70" y2="70" stroke="#a0aec0"/><text x="10" y="88" font-size="12">{clock(first)}</text>'
        f'<text x="{_WIDTH - 10}" y="88" font-size="12" text-anchor="end">{clock(last)}</text>'
        f'<text x="{_WIDTH // 2 - 90}" y="88" font-size="12">{legend}</text></svg></div>'
    )


def write_statistics(path: Path, found: ArchiveStatistics) -> None:
    """Write what is in an archive as a page with plots.

    Raises:
        OSError: the page cannot be written.
    """
    period = f"{commit_clock(found.first_time)} to {commit_clock(found.last_time)} UTC"
    parts = [f"<p>{found.files} files, {found.size:,} bytes, {period}</p>"]
    parts += [f"<p>Transactions are missing {escape(gap)}</p>" for gap in found.gaps]
    parts += ["<h2>Bytes of rows by hour</h2>", _hours(found), "<h2>Tables</h2>", _tables(found)]
    lists = (
        ("Largest transactions", found.largest),
        ("Most rows", found.most_rows),
        ("Longest transactions", found.longest),
    )
    for title, ones in lists:
        rows = "".join(
            f'<tr><td class="u">{commit_clock(one.time)}<td class="u"><code>{escape(one.file)}:{one.position}</code>'
            f'<td class="n">{one.size:,}<td class="n">{one.rows:,}<td class="n">{one.seconds:,}</tr>'
            for one in ones
        )
        parts.append(
            f'<h2>{title}</h2>{_TABLE}<tr><th>time (UTC)<th>position<th class="n">bytes<th class="n">rows'
            f'<th class="n">seconds</tr>{rows}{_TABLE_END}'
        )
    statements = "".join(
        f'<tr><td class="u">{commit_clock(one.time)}<td class="u"><code>{escape(one.file)}:{one.position}</code>'
        f"<td><code>{escape(one.text)}</code></tr>"
        for one in found.statements
    )
    parts.append(
        f"<h2>Statements that may have changed tables</h2>{_TABLE}{statements}{_TABLE_END}"
    )
    _write(path, "Binlog archive", "".join(parts))


def _tables(found: ArchiveStatistics) -> str:
    rows = "".join(
        f'<tr><td>{escape(name)}<td class="n">{one.inserted:,}<td class="n">{one.updated:,}'
        f'<td class="n">{one.deleted:,}<td class="n">{one.size:,}</tr>'
        for name, one in found.tables.items()
    )
    return (
        f'{_TABLE}<tr><th>table<th class="n">inserted<th class="n">updated<th class="n">deleted<th class="n">bytes</tr>'
        f"{rows}{_TABLE_END}"
    )


def _hours(found: ArchiveStatistics) -> str:
    """Draw a column for each hour, the largest tables in colours of their own."""
    if not found.hours:
        return "<p>No rows.</p>"
    first, last = min(found.hours), max(found.hours)
    named = list(found.tables)[: len(_PALETTE) - 1]
    colours = dict(zip(named, _PALETTE, strict=False))
    step = max(1, -(-(last - first + 1) // 480))
    slots: dict[int, dict[str, int]] = {}
    for hour, tables in found.hours.items():
        slot = slots.setdefault((hour - first) // step, {})
        for name, one in tables.items():
            key = name if name in colours else ""
            slot[key] = slot.get(key, 0) + one.size
    highest = max(sum(slot.values()) for slot in slots.values()) or 1
    count = (last - first) // step + 1
    width = (_WIDTH - 20) / count
    drawn = min(_WIDEST, max(1.0, width - 1))
    bars = []
    for number, slot in sorted(slots.items()):
        y = 210.0
        for name in [*named, ""]:
            height = 200 * slot.get(name, 0) / highest
            if height:
                y -= height
                at = clock((first + number * step) * _HOUR)
                bars.append(
                    f'<rect x="{10 + (number + 0.5) * width - drawn / 2:.1f}" y="{y:.1f}" width="{drawn:.1f}" '
                    f'height="{height:.1f}" fill="{colours.get(name, _PALETTE[-1])}">'
                    f"<title>{at}: {escape(name) or 'others'} {slot[name]:,} bytes</title></rect>"
                )
    legend = " ".join(
        f'<span style="color:{colour}">■ {escape(name)}</span>' for name, colour in colours.items()
    )
    if len(found.tables) > len(named):
        legend += f' <span style="color:{_PALETTE[-1]}">■ others</span>'
    return (
        f'<div class="w"><svg viewBox="0 0 {_WIDTH} 235" role="img" aria-label="bytes by hour">{"".join(bars)}'
        f'<line x1="10" x2="{_WIDTH - 10}" y1="210" y2="210" stroke="#a0aec0"/><text x="10" y="228" font-size="12">'
        f'{clock(first * _HOUR)}</text><text x="{_WIDTH - 10}" y="228" font-size="12" text-anchor="end">'
        f'{clock((last + 1) * _HOUR)}</text><text x="{_WIDTH // 2}" y="228" font-size="12" text-anchor="middle">'
        f"highest: {highest:,} bytes</text></svg></div><p>{legend}</p>"
    )


def _write(path: Path, title: str, body: str) -> None:
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>{body}</html>\n"
    )
    write_file(path, page.encode())
