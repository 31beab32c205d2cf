"""Row changes and the transactions that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.options import DecodeOptions
from replica_client.rows.row import Row, row_class
from replica_client.schema.shape import TableShape

if TYPE_CHECKING:
    from replica_client.rows.image import RowImageDecoder

ChangeKind = Literal["insert", "update", "delete"]


@dataclass(frozen=True, slots=True)
class Change:
    """One changed row.

    Attributes:
        kind: ``insert``, ``update`` or ``delete``.
        database: the table's database (schema) name.
        table: the table's name.
        before: the row before the change; None for an insert.
        after: the row after the change; None for a delete.
        file: binlog file of the rows event.
        position: 64-bit offset of the rows event in the file.
        event_index: index of the event in its transaction; the first event has 0, and the events
            inside a transaction payload count on from it.
        row_index: index of the row in its event.
        gtid: the transaction's GTID as text, ``""`` when it has none.
        timestamp: seconds since 1970 when the statement began on the source.
        shape: names and types of the columns.
    """

    kind: ChangeKind
    database: str
    table: str
    before: Row | None
    after: Row | None
    file: str
    position: int
    event_index: int
    row_index: int
    gtid: str
    timestamp: int
    shape: TableShape


@dataclass(frozen=True, slots=True)
class RowsOfEvent:
    """The rows of one rows event, decoded when iterated.

    Attributes:
        event: the rows event with its place.
        shape: of the table that it changes.
        decoder: decodes its row images.
        event_index: see :class:`Change`.
        first_row: rows before this index were delivered already and are passed over.
        gtid: see :class:`Change`.
    """

    event: BinlogEvent
    shape: TableShape
    decoder: RowImageDecoder
    event_index: int
    first_row: int
    gtid: str

    def __iter__(self) -> Iterator[Change]:
        event, shape = self.event, self.shape
        make_row = row_class(self.decoder.column_names)
        for row_index, (before, after) in enumerate(self.decoder.iter_event(event)):
            if row_index < self.first_row:
                continue
            yield Change(
                event.body.kind,
                shape.database,
                shape.table,
                None if before is None else make_row(before),
                None if after is None else make_row(after),
                event.file,
                event.position,
                self.event_index,
                row_index,
                self.gtid,
                event.header.timestamp,
                shape,
            )


__all__ = ["Change", "ChangeKind", "DecodeOptions", "RowsOfEvent"]
