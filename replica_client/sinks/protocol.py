"""The protocol of sinks: where changes go, and what a sink guarantees.

A sink is driven by one task, in this order::

    checkpoint = await sink.open()
    while …:
        await sink.write(transaction)        # as often as there are transactions (or parts)
        await sink.commit(checkpoint)        # now and then; never inside a transaction
    await sink.close()

A transaction with schema changes stands alone between two commits: ``commit`` is called right before
it is written, where anything was written since the last one, and right after it. A sink whose store
ends its own transaction at DDL can thus repeat the DDL alone.

``commit`` may come with nothing written before it: the first one says where delivery begins, and an
idle source's files move on.

After a crash at any point the next ``open`` repairs what was left half done: what was written since the
last ``commit`` that returned is either gone, or is known to the sink and passed over when it comes
again. A sink that cannot do that says so by its :attr:`Sink.guarantee`.

After any error of ``write`` or ``commit`` the sink is closed; then it, or a new one with the same
options, is opened again, and everything behind the checkpoint is written again. An error may come
later than the transaction that it is about: :class:`~replica_client.errors.PoisonChangeError` and
:class:`~replica_client.errors.BinlogDecodeError` name the file and position of the rows event, so that
the change can be left out the next time.

Sinks of others are found by the entry point group ``replica_client.sinks``: a callable that takes the
sink's table of the configuration and returns a sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.ownership import Owner
from replica_client.readers.transaction import Transaction


class Guarantee(StrEnum):
    """How often a sink shows a change when processes are killed and started again."""

    EXACTLY_ONCE = "exactly-once"
    """Once: position and data are committed together, or what comes again changes nothing."""
    AT_LEAST_ONCE = "at-least-once"
    """Once, and again where a crash fell between the sink's commit and the store's."""


@runtime_checkable
class Sink(Protocol):
    """Where transactions go.

    No method blocks the event loop. Rows are decoded when they are iterated.

    Attributes:
        guarantee: what is promised of each change.
        holds_position: whether :meth:`commit` keeps the checkpoint together with the data, and
            :meth:`open` gives it back; otherwise a position store keeps it, after ``commit``.
    """

    guarantee: Guarantee
    holds_position: bool

    async def open(self) -> Checkpoint | None:
        """Prepare the sink, and repair what a crash left behind.

        Returns:
            The checkpoint of the last commit, None when there is none or the sink holds none.

        Raises:
            SinkError: it cannot be used; says why and what to do.
        """
        ...

    async def write(self, transaction: Transaction) -> None:
        """Take a transaction, or a part of a very large one, in order.

        It may be kept in memory, or written where only :meth:`commit` makes it count.

        Raises:
            SinkError: it cannot be written now; ``retriable`` tells whether the same may work later.
            PoisonChangeError: one change can never be written; names it.
        """
        ...

    async def commit(self, checkpoint: Checkpoint) -> None:
        """Make all that was written durable; when this returns it survives a crash.

        Args:
            checkpoint: the position behind the last transaction that was written, and its state.

        Raises:
            SinkError: see :meth:`write`; what was committed before is whole.
        """
        ...

    async def close(self) -> None:
        """Release all resources; what was not committed is dropped. It may be called at any time."""
        ...


@runtime_checkable
class ProbedSink(Sink, Protocol):
    """A sink that can check whether it could be opened, without changing anything."""

    async def probe(self) -> None:
        """Check whether the sink can be used now. It creates nothing and disturbs no other process.

        Raises:
            SinkError: it cannot; says why and what to do.
        """
        ...


@runtime_checkable
class ReadSink(Sink, Protocol):
    """A sink whose position can be read while another process writes."""

    async def owners(self) -> Sequence[Owner]:
        """Read the identities that write there. The sink is not open; nothing is made, changed or taken over.

        Raises:
            SinkError: they cannot be read now.
        """
        ...

    async def saved(self) -> Checkpoint | None:
        """Read the checkpoint of the last commit. The sink is not open; nothing is made, changed or taken over.

        Raises:
            SinkError: it cannot be read now.
        """
        ...


@runtime_checkable
class AbortableSink(Sink, Protocol):
    """A sink whose calls may hang in a thread, where a task that is cancelled does not end them."""

    def abort(self) -> None:
        """Break the connection, so that the call that hangs fails. Called from the event loop; does not block."""
        ...


@runtime_checkable
class ReplacingSink(Sink, Protocol):
    """A sink that may store another value in place of one that its destination does not have."""

    @property
    def replaced_values(self) -> int:
        """How many values it replaced since it was made, those of a repetition too."""
        ...


@runtime_checkable
class GroupSink(Sink, Protocol):
    """A sink that takes many small transactions with one call."""

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        """Do what :meth:`Sink.write` does with each of some transactions, in order.

        They are whole, and have rows and nothing else: no schema changes, statements or losses.

        Args:
            transactions: at least one.
            size: bytes of their rows events.

        Raises:
            SinkError: see :meth:`Sink.write`.
            PoisonChangeError: see there.
        """
        ...
