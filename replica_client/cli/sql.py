"""``replica-client sql``: SQL over the tables in binlog files or of a live source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from replica_client.archive.arrow_tables import BinlogTables
from replica_client.archive.scan import scan_binlog
from replica_client.cli.flags import (
    AllowEmpty,
    InvalidText,
    Json,
    KeyFile,
    LetterCase,
    OnUnknownTable,
    RecordLosses,
    SchemaFile,
    Since,
    Threads,
    Until,
    decode_options,
)
from replica_client.cli.output import Column, Lines, cropped, terminal_width
from replica_client.cli.program import extra_module
from replica_client.cli.reading import ALLOW_EMPTY_HINT, schema_of
from replica_client.cli.sources import is_live, live_source, no_letter_case
from replica_client.errors import ConfigError, without_secrets
from replica_client.rows.json_values import json_text, plain_text
from replica_client.rows.table_files import csv_cell

_WIDEST = 60
_NARROWEST = 6
_LOOKED_AT = 1000


def sql(
    statement: Annotated[
        str,
        typer.Argument(
            metavar="[SQL]", help="One SELECT of DuckDB's SQL; without it the tables are listed."
        ),
    ],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARCHIVE", help="Binlog paths in order, a directory, a glob, or one URL."
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    schema: SchemaFile = None,
    lower_case_table_names: LetterCase = None,
    key_file: KeyFile = None,
    invalid_text: InvalidText = "strict",
    threads: Threads = 1,
    record_losses: RecordLosses = None,
    on_unknown_table: OnUnknownTable = None,
    allow_empty: AllowEmpty = False,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV with a heading.")] = False,
) -> None:
    """Ask binlog files in SQL: their tables are views named database.table.

    A table has a row for each change, and two for an update; _change_type, _commit_timestamp, _gtid, _file and _offset
    stand before its own columns. Only the columns that the statement names are decoded, and only the parts of
    the files that have rows of its tables. A live source is read up to the end that its binlog has now.

    Without SQL the tables, their columns and the numbers of their rows are listed. On a terminal wide rows are cropped;
    --json and --csv have all.

    A table that was altered in between has the columns of all its definitions, null where one has not.
    """
    if json and csv:
        raise ConfigError("give one of --json and --csv")
    if not sources:
        if not _names_an_archive(statement):
            raise ConfigError(
                f"sql: {statement[:60]!r} is not a binlog; give SQL and an archive, or only an "
                "archive to list its tables"
            )
        statement, sources = "", [statement]
    elif is_live(statement) or Path(statement).exists():
        raise ConfigError(
            f"{without_secrets(statement)} is a source: give the SQL first, then the sources"
        )
    url = live_source(sources)
    if url is not None:
        no_letter_case(lower_case_table_names)
    views = extra_module("replica_client.compat.duckdb_views", "duckdb")
    tables: BinlogTables = scan_binlog(
        url if url is not None else sources if len(sources) > 1 else sources[0],
        since=since,
        until=until,
        schema=schema_of(schema, None),
        options=decode_options(key_file, invalid_text=invalid_text),
        lower_case_table_names=lower_case_table_names,
        threads=threads,
        record_losses=record_losses or (),
        on_unknown_table=on_unknown_table,
    )
    if not statement:
        _list_tables(tables, json=json, csv=csv)
        return
    try:
        with views.rows_of(statement, tables) as (names, batches):
            rows = _rows(batches)
            if json:
                _write_json(names, rows)
            elif csv:
                _write_csv(names, rows)
            else:
                _write_table(names, rows)
    except views.UnknownSqlTableError as error:
        if not allow_empty:
            raise ConfigError(f"{error}{ALLOW_EMPTY_HINT}") from None


def _rows(batches: Any) -> Iterator[Sequence[Any]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _write_json(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    lines = Lines()
    keys = [json_text(name) for name in names]
    for row in rows:
        parts = (f"{key}: {json_text(value)}" for key, value in zip(keys, row, strict=True))
        lines.json_text("{" + ", ".join(parts) + "}")
    lines.flush()


def _write_csv(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    lines = Lines()
    lines.data(",".join(map(csv_cell, names)))
    for row in rows:
        texts = (None if value is None else plain_text(value) for value in row)
        lines.data(",".join(map(csv_cell, texts)))
    lines.flush()


def _write_table(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    """Columns as wide as what the first rows hold."""
    first: list[list[str]] = []
    right = [True] * len(names)
    for row in rows:
        first.append(_cells(row))
        for at, value in enumerate(row):
            right[at] &= value is None or (hasattr(value, "__float__") and value is not True)
        if len(first) >= _LOOKED_AT:
            break
    widths = [
        min(_WIDEST, max([len(name), *(len(line[at]) for line in first)]))
        for at, name in enumerate(names)
    ]
    crop: Callable[[list[str]], list[str]] = list
    if sys.stdout.isatty():
        widths = _fitting(widths, terminal_width(sys.stdout))
        crop = lambda cells: [cropped(one, width) for one, width in zip(cells, widths, strict=True)]  # noqa: E731
    columns = zip(crop(list(names)), widths, right, strict=True)
    lines = Lines([Column(*one) for one in columns], crops=True)
    lines.heading()
    for line in first:
        lines.row(crop(line))
    for row in rows:
        lines.row(crop(_cells(row)))
    lines.flush()


def _fitting(widths: list[int], width: int) -> list[int]:
    """Return widths that fit into a line, the widest columns narrowed; none below a few characters."""
    widths = list(widths)
    room = width - 2 * (len(widths) - 1)
    while sum(widths) > room:
        widest = max(widths)
        if widest <= _NARROWEST:
            break
        widths[widths.index(widest)] = widest - 1
    return widths


def _names_an_archive(text: str) -> bool:
    """Return whether an argument is a path, a glob or a URL, and no SQL."""
    return not text.strip() or " " not in text.strip() or Path(text).exists()


def _list_tables(tables: BinlogTables, *, json: bool, csv: bool) -> None:
    """Print each table, its number of rows, and its columns."""
    found = []
    for name, table in sorted(tables.items()):
        rows = sum(batch.num_rows for batch in table.select(["_change_type"]).reader())
        own = [column for column in table.schema.names if not column.startswith("_")]
        found.append((name, rows, own))
    if json:
        lines = Lines()
        for name, rows, own in found:
            lines.json({"table": name, "rows": rows, "columns": own})
        lines.flush()
    elif csv:
        _write_csv(("table", "rows", "columns"), iter([(a, b, " ".join(c)) for a, b, c in found]))
    else:
        _write_table(
            ("table", "rows", "columns"), iter([(a, b, ", ".join(c)) for a, b, c in found])
        )


def _cells(row: Sequence[Any]) -> list[str]:
    return ["NULL" if value is None else plain_text(value) for value in row]
