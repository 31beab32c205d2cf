# cython: boundscheck=False, wraparound=False
"""One row change, and what the changes of a rows event have in common.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import Any, Literal

import cython

from replica_client.rows.row import Row
from replica_client.schema.shape import TableShape

ChangeKind = Literal["insert", "update", "delete"]


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class ChangeOrigin:
    """What the changes of one rows event have in common.

    Args:
        gtid: the transaction's GTID, without its number where that is not 0.
        gtid_number: that number.

    The other arguments are attributes of :class:`Change`.
    """

    def __init__(
        self,
        kind: ChangeKind,
        database: str,
        table: str,
        shape: TableShape,
        file: str,
        position: cython.longlong,
        event_index: cython.longlong,
        gtid: str,
        timestamp: cython.longlong,
        gtid_number: cython.longlong = 0,
    ) -> None:
        self.kind: ChangeKind = kind
        self.shape: TableShape = shape
        self.database = database
        self.table = table
        self.file = file
        self.position = position
        self.event_index = event_index
        self._gtid = gtid
        self._gtid_number = gtid_number
        self.timestamp = timestamp

    @cython.cfunc
    def gtid(self) -> str:
        """The transaction's GTID as text, made when first asked for."""
        if self._gtid_number:
            self._gtid = f"{self._gtid}{self._gtid_number}"
            self._gtid_number = 0
        return self._gtid


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
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

    __slots__ = ("_after", "_before", "_origin", "_row_index")
    __match_args__ = ("kind", "database", "table", "before", "after")

    def __init__(
        self,
        kind: ChangeKind,
        database: str,
        table: str,
        before: Row | None,
        after: Row | None,
        file: str,
        position: int,
        event_index: int,
        row_index: int,
        gtid: str,
        timestamp: int,
        shape: TableShape,
    ) -> None:
        self._origin = ChangeOrigin(
            kind, database, table, shape, file, position, event_index, gtid, timestamp
        )
        self._before: Row | None = before
        self._after: Row | None = after
        self._row_index = row_index

    @property
    def kind(self) -> ChangeKind:
        """See the class."""
        return self._origin.kind

    @property
    def database(self) -> str:
        """See the class."""
        return self._origin.database

    @property
    def table(self) -> str:
        """See the class."""
        return self._origin.table

    @property
    def before(self) -> Row | None:
        """See the class."""
        return self._before

    @property
    def after(self) -> Row | None:
        """See the class."""
        return self._after

    @property
    def row_index(self) -> int:
        """See the class."""
        return int(self._row_index)

    @property
    def file(self) -> str:
        """See the class."""
        return self._origin.file

    @property
    def position(self) -> int:
        """See the class."""
        return int(self._origin.position)

    @property
    def event_index(self) -> int:
        """See the class."""
        return int(self._origin.event_index)

    @property
    def gtid(self) -> str:
        """See the class."""
        gtid: str = self._origin.gtid()
        return gtid

    @property
    def timestamp(self) -> int:
        """See the class."""
        return int(self._origin.timestamp)

    @property
    def shape(self) -> TableShape:
        """See the class."""
        return self._origin.shape

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.kind,
            self.database,
            self.table,
            self.before,
            self.after,
            self.file,
            self.position,
            self.event_index,
            self.row_index,
            self.gtid,
            self.timestamp,
            self.shape,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return bool(self._fields() == other._fields())

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Change(kind={self.kind!r}, database={self.database!r}, table={self.table!r}, "
            f"before={self.before!r}, after={self.after!r}, file={self.file!r}, "
            f"position={self.position}, event_index={self.event_index}, "
            f"row_index={self.row_index}, gtid={self.gtid!r}, timestamp={self.timestamp})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Change, self._fields()
