# cython: boundscheck=False, wraparound=False
"""A committed transaction, whole or in parts.

Attributes are created only when a consumer uses them: for a transaction of one row in five events,
creating them would take most of the time.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

# Over 500 lines: two compiled classes whose C fields the fast path fills in, and their
# documentation.

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING, Any, cast, overload

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent, changes_of_transaction
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import pretty_call
from replica_client.schema.history import SchemaChange
from replica_client.stream.fast.transaction_gtids import GtidPositions
from replica_client.stream.position.losses import Loss

if TYPE_CHECKING:  # the same types whether or not the user's environment has Cython
    from replica_client import _cython as cython
    from replica_client.rows.row_change import AnyChange
else:
    import cython

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that the binlog carries as text: DDL, XA, SAVEPOINT and the like.

    Attributes:
        database: the default database when it ran, ``""`` for none.
        text: the statement in the character set of its client, decoded.
        file: binlog file of the statement.
        position: offset of its event in the file.
        event_index: index of its event in the transaction.
        server_id: of the server that ran it.

    Two of them are equal when they say the same.

    Examples:
        >>> transactions = list(rc.open_binlog("shop-bin.000001").transactions())
        >>> transactions[0].statements[0].text
        'CREATE DATABASE shop CHARACTER SET utf8mb4'
    """

    database: str
    text: str
    file: str = field(default="", compare=False, repr=False)
    position: int = field(default=0, compare=False, repr=False)
    event_index: int = field(default=0, compare=False, repr=False)
    server_id: int = field(default=0, compare=False, repr=False)


_USUAL: dict[str, Any] = {
    **dict.fromkeys(("commit_timestamp_us", "xid", "thread_id")),
    **dict.fromkeys(("rows", "statements", "schema_changes", "losses"), ()),
    "part": 0,
    "complete": True,
    "xa_commit": False,
}


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Transaction:
    """One transaction of the source, or a part of a very large one.

    Transactions are immutable; they can be compared, pickled and copied.

    The rows of an XA transaction belong to the transaction of its XA COMMIT, which has the GTID,
    position and commit timestamp. Each row keeps the file, position and event index of its own
    event, before the XA PREPARE. XA PREPARE and XA ROLLBACK are transactions without rows.

    Attributes:
        start: where it begins.
        position: the resume point right after it; inside the transaction, by event and row index,
            when :attr:`complete` is false. Acknowledge this one.
        gtid: its GTID as text, ``""`` when it has none.
        timestamp: seconds since 1970 in the header of its last event.
        commit_timestamp_us: microseconds since 1970 of its commit on the server that wrote this
            binlog; None if the server does not log it (before MySQL 8.0).
        rows: its rows events on the wanted tables, decoded when iterated.
        statements: its statements logged as text, in order, without BEGIN and COMMIT.
        part: 0 for the first or only part.
        complete: whether this is the last or only part.
        schema_changes: changes of wanted tables and of databases by its statements, in order.
        losses: changes that could not be delivered, if the user chose a record instead of an error.
        xid: the number that the source's storage engines gave the commit; None if there is none.
        thread_id: id of the source's session that ran it; None if the binlog does not say (MariaDB
            before 11.5 says it only for statements).
        xa_commit: whether its rows are those of an XA transaction, which lie before :attr:`start`.

    Examples:
        >>> transactions = list(rc.open_binlog("shop-bin.000001").transactions())
        >>> one = transactions[4]
        >>> one.gtid, len(one.changes), str(one.position).partition("@")[0]
        ('4587bb45-e52d-11f1-971d-02fc00000001:5', 7, 'shop-bin.000001:2388')
    """

    __match_args__ = (
        "start",
        "position",
        "gtid",
        "timestamp",
        "commit_timestamp_us",
        "rows",
        "statements",
        "part",
        "complete",
        "schema_changes",
        "losses",
        "xid",
        "thread_id",
        "xa_commit",
    )

    def __init__(
        self,
        start: Position,
        position: Position,
        gtid: str,
        timestamp: int,
        commit_timestamp_us: int | None,
        rows: tuple[RowsOfEvent, ...],
        statements: tuple[Statement, ...],
        part: int = 0,
        complete: bool = True,
        schema_changes: tuple[SchemaChange, ...] = (),
        losses: tuple[Loss, ...] = (),
        xid: int | None = None,
        thread_id: int | None = None,
        xa_commit: bool = False,
    ) -> None:
        self._start: Position | None = start
        self._position: Position | None = position
        # Sources of start and position for the fast path.
        self._gtid_positions: Any = None
        self._file = ""
        self._start_offset = self._end_offset = self._last_index = 0
        self._run = self._run_number = 0
        self._gtid = gtid
        self._gtid_number = 0
        self._timestamp = timestamp
        self._commit_us = -1 if commit_timestamp_us is None else commit_timestamp_us
        self._one: Any = None
        self._more: Any = None
        self._rows: Any = rows
        self._statements: Any = statements
        self._part = part
        self._complete = complete
        self._schema_changes: Any = schema_changes
        self._losses: Any = losses
        self._has_xid = xid is not None
        self._xid = 0 if xid is None else xid
        self._thread = -1 if thread_id is None else thread_id
        self._xa_commit = xa_commit

    @property
    def start(self) -> Position:
        """The position where the transaction begins."""
        start: Position | None = self._start
        if start is None:
            start = self._start = Position(self._file, self._start_offset)
        return start

    @property
    def position(self) -> Position:
        """The resume point after the transaction."""
        position: Position | None = self._position
        if position is None:
            position = self._gtid_positions.position(
                self._end_offset, self._last_index, self._run, self._run_number
            )
            self._position = position
        return position

    @property
    def gtid(self) -> str:
        """The GTID; empty if there is none."""
        return f"{self._gtid}{self._gtid_number}" if self._gtid_number else self._gtid

    @property
    def timestamp(self) -> int:
        """Seconds since 1970 in the header of its last event."""
        return int(self._timestamp)

    @property
    def commit_timestamp_us(self) -> int | None:
        """Microseconds since 1970 of the commit; None if the source does not log them."""
        return None if self._commit_us < 0 else int(self._commit_us)

    @property
    def rows(self) -> tuple[RowsOfEvent, ...]:
        """Rows events on the selected tables."""
        rows: tuple[RowsOfEvent, ...] | None = self._rows
        if rows is None:
            rows = () if self._one is None else (self._one, *(self._more or ()))
            self._rows = rows
        return rows

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Statements logged as text, without BEGIN and COMMIT."""
        return self._statements or ()

    @property
    def part(self) -> int:
        """0 for the first or only part."""
        return int(self._part)

    @property
    def complete(self) -> bool:
        """Whether this is the last or only part."""
        return bool(self._complete)

    @property
    def schema_changes(self) -> tuple[SchemaChange, ...]:
        """Changes of selected tables and of databases."""
        return self._schema_changes or ()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Changes that could not be delivered."""
        return self._losses or ()

    @property
    def xid(self) -> int | None:
        """Number of the commit in the source's storage engines."""
        return int(self._xid) if self._has_xid else None

    @property
    def thread_id(self) -> int | None:
        """Id of the source's session; None if the binlog does not have it."""
        return None if self._thread < 0 else int(self._thread)

    @property
    def xa_commit(self) -> bool:
        """Whether it commits the rows of an XA transaction."""
        return bool(self._xa_commit)

    @property
    def items(self) -> Iterator[RowsOfEvent | SchemaChange | Loss]:
        """Rows events, schema changes and losses together, in the order of the binlog."""
        if self._schema_changes or self._losses:
            return _items(self.rows, [*self.schema_changes, *self.losses])
        return iter(self.rows)

    @property
    def commit_us(self) -> int:
        """Microseconds since 1970 of the commit, or else the second of the last event."""
        return int(self._timestamp * 1_000_000 if self._commit_us < 0 else self._commit_us)

    @property
    def commit_time(self) -> datetime.datetime:
        """:attr:`commit_us` as a time in UTC."""
        return _EPOCH + datetime.timedelta(microseconds=self.commit_us)

    def is_before(self, micros: int) -> bool:
        """Return whether it was committed before a time in microseconds since 1970.

        A gap in the GTIDs never was.
        """
        return self.commit_us < micros and not any(loss.kind == "gtid_gap" for loss in self.losses)

    @property
    def changes(self) -> Changes:
        """The row changes in the order of the binlog; may be iterated again."""
        changes: Changes = Changes.__new__(Changes)
        changes._transaction = self
        is_one: cython.bint = self._more is None and self._one is not None
        changes._one = self._one if is_one else None
        changes._rows = None if is_one else self.rows
        changes._decoded = None
        return changes

    @property
    def commit_version(self) -> str:
        """Text that is the same for all its rows and sorts as transactions do."""
        return self.start.sort_key()

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in Transaction.__match_args__])

    def __replace__(self, **changes: Any) -> Transaction:
        """Return a copy with some attributes changed, for :func:`copy.replace` of Python 3.13."""
        fields = dict(zip(Transaction.__match_args__, self._fields(), strict=True))
        return Transaction(**{**fields, **changes})

    def with_rows(self, rows: tuple[RowsOfEvent, ...]) -> Transaction:
        """Return a copy with other rows; attributes not created yet stay so."""
        made: Transaction = Transaction.__new__(Transaction)
        made._start = self._start
        made._position = self._position
        made._gtid_positions = self._gtid_positions
        made._file = self._file
        made._start_offset = self._start_offset
        made._end_offset = self._end_offset
        made._last_index = self._last_index
        made._run = self._run
        made._run_number = self._run_number
        made._gtid = self._gtid
        made._gtid_number = self._gtid_number
        made._timestamp = self._timestamp
        made._commit_us = self._commit_us
        made._xid = self._xid if self._has_xid else 0
        made._has_xid = self._has_xid
        made._thread = self._thread
        made._part = self._part
        made._complete = self._complete
        made._xa_commit = self._xa_commit
        made._one = None
        made._more = None
        made._rows = rows
        made._statements = self._statements
        made._schema_changes = self._schema_changes
        made._losses = self._losses
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transaction):
            return NotImplemented
        return bool(self._fields() == other._fields())

    def __hash__(self) -> int:
        return hash((self.start, self.position, self.gtid, self._part))

    def __repr__(self) -> str:
        fields = dict(zip(Transaction.__match_args__, self._fields(), strict=True))
        return f"Transaction({', '.join(f'{name}={value!r}' for name, value in fields.items())})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print for IPython, without attributes that have their usual values."""
        shown: dict[str, Any] = {
            name: getattr(self, name)
            for name in Transaction.__match_args__
            if name in ("start", "position") or getattr(self, name) != _USUAL.get(name, "")
        }
        pretty_call(printer, "Transaction", shown)

    def __reduce__(self) -> tuple[Any, ...]:
        return Transaction, self._fields()


def _items(
    events: tuple[RowsOfEvent, ...], notices: list[SchemaChange | Loss]
) -> Iterator[RowsOfEvent | SchemaChange | Loss]:
    notices.sort(key=lambda notice: notice.event_index)
    at = 0
    for rows in events:
        while at < len(notices) and notices[at].event_index <= rows.event_index:
            yield notices[at]
            at += 1
        yield rows
    yield from notices[at:]


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class Changes:
    """The row changes of a transaction, as a sequence.

    Iterating decodes one change after the other and keeps none. ``len()``, an index and a slice
    decode all of them once and keep them as long as this object.

    Args:
        rows: the rows events of the changes.
        transaction: the transaction of the changes; None: they have no position.

    Examples:
        >>> transactions = list(rc.open_binlog("shop-bin.000001").transactions())
        >>> changes = transactions[4].changes
        >>> len(changes), changes[0].table
        (7, 'customers')
    """

    def __init__(
        self, rows: tuple[RowsOfEvent, ...], transaction: Transaction | None = None
    ) -> None:
        self._transaction: Transaction | None = transaction
        self._one: Any = None
        self._rows: Any = rows
        self._decoded: Any = None

    @overload
    def __getitem__(self, index: int) -> AnyChange: ...

    @overload
    def __getitem__(self, index: slice) -> list[AnyChange]: ...

    def __getitem__(self, index: int | slice) -> AnyChange | list[AnyChange]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[AnyChange]:
        decoded: list[AnyChange] | None = self._decoded
        if decoded is not None:
            return iter(decoded)
        transaction: Transaction | None = self._transaction
        if transaction is None:
            return chain.from_iterable(self._rows) if self._one is None else iter(self._one)
        rows = self._rows if self._one is None else (self._one,)
        return located_changes(rows, None, transaction.with_rows(()))

    def __reversed__(self) -> Iterator[AnyChange]:
        return reversed(self._all())

    def __contains__(self, change: object) -> bool:
        return any(one == change for one in self)

    def __bool__(self) -> bool:
        for _ in self:
            return True
        return False

    def index(self, change: Change, *limits: int) -> int:
        """Return the index of a change; arguments and errors are those of :meth:`list.index`."""
        return self._all().index(cast("AnyChange", change), *limits)

    def count(self, change: Change) -> int:
        """Return how often a change occurs."""
        return self._all().count(cast("AnyChange", change))

    def _all(self) -> list[AnyChange]:
        found: list[AnyChange] | None = self._decoded
        if found is None:
            found = self._decoded = list(iter(self))  # list(self) asks for its length
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Changes):
            return NotImplemented
        return bool(self._all() == other._all())

    def __hash__(self) -> int:
        return hash(tuple(self._all()))

    def __repr__(self) -> str:
        return f"Changes({self._all()!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print for IPython."""
        printer.text("Changes(")
        printer.pretty(self._all())
        printer.text(")")

    def __reduce__(self) -> tuple[Any, ...]:
        rows: tuple[RowsOfEvent, ...] = self._rows if self._one is None else (self._one,)
        transaction: Transaction | None = self._transaction
        return Changes, (rows, None if transaction is None else transaction.with_rows(()))


Sequence.register(Changes)


def located_changes(
    rows: Iterable[RowsOfEvent], before: Position | Transaction | None, transaction: Transaction
) -> Iterator[AnyChange]:
    """Return an iterator over the changes of rows events, which know their transaction.

    Args:
        rows: rows events of the transaction.
        before: the resume point before it, or the transaction before it; None if unknown.
        transaction: the transaction without its rows: so a change that is kept keeps no event in
            memory.
    """
    changes = chain.from_iterable(changes_of_transaction(one, before, transaction) for one in rows)
    return cast("Iterator[AnyChange]", changes)


@cython.cfunc
def pending_transaction(
    gtid_positions: GtidPositions, file: str, start: cython.longlong
) -> Transaction:
    """Create a whole transaction of row changes; the caller sets the other fields.

    Args:
        gtid_positions: computes the position after it.
        file: the file that it is in.
        start: offset of its first event.
    """
    transaction: Transaction = Transaction.__new__(Transaction)
    transaction._gtid_positions = gtid_positions
    transaction._file = file
    transaction._start_offset = start
    transaction._start = None
    transaction._position = None
    transaction._gtid = ""
    transaction._gtid_number = 0
    transaction._run_number = 0
    transaction._commit_us = -1
    transaction._thread = -1
    transaction._has_xid = False
    transaction._part = 0
    transaction._complete = True
    transaction._xa_commit = False
    transaction._one = None
    transaction._more = None
    transaction._rows = None
    transaction._statements = None
    transaction._schema_changes = None
    transaction._losses = None
    return transaction
