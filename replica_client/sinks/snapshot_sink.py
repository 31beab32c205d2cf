"""Event sinks that take rows of a snapshot between the changes of the stream.

The reader of the snapshot (:mod:`replica_client.service.running_snapshot`) does, between two
transactions::

    await sink.commit(checkpoint)            # if anything was written
    if sink.takes_snapshot:
        await sink.write_snapshot(rows)      # a chunk of a table, in one call or several
        await sink.commit(checkpoint)        # commits the chunk and the progress

A chunk that was not committed is read again, and may then have other rows: a sink that recognizes
repeated output by its content must write a chunk in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable
from urllib.parse import quote

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.rows.row import Row
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.protocol import Sink


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Rows of a table as they were when they were read.

    Attributes:
        shape: shape of the table.
        columns: columns of the row values, in order.
        rows: the values.
        numbers: numbers of the rows among all rows read from the table, from 0; some may be
            missing.
        low: position before which all commits are in the rows.
        high: position after which no commit is in the rows.
        timestamp: time of reading, in seconds since 1970.
        begins: whether these are the first rows of the table.
        ends: whether these are the last rows of the table.
        first: whether this is the first table.
        last: whether no table with rows follows.
        before: number of rows read from the table before these.
        request: name of the snapshot request for the table; empty for the initial snapshot of the
            sink.
        blocking: whether rows of the request are marked like those of an initial snapshot;
            ``first`` and ``last`` then refer to the request.
        source: the source's table, if several are merged into this one; else empty.
        flavor: of the source. Positions of a snapshot have no GTIDs, which would tell it.
    """

    shape: TableShape
    columns: tuple[ColumnShape, ...]
    rows: Sequence[Row]
    numbers: Sequence[int]
    low: Position
    high: Position
    timestamp: int
    begins: bool = False
    ends: bool = False
    first: bool = False
    last: bool = False
    before: int = 0
    request: str = ""
    blocking: bool = False
    source: str = ""
    flavor: ServerFlavor = ServerFlavor.MYSQL

    @property
    def name(self) -> str:
        """Unique name of this reading of rows: readings with equal names have equal rows."""
        table = f"{quote(self.shape.database)}.{quote(self.shape.table)}"
        window = f"{quote(self.low.file)}:{self.low.offset}-{self.high.offset}"
        if self.source:
            table = quote(self.source)
        return f"snapshot{quote(self.request)}:{window}:{table}:{self.before}"


@runtime_checkable
class SnapshotSink(Sink, Protocol):
    """An event sink that takes snapshot rows; see the module."""

    @property
    def takes_snapshot(self) -> bool:
        """Whether rows may be written now.

        False while the sink must skip changes that it wrote before a crash.
        """
        ...

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        """Write snapshot rows. The next commit makes them durable.

        Raises:
            SinkError: the rows cannot be written now.
        """
        ...
