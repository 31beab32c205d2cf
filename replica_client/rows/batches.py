"""Row changes of one table and shape as Arrow record batches."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from replica_client.binlog.options import DecodeOptions
from replica_client.rows.absent import ABSENT
from replica_client.rows.arrow_types import arrow_column
from replica_client.rows.change import Change
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row import Row
from replica_client.schema.shape import TableShape

CHANGE_FIELDS = (
    pa.field("_change_type", pa.string(), nullable=False),
    pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
    pa.field("_commit_version", pa.string(), nullable=False),
    pa.field("_gtid", pa.string(), nullable=False),
    pa.field("_file", pa.string(), nullable=False),
    pa.field("_offset", pa.int64(), nullable=False),
    pa.field("_event_index", pa.int64(), nullable=False),
    pa.field("_row_index", pa.int64(), nullable=False),
    pa.field("_absent", pa.list_(pa.string())),
    pa.field("_lossless", pa.map_(pa.string(), pa.string())),
)
"""The change columns that stand before a table's own.

``_absent`` names the columns that the row image left out (they are null in the batch), null when it
has all. ``_lossless`` holds MySQL's text of values that their Arrow type cannot hold, by column (zero
and partial dates; null in the batch), null when there is none. ``_commit_version`` is the same for all
rows of a transaction and sorts as the transactions do.
"""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class BatchBuilder:
    """Collects changes of one table and shape.

    Args:
        shape: of the table.
        columns: names of the columns to take, None for all.
        options: how values were decoded.

    Attributes:
        shape: of the table.
        decoder: of the rows that are appended, when its owner wants to remember it.
        schema: of the batches.
    """

    def __init__(
        self,
        shape: TableShape,
        columns: tuple[str, ...] | None = None,
        options: DecodeOptions | None = None,
    ) -> None:
        self.shape = shape
        self.decoder: RowImageDecoder | None = None
        wanted = [c for c in shape.columns if columns is None or c.name in columns]
        self._columns = [(c.name, arrow_column(c, options)) for c in wanted]
        self.schema = pa.schema(
            [*CHANGE_FIELDS, *(pa.field(name, column.type) for name, column in self._columns)],
            metadata={b"database": shape.database.encode(), b"table": shape.table.encode()},
        )
        self._values: list[list[Any]] = [[] for _ in self.schema]

    def __len__(self) -> int:
        return len(self._values[0])

    def append(self, change: Change, commit_version: str, commit_timestamp_us: int) -> None:
        """Add a change: one row, two for an update."""
        if change.kind == "update":
            assert change.before is not None
            assert change.after is not None
            self._row("update_preimage", change, change.before, commit_version, commit_timestamp_us)
            self._row("update_postimage", change, change.after, commit_version, commit_timestamp_us)
        else:
            row = change.after if change.before is None else change.before
            assert row is not None
            self._row(change.kind, change, row, commit_version, commit_timestamp_us)

    def _row(
        self, change_type: str, change: Change, row: Row, commit_version: str, timestamp_us: int
    ) -> None:
        absent: list[str] = []
        lossless: list[tuple[str, str]] = []
        values = self._values
        at = len(CHANGE_FIELDS)
        for name, column in self._columns:
            value = row[name]
            if value is ABSENT:
                absent.append(name)
                converted = None
            elif value is None:
                converted = None
            else:
                converted = column.convert(value)
                if converted is None:
                    lossless.append((name, str(value)))
            values[at].append(converted)
            at += 1
        head = (
            change_type,
            timestamp_us,
            commit_version,
            change.gtid,
            change.file,
            change.position,
            change.event_index,
            change.row_index,
            absent or None,
            lossless or None,
        )
        for column_values, value in zip(values, head, strict=False):
            column_values.append(value)

    def finish(self) -> pa.RecordBatch:
        """The batch; the builder is empty afterwards."""
        arrays = [
            _array(values, field.type)
            for values, field in zip(self._values, self.schema, strict=True)
        ]
        self._values = [[] for _ in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)
