"""Row changes of one table as Parquet, Arrow or CSV.

The columns are those of record batches (``_change_type`` and so on, then the table's own), without
``_lossless``: texts lose nothing. An update is two lines, ``update_preimage`` and ``update_postimage``.

A cell is the value's JSON text (:mod:`replica_client.rows.json_values`), strings without their quotes. SQL
NULL is an empty cell, the empty string is ``""``; the columns that a row image left out are empty, too, and
``_absent`` names them, as a JSON list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.errors import ConfigError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import value_to_json
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import ABSENT
from replica_client.schema.names import check_names
from replica_client.storage.durable import create_temporary, publish_file

BatchFormat = Literal["parquet", "arrow"]


class BatchFile:
    """A Parquet file or Arrow stream of one table's changes, in the form of its record batches.

    A file appears under its name when it is complete, at :meth:`finish`.

    Args:
        target: a path that does not exist, or a binary stream, which takes only the Arrow stream
            format.
        format: ``parquet``, or ``arrow`` for the Arrow IPC stream format.

    Raises:
        ConfigError: the path exists.
        OSError: the file cannot be created.
    """

    def __init__(self, target: Path | IO[bytes], format: BatchFormat) -> None:
        self._path = target if isinstance(target, Path) else None
        self._format = format
        if isinstance(target, Path):
            if target.exists():
                raise ConfigError(f"{target}: this file exists; name a new one, or remove it")
            descriptor, self._part = create_temporary(target)
            self._stream: IO[bytes] = os.fdopen(descriptor, "wb")
        else:
            self._stream = target
        self._writer: Any = None
        self._builder: BatchBuilder | None = None
        self._table: tuple[str, str] = ("", "")

    def add_rows(self, rows: RowsOfEvent, commit_version: str, commit_timestamp_us: int) -> None:
        """Add all rows of an event.

        Raises:
            ConfigError: they are of another table, or the table's columns changed.
            BinlogDecodeError: they cannot be decoded.
            OSError: the file cannot be written.
        """
        for batch in self._builder_of(rows).append_rows(rows, commit_version, commit_timestamp_us):
            self._write(batch)

    def add_change(
        self, rows: RowsOfEvent, change: Change, commit_version: str, commit_timestamp_us: int
    ) -> None:
        """Add one row of an event; raises the errors of :meth:`add_rows`."""
        builder = self._builder_of(rows)
        if len(builder) + 2 > _MAX_ROWS:
            self._write(builder.finish())
        builder.append(change, commit_version, commit_timestamp_us)

    def check(self, rows: RowsOfEvent) -> None:
        """Refuse rows that the file cannot hold, before any of their transaction is added.

        Raises:
            ConfigError: as for :meth:`add_rows`.
        """
        self._builder_of(rows)

    def discard(self) -> None:
        """Remove the unfinished file."""
        if self._path is not None:
            self._stream.close()
            self._part.unlink(missing_ok=True)

    def flush(self) -> None:
        """Write all added rows, so that a stream's reader gets them.

        Raises:
            OSError: they cannot be written.
        """
        if self._builder is not None and len(self._builder):
            self._write(self._builder.finish())
        self._stream.flush()

    def finish(self) -> bool:
        """Write the end and give the file its name; return False if there were no rows.

        Raises:
            OSError: the file cannot be written.
        """
        self.flush()
        if self._writer is not None:
            self._writer.close()
        if self._path is None:
            self._stream.flush()
            return self._writer is not None
        self._stream.flush()
        self._stream.close()
        if self._writer is None:
            self._part.unlink()
            return False
        publish_file(self._part, self._path)
        return True

    def _builder_of(self, rows: RowsOfEvent) -> BatchBuilder:
        builder = self._builder
        if builder is not None and builder.decoder is rows.decoder:
            return builder
        table = (rows.shape.database, rows.shape.table)
        made = BatchBuilder(rows.shape, None, rows.decoder.options, rows.decoder, _MAX_ROWS)
        if builder is not None:
            where = f"file {rows.event.file}, position {rows.event.position}"
            if table != self._table:
                raise ConfigError(
                    f"{where}: a {self._format} file holds one table, {'.'.join(self._table)}, and here is"
                    f" {'.'.join(table)}; choose one with --table, or take --json"
                )
            if not made.schema.equals(builder.schema):
                raise ConfigError(
                    f"{where}: the columns of {'.'.join(table)} changed; go on in another file: with"
                    " --position-file the next run begins there"
                )
            if len(builder):
                self._write(builder.finish())
        self._builder, self._table = made, table
        return made

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            if self._format == "parquet":
                self._writer = pq.ParquetWriter(self._stream, batch.schema, compression="zstd")
            else:
                self._writer = pa.ipc.new_stream(self._stream, batch.schema, options=_IPC)
        self._writer.write_batch(batch)


_MAX_ROWS = 16384
# Later batches replace the dictionaries, which the stream format allows.
_IPC = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False)


CHANGE_COLUMNS = (
    *("_change_type", "_commit_timestamp", "_commit_version", "_gtid", "_file", "_offset"),
    *("_event_index", "_row_index", "_absent"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTED = frozenset('",\r\n')


class CsvLines:
    """A writer of CSV lines, the heading first."""

    def __init__(self) -> None:
        self._table: tuple[str, str] | None = None
        self._columns: tuple[str, ...] = ()

    def lines(self, change: Change, commit_version: str, commit_timestamp_us: int) -> Iterator[str]:
        """Yield the lines of a change, without line ends.

        Raises:
            ConfigError: the change is of another table, or the table's columns changed.
            ColumnDecodeError: the bytes of a JSON document are malformed.
        """
        row = change.after if change.before is None else change.before
        if row is None:
            return
        if self._table != (change.database, change.table) or self._columns != row.columns:
            yield self._heading(change, row.columns)
        moment = _EPOCH + timedelta(microseconds=commit_timestamp_us)
        common = (
            *(f"{moment:%Y-%m-%d %H:%M:%S.%f}", commit_version, change.gtid, change.file),
            *(str(change.offset), str(change.event_index), str(change.row_index)),
        )
        if change.before is None or change.after is None:
            yield _line(change.kind, common, row)
        else:
            yield _line("update_preimage", common, change.before)
            yield _line("update_postimage", common, change.after)

    def _heading(self, change: Change, columns: tuple[str, ...]) -> str:
        table = (change.database, change.table)
        where = f"file {change.file}, position {change.offset}"
        if self._table not in (None, table):
            raise ConfigError(
                f"{where}: CSV holds one table, {'.'.join(self._table or ())}, and here is"
                f" {'.'.join(table)}; choose one with --table, or take --json"
            )
        if self._table is not None:
            raise ConfigError(
                f"{where}: the columns of {'.'.join(table)} changed; go on in another file: with"
                " --position-file the next run begins there"
            )
        check_names("batches", ".".join(table), columns, "the change columns have", "take --json")
        self._table, self._columns = table, columns
        return ",".join(map(csv_cell, (*CHANGE_COLUMNS, *columns)))


def _line(kind: str, common: tuple[str, ...], row: Row) -> str:
    absent = [name for name, value in zip(row.columns, row, strict=True) if value is ABSENT]
    left_out = json.dumps(absent, ensure_ascii=False) if absent else None
    return ",".join((kind, *map(csv_cell, (*common, left_out)), *map(_value, row)))


def _value(value: Any) -> str:
    if value is None or value is ABSENT:
        return ""
    text = value_to_json(value)
    # A JSON document that is a string keeps its quotes, to differ from a number or a literal.
    is_text = text[0] == '"' and not isinstance(value, JsonDocument)
    return csv_cell(json.loads(text) if is_text else text)


def csv_cell(text: str | None) -> str:
    """Return a text as a CSV cell: nothing for NULL, quotes for the empty text."""
    if text is None:
        return ""
    if text and _QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'
