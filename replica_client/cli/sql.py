"""``replica-client sql``: SQL over the tables in binlog files or of a live source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from replica_client.archive.arrow_tables import BinlogTables
from replica_client.archive.scan import scan_binlog
from replica_client.cli.decode_options import InvalidText, KeyFile, decode_options
from replica_client.cli.extras import extra_module
from replica_client.cli.loss_report import ALLOW_EMPTY_HINT
from replica_client.cli.output import Column, Lines
from replica_client.cli.schema_file import LetterCase, SchemaFile, schema_of
from replica_client.cli.sources import is_live, live_source, no_letter_case
from replica_client.errors import ConfigError, without_secrets
from replica_client.rows.change_csv import csv_cell
from replica_client.rows.query_values import json_text, plain_text

EXAMPLE = 'replica-client sql "SELECT _change_type, count(*) FROM shop.orders GROUP BY 1" binlogs'

_WIDEST = 60
_LOOKED_AT = 1000


def sql(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT of DuckDB's SQL.")],
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="ARCHIVE", help="Binlog paths in order, a directory, a glob, or one URL."
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option(metavar="START", help="FILE:OFFSET, a GTID set, or a time."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="STOP", help="The same: what begins there or later is not read."),
    ] = None,
    schema: SchemaFile = None,
    lower_case_table_names: LetterCase = None,
    key_file: KeyFile = None,
    invalid_text: InvalidText = "strict",
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads that decode files.")
    ] = 1,
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty",
            help="A statement on a table without rows has no answer; else it is an error.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV with a heading.")] = False,
) -> None:
    """Ask binlog files in SQL: their tables are views named database.table.

    A table has a row for each change, and two for an update; _change_type, _commit_timestamp, _gtid, _file and _offset
    stand before its own columns. Only the columns that the statement names are decoded, and only the parts of
    the files that have rows of its tables. A live source is read up to the end that its binlog has now.

    A table that was altered in between has the columns of all its definitions, null where one has not.
    """
    if json and csv:
        raise ConfigError("give one of --json and --csv")
    if is_live(statement) or Path(statement).exists():
        raise ConfigError(
            f"{without_secrets(statement)} is a source: give the SQL first, then the sources"
        )
    url = live_source(sources)
    if url is not None:
        no_letter_case(lower_case_table_names)
    views = extra_module("replica_client.integrations.duckdb_views", "duckdb")
    tables: BinlogTables = scan_binlog(
        url if url is not None else sources if len(sources) > 1 else sources[0],
        since=since,
        until=until,
        schema=schema_of(schema, None),
        options=decode_options(key_file, invalid_text=invalid_text),
        lower_case_table_names=lower_case_table_names,
        threads=threads,
    )
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
    lines = Lines([Column(*one) for one in zip(names, widths, right, strict=True)])
    lines.heading()
    for line in first:
        lines.row(line)
    for row in rows:
        lines.row(_cells(row))
    lines.flush()


def _cells(row: Sequence[Any]) -> list[str]:
    return ["NULL" if value is None else plain_text(value) for value in row]
