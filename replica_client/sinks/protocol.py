"""The interface of sinks.

A sink is driven by one task, in this order::

    checkpoint = await sink.open()
    while …:
        await sink.write(transaction)        # for each transaction, or part of one
        await sink.commit(checkpoint)        # now and then; never inside a transaction
    await sink.close()

A transaction with schema changes is alone between two commits: ``commit`` is called right before
it is written, if anything was written since the last commit, and right after it. A sink whose store
ends its own transaction at DDL can thus repeat the DDL alone.

``commit`` may be called with nothing written before it: the first call says where delivery begins,
and the position of an idle source moves on to its next files.

After a crash at any point the next ``open`` repairs unfinished work: transactions written since the
last ``commit`` that returned are either removed, or the sink recognizes and skips them when they
are written again. A sink that cannot do that says so by its :attr:`Sink.guarantee`.

After any error of ``write`` or ``commit`` the sink is closed. Then it, or a new one with the same
options, is opened again, and everything after the checkpoint is written again. An error may be
raised later than the transaction that caused it: :class:`~replica_client.errors.PoisonChangeError`
and :class:`~replica_client.errors.BinlogDecodeError` name the file and position of the rows event,
so that the change can be left out the next time.

Sinks of other packages are found by the entry point group ``replica_client.sinks``: a callable that
takes the sink's table of the configuration and returns a sink.

The copying code (:mod:`replica_client.service.first_copy`) opens the sink and, for each table::

    await sink.begin_copy(copy)              # an empty table
    while …:                                 # a chunk, read from one state of the table
        await sink.copy_rows(copy, rows)
        await sink.save_copy(copy)           # commits the chunk and the copy's progress
    await sink.save_copy(copy)               # with ``until``: the copy is done

Then the stream follows, from a position before all copies. :mod:`replica_client.stream.tables.net_changes`
says which of its changes a copy already contains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import quote

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.rows.row import Row
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.ownership import Owner
from replica_client.stream.tables.net_changes import TableCopy, TableName
from replica_client.stream.transactions.transaction import Transaction


class Guarantee(StrEnum):
    """How often a sink delivers a change if processes are killed and restarted."""

    EXACTLY_ONCE = "exactly-once"
    """Once: position and data are committed together, or a repeated change has no effect."""
    AT_LEAST_ONCE = "at-least-once"
    """Once, and again after a crash between the sink's commit and that of the position store."""


@runtime_checkable
class Sink(Protocol):
    """The destination of transactions.

    No method blocks the event loop. Rows are decoded when they are iterated.

    Attributes:
        guarantee: how often each change is delivered.
        holds_position: whether :meth:`commit` saves the checkpoint together with the data, and
            :meth:`open` returns it; otherwise a position store saves it after ``commit``.
    """

    guarantee: Guarantee
    holds_position: bool

    async def open(self) -> Checkpoint | None:
        """Prepare the sink, and repair what a crash left behind.

        Returns:
            The checkpoint of the last commit; None before the first commit, or if the sink holds
            none.

        Raises:
            SinkError: the sink cannot be used; the message says why and what to do.
        """
        ...

    async def write(self, transaction: Transaction) -> None:
        """Write a transaction, or a part of a very large one, in order.

        The sink may keep the transaction in memory, or write it where it takes effect only with
        :meth:`commit`.

        Raises:
            SinkError: the transaction cannot be written now; ``retriable`` says whether a later
                attempt may succeed.
            PoisonChangeError: one change can never be written; the error names it.
        """
        ...

    async def commit(self, checkpoint: Checkpoint) -> None:
        """Make all written transactions durable. They survive a crash once this method returns.

        Args:
            checkpoint: the position after the last written transaction, and its state.

        Raises:
            SinkError: see :meth:`write`; earlier commits stay intact.
        """
        ...

    async def close(self) -> None:
        """Release all resources, and drop uncommitted transactions. May be called at any time."""
        ...


SERVER_IDENTITY: Final = "SELECT @@hostname, @@port, @@datadir, @@server_id"
"""A query whose answer is of one server of MySQL or MariaDB only."""


@runtime_checkable
class ServerSink(Sink, Protocol):
    """A sink that writes to a server of MySQL or MariaDB."""

    async def server_identity(self) -> list[tuple[Any, ...]]:
        """Return what its server answers to :data:`SERVER_IDENTITY`; it need not be open."""
        ...


@runtime_checkable
class ProbedSink(Sink, Protocol):
    """A sink that can check whether it could be opened, without changing anything."""

    async def probe(self) -> None:
        """Check whether the sink can be used now.

        Nothing is created, and no other process is disturbed.

        Raises:
            SinkError: the sink cannot be used; the message says why and what to do.
        """
        ...


@runtime_checkable
class ReadSink(Sink, Protocol):
    """A sink whose position can be read while another process writes."""

    async def owners(self) -> Sequence[Owner]:
        """Return the identities that write to the destination.

        Called while the sink is not open. Nothing is created, changed or taken over.

        Raises:
            SinkError: the identities cannot be read now.
        """
        ...

    async def saved(self) -> Checkpoint | None:
        """Return the checkpoint of the last commit.

        Called while the sink is not open. Nothing is created, changed or taken over.

        Raises:
            SinkError: the checkpoint cannot be read now.
        """
        ...


@runtime_checkable
class AbortableSink(Sink, Protocol):
    """A sink whose calls may hang in a thread, where cancelling a task does not end them."""

    def abort(self) -> None:
        """Break the connection, so that a hanging call fails.

        Called from the event loop; does not block.
        """
        ...


@runtime_checkable
class ReplacingSink(Sink, Protocol):
    """A sink that may store another value for a value that its destination cannot store."""

    @property
    def replaced_values(self) -> int:
        """Number of values replaced since the sink was built, including repetitions."""
        ...


@runtime_checkable
class GroupSink(Sink, Protocol):
    """A sink that takes many small transactions in one call."""

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        """Write transactions in order, as :meth:`Sink.write` does.

        They are whole, and have only rows: no schema changes, statements or losses.

        Args:
            transactions: at least one.
            size: total bytes of their rows events.

        Raises:
            SinkError: see :meth:`Sink.write`.
            PoisonChangeError: see :meth:`Sink.write`.
        """
        ...


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


# Event sinks that take rows of a snapshot between the changes of the stream.
#
# The reader of the snapshot (:mod:`replica_client.service.running_snapshot`) does, between two
# transactions::
#
#     await sink.commit(checkpoint)            # if anything was written
#     if sink.takes_snapshot:
#         await sink.write_snapshot(rows)      # a chunk of a table, in one call or several
#         await sink.commit(checkpoint)        # commits the chunk and the progress
#
# A chunk that was not committed is read again, and may then have other rows: a sink that recognizes
# repeated output by its content must write a chunk in one transaction.


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
        copy: what tells apart copies of one position: how rows look, and the copies before.
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
    copy: str = ""
    flavor: ServerFlavor = ServerFlavor.MYSQL

    @property
    def name(self) -> str:
        """Unique name of this reading of rows: readings with equal names have equal rows."""
        table = f"{quote(self.shape.database)}.{quote(self.shape.table)}"
        window = f"{quote(self.low.file)}:{self.low.offset}-{self.high.offset}"
        if self.source:
            table = quote(self.source)
        copy = f"~{self.copy}" if self.copy else ""
        return f"snapshot{quote(self.request)}{copy}:{window}:{table}:{self.before}"


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
