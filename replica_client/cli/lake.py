"""``replica-client lake``: what is in the lake of a pipeline, and its upkeep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from replica_client.cli.failures import NOT_CURRENT
from replica_client.cli.flags import Command, Json
from replica_client.cli.output import Lines, progress_console
from replica_client.cli.program import extra_module

app = typer.Typer(
    no_args_is_help=True,
    help="The tables of a pipeline's lake: what is in them, and their upkeep.",
    epilog="Example:  replica-client lake status shop.toml",
)
_Config = Annotated[
    Path, typer.Argument(metavar="CONFIG.toml", help="The pipeline's configuration.")
]
_GREEN: Final = ("", "current")
"""Statuses of the change log, and of a table that is kept in step with the source."""


@app.command(cls=Command, epilog="Example:  replica-client lake status shop.toml")
def status(
    config: _Config,
    json: Json = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit status 3 when a table is not current.")
    ] = False,
) -> None:
    """Show rows, files and bytes of each table, and which are not current, and why."""
    tables = _module(config).lake_status(config)
    _show(tables, json)
    if strict and any(one.status not in _GREEN for one in tables):
        raise typer.Exit(NOT_CURRENT)


@app.command(
    cls=Command, epilog="Example:  replica-client lake copy shop.toml shop.orders 'shop.tmp_*'"
)
def copy(
    config: _Config,
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE…", help="database.name; * and ? stand for parts.")
    ],
) -> None:
    """Copy tables again, also those that were left out: now if the pipeline runs, else in its next run."""
    lines = Lines()
    for name in _module(config).copy_tables(config, tables):
        lines.line(f"{name}: its copy is asked for; the pipeline makes it")


@app.command(cls=Command, epilog="Example:  replica-client lake compact shop.toml")
def compact(config: _Config, json: Json = False) -> None:
    """Put small files together; no row changes. The pipeline must not run."""
    module = _module(config)
    with _telling("opening the lake") as say:
        tables = module.compact_lake(config, say)
    _show(tables, json)


@app.command(cls=Command, epilog="Example:  replica-client lake vacuum shop.toml --hours 24")
def vacuum(
    config: _Config,
    hours: Annotated[
        float, typer.Option("--hours", min=0, help="Keep what a version of so many hours ago has.")
    ] = 168,
    json: Json = False,
) -> None:
    """Remove files that no table needs any more. The pipeline must not run."""
    module = _module(config)
    with _telling("opening the lake") as say:
        tables = module.vacuum_lake(config, hours, say)
    _show(tables, json)


@app.command(
    cls=Command,
    epilog="Example:  replica-client lake read shop.toml 'shop.*' --at 0-1-9 --output there",
)
def read(
    config: _Config,
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE…", help="database.name; * and ? stand for parts.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", metavar="PATH", help="A directory that gets a Parquet file for each table."
        ),
    ],
    at: Annotated[
        str, typer.Option(metavar="WHEN", help="FILE:OFFSET, a GTID, a time, or latest.")
    ] = "latest",
) -> None:
    """Write tables as they were at a moment, the same one for all. What cannot be taken back exactly is refused.

    A GTID is the moment behind its transaction, a time the one before the first change of then or later.
    """
    lines = Lines()
    config.open("rb").close()
    module = extra_module("replica_client.lake.lake_past", "spark")
    written = []
    try:
        with _telling(f"reading tables as they were at {at}"):
            written += module.write_past(config, tables, at, output)
    finally:
        for name, rows in written:
            lines.line(f"{name}: {rows:,} rows at {at}")
        lines.flush()


@contextmanager
def _telling(doing: str) -> Iterator[Callable[[str], None]]:
    """Tell on standard error what is done, when it takes long."""
    module = extra_module("replica_client.lake.pipeline.run_history", "spark")
    progress = module.Progress(progress_console())
    progress.start(doing)
    try:
        yield progress.say
    finally:
        progress.stop(tell=False)


def _module(config: Path) -> Any:
    config.open("rb").close()
    return extra_module("replica_client.lake.maintenance", "spark")


def _show(tables: list[Any], json: bool) -> None:
    lines = Lines()
    for one in tables:
        if json:
            lines.json(asdict(one))
            continue
        text = f"{one.table}: {one.rows:,} rows in {one.files:,} files, {one.size:,} bytes"
        if one.files_before:
            text += f", {one.files_before:,} files before"
        if one.waiting:
            text += f", {one.waiting:,} change files wait to be merged"
        if one.removed:
            text += f", {one.removed:,} files removed"
        if one.status not in _GREEN:
            text += f" ({one.status.replace('_', ' ')}: {one.reason})"
        lines.line(text)
    lines.flush()
