"""A sink that can hold first copies of tables.

Whoever copies (:mod:`replica_client.daemon.first_copy`) opens the sink and, for each table::

    await sink.begin_copy(copy)              # an empty table
    while …:                                 # a chunk, that is read in one state of the table
        await sink.copy_rows(copy, rows)
        await sink.save_copy(copy)           # commits the chunk, and how far the copy is
    await sink.save_copy(copy)               # with ``until``: it is done

Then the stream comes, from a position before all copies on; :mod:`replica_client.tables.table_copy` tells what of it a
copy holds already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from replica_client.rows.row import Row
from replica_client.sinks.protocol import Sink
from replica_client.tables.table_copy import TableCopy, TableName


@runtime_checkable
class CopyingSink(Sink, Protocol):
    """A sink that can hold first copies of tables. Between them nothing is written."""

    @property
    def tables(self) -> Collection[TableName]:
        """Tables whose rows it holds; copies that are not done are not among them."""
        ...

    @property
    def copies(self) -> Mapping[TableName, TableCopy]:
        """Copies that are to be made, and those that the stream has not passed yet."""
        ...

    async def want_copies(self, tables: Iterable[TableName]) -> None:
        """These tables are to be copied from the beginning; it survives a crash."""
        ...

    async def begin_copy(self, copy: TableCopy) -> None:
        """Have an empty table, or none where the source has none, in place of any that is there."""
        ...

    async def copy_rows(self, copy: TableCopy, rows: Sequence[Row]) -> None:
        """Add rows; they count with the next :meth:`save_copy`."""
        ...

    async def save_copy(self, copy: TableCopy) -> None:
        """Commit the rows, and how far the copy is, together."""
        ...


@runtime_checkable
class ForgettingSink(CopyingSink, Protocol):
    """A sink that can forget tables which are not wanted any more, so that they are copied when they come back."""

    async def forget_tables(self, tables: Iterable[TableName]) -> None:
        """Forget some tables, in a transaction of its own; their rows stay until they are copied again.

        Raises:
            SinkError: it cannot be done now.
        """
        ...
