"""A sink of events that takes the rows of a snapshot among the changes of the stream.

Whoever reads the snapshot (:mod:`replica_client.daemon.running_snapshot`) does, between two transactions::

    await sink.commit(checkpoint)            # where anything was written
    if sink.takes_snapshot:
        await sink.write_snapshot(rows)      # a chunk of a table, in one call or several
        await sink.commit(checkpoint)        # commits the chunk, and how far the snapshot is

A chunk that was not committed is read again, and may then be another one: a sink that knows what was written by its
content takes all of it in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable
from urllib.parse import quote

from replica_client.codec.quick_dataclass import dataclass
from replica_client.position.position import Position
from replica_client.rows.row import Row
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.protocol import Sink


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Rows of a table as they were when they were read.

    Attributes:
        shape: of the table.
        columns: of the rows' values, in order.
        rows: the values.
        numbers: of the rows among those that were read of the table, from 0 on; some may be missing.
        low: what was committed before it is in the rows.
        high: what was committed behind it is not.
        timestamp: seconds since 1970 at which they were read.
        begins: no rows of the table come before them.
        ends: no rows of the table come behind them.
        first: no table comes before this one.
        last: no table with rows comes behind this one.
        before: rows that were read of the table before these.
        request: name of the request for a snapshot of the table; empty where the sink is new to it.
        blocking: the request wants its rows marked as those of a first copy: ``first`` and ``last`` are of it.
        source: the source's table, where several become this one; else empty.
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

    @property
    def name(self) -> str:
        """Tells a reading of these rows: another one with this name has the same rows."""
        table = f"{quote(self.shape.database)}.{quote(self.shape.table)}"
        window = f"{quote(self.low.file)}:{self.low.offset}-{self.high.offset}"
        if self.source:
            table = quote(self.source)
        return f"snapshot{quote(self.request)}:{window}:{table}:{self.before}"


@runtime_checkable
class SnapshotSink(Sink, Protocol):
    """See the module."""

    @property
    def takes_snapshot(self) -> bool:
        """Whether rows may be written now; not so while something is to come again as it came before."""
        ...

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        """Take rows; they count with the next commit.

        Raises:
            SinkError: they cannot be written now.
        """
        ...
