"""A committed transaction, whole or in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from replica_client.position.losses import Loss
from replica_client.position.position import Position
from replica_client.rows.change import Change, RowsOfEvent
from replica_client.schema.history import SchemaChange


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that the binlog carries as text: DDL, XA, SAVEPOINT and the like.

    Attributes:
        database: the default database when it ran, ``""`` for none.
        text: the statement in the character set of its client, decoded.
    """

    database: str
    text: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of the source, or a part of a very large one.

    The rows of an XA transaction are those of the transaction of its XA COMMIT: its GTID, position and
    commit timestamp are of that, while each row has the file, position and event index where it stands,
    before the XA PREPARE. XA PREPARE and XA ROLLBACK are transactions without rows.

    Attributes:
        start: where it begins.
        position: the resume point right after it; inside the transaction, by event and row index,
            when :attr:`complete` is false. Acknowledge this one.
        gtid: its GTID as text, ``""`` when it has none.
        timestamp: seconds since 1970 in the header of its last event.
        commit_timestamp_us: microseconds since 1970 of its commit on the server that wrote this
            binlog; None where the server does not log it (before MySQL 8.0).
        rows: its rows events on the wanted tables, decoded when iterated.
        statements: what it holds as text, in order, BEGIN and COMMIT left out.
        part: 0 for the first or only part.
        complete: whether this is the last or only part.
        schema_changes: what its statements did to wanted tables, and to databases, in order.
        losses: changes that could not be delivered, where the user chose a record instead of an error.
        xid: the number that the source's storage engines gave the commit; None where there is none.
        thread_id: of the source's connection that ran it; None where the binlog does not tell.
        xa_commit: whether its rows are those of an XA transaction, which stand before :attr:`start`.
    """

    start: Position
    position: Position
    gtid: str
    timestamp: int
    commit_timestamp_us: int | None
    rows: tuple[RowsOfEvent, ...]
    statements: tuple[Statement, ...]
    part: int = 0
    complete: bool = True
    schema_changes: tuple[SchemaChange, ...] = ()
    losses: tuple[Loss, ...] = ()
    xid: int | None = None
    thread_id: int | None = None
    xa_commit: bool = False

    @property
    def items(self) -> Iterator[RowsOfEvent | SchemaChange | Loss]:
        """Rows events, schema changes and losses together, in the order of the binlog."""
        notices: list[SchemaChange | Loss] = [*self.schema_changes, *self.losses]
        notices.sort(key=lambda notice: notice.event_index)
        at = 0
        for rows in self.rows:
            while at < len(notices) and notices[at].event_index <= rows.event_index:
                yield notices[at]
                at += 1
            yield rows
        yield from notices[at:]

    def is_before(self, timestamp: float) -> bool:
        """Whether it is of before a start given in seconds since 1970; a gap in the GTIDs never is."""
        gap = any(loss.kind == "gtid_gap" for loss in self.losses)
        return self.timestamp < timestamp and not gap

    @property
    def changes(self) -> Iterator[Change]:
        """The row changes in the order of the binlog; may be iterated again."""
        return chain.from_iterable(self.rows)

    @property
    def commit_version(self) -> str:
        """A text that is the same for all its rows and sorts as transactions do."""
        return self.start.sort_key()
