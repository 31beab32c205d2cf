"""Binlog files or a live source as tables, for any library that reads Arrow."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from replica_client._compiled import tell_plain
from replica_client.archive.arrow_tables import BinlogTables, TableSource
from replica_client.errors import ConfigError
from replica_client.options import checked_arguments
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.stream.files.file_bytes import FileSource, binlog_files
from replica_client.stream.files.file_order import check_files, check_position
from replica_client.stream.transactions.arguments import (
    assembly_of,
    decode_of,
    parse_start,
    stop_of,
)

_URLS = ("mysql://", "mariadb://")


@checked_arguments(
    options=(DecodeOptions, "rc.DecodeOptions(…)"),
    schema=(SchemaHistory, "a rc.SchemaHistory, as stream.history is"),
)
def scan_binlog(
    source: FileSource,
    *,
    tables: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    since: Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None = None,
    until: Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None = None,
    where: str | None = None,
    keys: Mapping[str, bytes] | None = None,
    options: DecodeOptions | None = None,
    schema: SchemaHistory | None = None,
    full_rows: bool = False,
    record_losses: Collection[str] | str = (),
    allow_empty: bool = False,
    on_statement: Literal["error", "deliver"] | None = None,
    on_unknown_table: Literal["error", "positional"] | None = None,
    invalid_text: Literal["strict", "replace", "bytes"] | None = None,
    temporals: Literal["lossless", "python"] | None = None,
    lower_case_table_names: int | None = None,
    threads: int = 1,
    max_rows: int = 16384,
) -> BinlogTables:
    """Return the row changes in binlog files or of a live source as one Arrow table for each table.

    Nothing is read until a table is looked up. A live source is read from ``since`` to the end that
    its binlog has when its tables are first read.

    Args:
        source: a path, a glob, a directory (also one of ``replica-client backup``), a list of them
            in order, a binary file object, bytes, or the URL of a live source.
        tables: patterns ``database.table`` (``*``, ``?``) of the wanted tables; None takes all.
        exclude: patterns of unwanted tables.
        columns: names of the wanted columns, in this order, for all tables or by table pattern;
            change columns (``_change_type`` …) among them. None: all.
        since: where to start: a position, a GTID set or a time; None: with the first file, also of
            a live source.
        until: where to stop: the first transaction that begins there or later is not read.
        where: a condition that one of a change's rows must meet, as ``changes --where`` takes it.
        keys: encryption keys by id, see :class:`~replica_client.protocol.binlog.context.DecodeOptions`.
        options: how values are decoded.
        schema: the definitions of the tables at the start.
        full_rows: raise an error for row images that lack wanted columns.
        record_losses: kinds of losses that do not stop the reading; see
            :class:`~replica_client.stream.transactions.assembler.AssemblyOptions`.
        allow_empty: accept a pattern of ``tables`` that matches no table; otherwise it is an error when
            the tables are looked up.
        on_statement: a row change that was logged as text: ``error`` stops with ``DataLossError``,
            ``deliver`` returns it as a statement of its transaction; None: ``error``.
        on_unknown_table: a table whose column names nothing proves: ``error`` stops with
            ``UnknownTableError``, ``positional`` names its columns ``col_1``, ``col_2`` …; None:
            ``error`` for a live source, ``positional`` for files.
        invalid_text: bytes that are not text of their character set: ``strict`` stops, ``replace``
            puts U+FFFD, ``bytes`` returns the bytes; None: ``strict``.
        temporals: ``lossless`` returns :class:`~replica_client.DateTime` and its kin, ``python``
            the types of :mod:`datetime`, which have no zero dates; None: ``lossless``.
        lower_case_table_names: the setting of the server that wrote the files; None: not known.
        threads: number of threads that decode files; the order of the rows stays.
        max_rows: maximum number of rows in a batch.

    Raises:
        ConfigError: no such file, an option is wrong, or pyarrow is not installed.
    """
    given = locals()
    begin, end = parse_start(since, "earliest", "since"), parse_start(until, "latest", "until")
    end = stop_of(begin, end)
    if begin == "latest" or end == "earliest":
        raise ConfigError("a scan goes from a position or a time to a position or a time")
    assembly, decode = assembly_of({**given, "columns": None}), decode_of(given)
    import replica_client.rows.batching  # noqa: F401 - tells when pyarrow is not installed

    found: TableSource
    if isinstance(source, str) and source.startswith(_URLS):
        from replica_client.archive.contents import LiveTables

        if isinstance(end, Position) and not end.file:
            raise ConfigError("until: of a live source it is FILE:OFFSET or a time")
        found = LiveTables(source, assembly, decode, begin, end, schema)
    else:
        from replica_client.archive.contents import FileTables

        files = binlog_files(source)
        check_files(files, decode)
        for option, one in (("since", begin), ("until", end)):
            if isinstance(one, Position) and one.file and files[0].path is not None:
                check_position(one, files, option, decode)
        found = FileTables(
            files, assembly, decode, begin, end, schema, lower_case_table_names, threads
        )
    tell_plain()
    return BinlogTables(found, columns, where, max_rows, allow_empty=allow_empty)
