"""Sinks that can store initial copies of tables.

The copying code (:mod:`replica_client.daemon.first_copy`) opens the sink and, for each table::

    await sink.begin_copy(copy)              # an empty table
    while …:                                 # a chunk, read from one state of the table
        await sink.copy_rows(copy, rows)
        await sink.save_copy(copy)           # commits the chunk and the copy's progress
    await sink.save_copy(copy)               # with ``until``: the copy is done

Then the stream follows, from a position before all copies. :mod:`replica_client.tables.table_copy`
says which of its changes a copy already contains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from replica_client.rows.row import Row
from replica_client.sinks.protocol import Sink
from replica_client.tables.table_copy import TableCopy, TableName


@runtime_checkable
class CopyingSink(Sink, Protocol):
    """A sink that can store initial copies of tables. Nothing is written between copies."""

    @property
    def tables(self) -> Collection[TableName]:
        """Tables whose rows the sink holds, without those whose copy is unfinished."""
        ...

    @property
    def copies(self) -> Mapping[TableName, TableCopy]:
        """Copies that are still to be made, and copies that the stream has not passed yet."""
        ...

    async def want_copies(self, tables: Iterable[TableName]) -> None:
        """Request copies of tables from the beginning. The request survives a crash."""
        ...

    async def begin_copy(self, copy: TableCopy) -> None:
        """Replace the target table by an empty one; drop it if the source has no such table."""
        ...

    async def copy_rows(self, copy: TableCopy, rows: Sequence[Row]) -> None:
        """Add rows to a copy. The next :meth:`save_copy` commits them."""
        ...

    async def save_copy(self, copy: TableCopy) -> None:
        """Commit the added rows and the copy's progress together."""
        ...


@runtime_checkable
class ForgettingSink(CopyingSink, Protocol):
    """A sink that can forget tables which are no longer selected.

    A forgotten table is copied again when it is selected again.
    """

    async def forget_tables(self, tables: Iterable[TableName]) -> None:
        """Forget tables, in a transaction of its own. Their rows stay until the next copy.

        Raises:
            SinkError: the tables cannot be forgotten now.
        """
        ...
