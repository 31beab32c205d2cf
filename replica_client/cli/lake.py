"""``replica-client lake``, ``pipeline`` and ``verify``: a lake, its pipeline, and its equality with the source."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from json import dumps
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from replica_client.cli.flags import Command, Json
from replica_client.cli.output import Lines, progress_console
from replica_client.cli.program import FAULTY, NOT_CURRENT, extra_module

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


# What a configuration needs, as --help shows it.
CONFIGURATION = """
\b
    [source]
    url = "mysql://repl@db1/"
    password_env = "REPL_PASSWORD"
    tables = ["shop.*"]
    start = "snapshot"
\b
    [pipeline]
    output = "lake"
    trigger = "available-now"
"""


class Engine(StrEnum):
    """The engine that reads and merges."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


def pipeline(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="What to read and where to write.")
    ],
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's own messages.")] = False,
    engine: Annotated[
        Engine | None,
        typer.Option(
            "--engine",
            help="What works: this process (local), Spark, or what is cheaper for the size of the run (auto).",
            show_default="as in the file, else auto",
        ),
    ] = None,
    json: Json = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit status 3 when a table is not current.")
    ] = False,
) -> None:
    """Keep a change log and current tables of a source as Delta tables; large runs use Spark.

    Copies the tables first where start = "snapshot". Continues from its checkpoint; a change is
    written once, also after a kill at any instant.
    """
    config.open("rb").close()
    _spare_pandas()
    module = extra_module("replica_client.lake.pipeline.runner", "spark")
    result = module.run_pipeline(config, verbose=verbose, engine=engine and engine.value)
    lines = Lines()
    if json:
        lines.json(
            {
                "rows": result.rows,
                "position": result.position,
                "change_log": str(result.change_log),
                "version": result.version,
                "tables": result.tables,
                "copied": result.copied,
                "lag_seconds": result.lag,
                "not_current": list(result.not_current),
                "report": None if result.report is None else str(result.report),
            }
        )
    else:
        lines.line(f"{result.rows} changes written, source read to {result.position or 'nothing'}")
        lines.line(f"change log: {result.change_log} (Delta table, version {result.version})")
        if result.copied:
            lines.line(f"{result.copied} rows copied")
        if result.tables:
            lag = "" if result.lag is None else f", {result.lag:.1f} s behind the last change"
            lines.line(f"{result.tables} current tables{lag}")
        for one in result.not_current:
            lines.line(f"{one['table']}: {one['status'].replace('_', ' ')}: {one['reason']}")
        if result.report is not None:
            lines.line(f"report: {result.report}")
    if strict and result.not_current:
        lines.flush()
        raise typer.Exit(NOT_CURRENT)


def _spare_pandas() -> None:
    """Make pyarrow find no pandas, which it would import for its first array: 0.45 CPU s and 55 MB."""
    if "pandas" not in sys.modules and find_spec("pyarrow"):
        old = sys.modules["pandas"] = ModuleType("pandas")
        old.__version__ = "0"  # type: ignore[attr-defined]  # too old for pyarrow
        try:
            with warnings.catch_warnings(action="ignore"):
                import_module("pyarrow").array([0])
        finally:
            del sys.modules["pandas"]


pipeline.__doc__ = f"{cleandoc(pipeline.__doc__ or '')}\n\nThe file:\n{CONFIGURATION}"


def verify(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="The pipeline's configuration.")
    ],
    spark: Annotated[
        bool, typer.Option("--spark", help="Read the lake with Spark, as for large lakes.")
    ] = False,
    json: Json = False,
) -> None:
    """Prove that the lake's current tables equal the source at the lake's position.

    Checksums of ranges are made by the source's SQL and of the lake's files; where they differ, rows are
    compared. Rows that the binlog says were changed since are left out. Exit status 1 when a table
    differs or cannot be compared.
    """
    config.open("rb").close()
    module = extra_module("replica_client.lake.pipeline.runner", "spark")
    lines = Lines()
    report = module.verify_lake(config, console=Console(stderr=True), spark=spark)
    for table in report.tables:
        if json:
            # Rows hold dates and decimals.
            lines.json_text(dumps(asdict(table), ensure_ascii=False, default=str))
        else:
            _show_comparison(lines, table)
    if json:
        lines.json(
            {
                "position": report.position,
                "source_position": report.source_position,
                "equal": report.equal,
            }
        )
    else:
        equal = sum(table.outcome == "equal" for table in report.tables)
        lines.line(
            f"{equal} of {len(report.tables)} tables equal at {report.position}; the source was read up to "
            f"{report.source_position}"
        )
    if not report.equal:
        lines.flush()
        raise typer.Exit(FAULTY)


def _show_comparison(lines: Lines, table: Any) -> None:
    text = f"{table.table}: {table.outcome.replace('_', ' ')}"
    if table.outcome in ("equal", "different"):
        text += f", {table.rows:,} rows, {table.groups} groups"
    if table.narrowed:
        text += f", {table.narrowed} looked into"
    if table.changed_since:
        text += f", {table.changed_since} rows changed since"
    if table.different:
        text += f", {table.different:,} rows differ"
    lines.line(f"{text}: {table.reason}" if table.reason else text)
    for one in table.differences:
        lines.line(f"  {one.key}")
        lines.line(f"    source {_row(one.source)}")
        lines.line(f"    lake   {_row(one.lake)}")


def _row(row: dict[str, Any] | None) -> str:
    if row is None:
        return "has no such row"
    return ", ".join(f"{name}={value!r}" for name, value in row.items() if name[0] != "_")
