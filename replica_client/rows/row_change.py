# cython: boundscheck=False, wraparound=False
"""A row change, and the common attributes of a rows event's changes.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from replica_client.errors import PositionError
from replica_client.protocol.position import Position
from replica_client.rows.row import Row
from replica_client.rows.special_values import ABSENT, pretty_call
from replica_client.schema.shape import TableShape

if TYPE_CHECKING:  # the same types whether or not the user's environment has Cython
    from replica_client import _cython as cython
else:
    import cython

ChangeKind = Literal["insert", "update", "delete"]

_FIELDS = (
    *("kind", "database", "table", "before", "after", "file", "offset", "event_index"),
    *("row_index", "gtid", "timestamp"),
)
# In JSON and CSV the offset of the event has been ``position`` since the first release.
_JSON_FIELDS = (
    *("file", "position", "event_index", "row_index", "gtid", "timestamp", "kind", "database"),
    *("table", "before", "after"),
)


class ChangeTransaction(Protocol):
    """The members of a transaction that its changes use."""

    @property
    def start(self) -> Position:
        """The position where the transaction begins."""

    @property
    def position(self) -> Position:
        """The resume point after the transaction."""

    @property
    def commit_time(self) -> datetime.datetime:
        """The commit time, in UTC."""


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class ChangeOrigin:
    """The common attributes of one rows event's changes.

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
        # The transaction without its rows, so that a change keeps no event in memory; and the one
        # before it, or the position before it. None for a change without a transaction.
        self._transaction: ChangeTransaction | None = None
        self._before: Any = None

    @cython.cfunc
    def gtid(self) -> str:
        """Return the transaction's GTID as text, built on first use."""
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
        offset: 64-bit offset of the rows event in the file.
        event_index: index of the event in its transaction; the first event has 0, and the events
            inside a transaction payload count on from it.
        row_index: index of the row in its event.
        gtid: the transaction's GTID as text, ``""`` when it has none.
        timestamp: seconds since 1970 when the statement began on the source.
        shape: names and types of the columns.

    Examples:
        >>> change = next(rc.open_binlog("shop-bin.000001").changes())
        >>> change.kind, change.database, change.table, change.before, change.after["name"]
        ('insert', 'shop', 'customers', None, 'Ada Lovelace')
        >>> change.key, change.commit_time.year
        ((1,), 2026)
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
        offset: int,
        event_index: int,
        row_index: int,
        gtid: str,
        timestamp: int,
        shape: TableShape,
    ) -> None:
        self._origin = ChangeOrigin(
            kind, database, table, shape, file, offset, event_index, gtid, timestamp
        )
        self._before: Row | None = before
        self._after: Row | None = after
        self._row_index = row_index

    @property
    def kind(self) -> ChangeKind:
        """``insert``, ``update`` or ``delete``."""
        return self._origin.kind

    @property
    def database(self) -> str:
        """Name of the table's database."""
        return self._origin.database

    @property
    def table(self) -> str:
        """Name of the table."""
        return self._origin.table

    @property
    def before(self) -> Row | None:
        """The row before the change; None for an insert."""
        return self._before

    @property
    def after(self) -> Row | None:
        """The row after the change; None for a delete."""
        return self._after

    @property
    def row_index(self) -> int:
        """Index of the row in its event."""
        return int(self._row_index)

    @property
    def file(self) -> str:
        """Binlog file of the rows event."""
        return self._origin.file

    @property
    def offset(self) -> int:
        """64-bit offset of the rows event in its file."""
        return int(self._origin.position)

    @property
    def position(self) -> Position:
        """The resume point after this change; acknowledge it once the change is processed.

        It is inside the transaction, by event and row index. After the last change of a
        transaction, nothing of it is delivered again.

        Raises:
            PositionError: the change was taken from a rows event, not from a transaction or a stream.
        """
        origin: ChangeOrigin = self._origin
        start = self._of_transaction().start
        before = origin._before
        if before is not None and not isinstance(before, Position):
            before = origin._before = before.position
        gtids = start.gtid_set if before is None else before.gtid_set
        row = int(self._row_index) + 1
        return Position(start.file, start.offset, gtids, int(origin.event_index), row)

    @property
    def commit_time(self) -> datetime.datetime:
        """The commit time of the transaction, in UTC.

        In microseconds if the source logs them (MySQL 8.0 and later), else the second of its last
        event.

        Raises:
            PositionError: as of :attr:`position`.
        """
        return self._of_transaction().commit_time

    def _of_transaction(self) -> ChangeTransaction:
        transaction: ChangeTransaction | None = self._origin._transaction
        if transaction is None:
            raise PositionError(
                f"this change of {self.database}.{self.table} was taken from a rows event alone, which does not know "
                "its transaction; take it from changes() or from Transaction.changes"
            )
        return transaction

    @property
    def key(self) -> tuple[Any, ...] | None:
        """The primary key after the change, or before a delete; None for a table without one.

        A key column that the after image of an update left out did not change: its value is taken
        from the before image.
        """
        columns = self._origin.shape.primary_key
        if not columns:
            return None
        before, after = self._before, self._after
        values = []
        for at in columns:
            value = ABSENT if after is None else after[at]
            if value is ABSENT and before is not None:
                value = before[at]
            values.append(value)
        return tuple(values)

    @property
    def event_index(self) -> int:
        """Index of the event in its transaction."""
        return int(self._origin.event_index)

    @property
    def gtid(self) -> str:
        """GTID of the transaction; empty where it has none."""
        gtid: str = self._origin.gtid()
        return gtid

    @property
    def timestamp(self) -> int:
        """Seconds since 1970 when the statement began on the source."""
        return int(self._origin.timestamp)

    @property
    def shape(self) -> TableShape:
        """Names and types of the columns."""
        return self._origin.shape

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.kind,
            self.database,
            self.table,
            self.before,
            self.after,
            self.file,
            self.offset,
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
            f"offset={self.offset}, event_index={self.event_index}, "
            f"row_index={self.row_index}, gtid={self.gtid!r}, timestamp={self.timestamp})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        origin: ChangeOrigin = self._origin
        if origin._transaction is None:
            return Change, self._fields()
        before = origin._before
        if before is not None and not isinstance(before, Position):
            before = before.position
        return _change_of, (self._fields(), before, origin._transaction)

    def as_dict(self, plain_json: bool = False) -> dict[str, Any]:
        """Return the fields of :meth:`to_json`, with rows as dicts of Python values.

        Args:
            plain_json: as in :meth:`~replica_client.rows.row.Row.as_dict`; the JSON document
                ``null`` becomes None then, like SQL NULL.

        Raises:
            ColumnDecodeError: with ``plain_json``: the bytes of a document are malformed.
        """
        found: dict[str, Any] = dict(zip(_FIELDS, self._fields(), strict=False))
        found["position"] = found["offset"]
        for image in ("before", "after"):
            if found[image] is not None:
                found[image] = found[image].as_dict(plain_json)
        return {name: found[name] for name in _JSON_FIELDS}

    def to_json(self) -> str:
        """Return the change as JSON: the line that ``replica-client changes --json`` prints.

        :mod:`replica_client.rows.json_values` describes the values. Columns that an image left out
        are left out; ``json_null`` names the columns that hold the JSON document ``null``
        (:mod:`replica_client.rows.json_values`).

        Raises:
            ColumnDecodeError: the bytes of a JSON document are malformed.
        """
        from replica_client.rows.json_values import change_to_json  # it writes changes

        return change_to_json(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the change in IPython."""
        pretty_call(printer, "Change", dict(zip(_FIELDS, self._fields()[:-1], strict=True)))


def _change_of(
    fields: tuple[Any, ...], before: Position | None, transaction: ChangeTransaction
) -> Change:
    """Rebuild a pickled change with its transaction."""
    change: Change = Change(*fields)
    change._origin._before = before
    change._origin._transaction = transaction
    return change


class _KindType(type):
    """The type of the three kinds: ``isinstance`` asks a change for its kind."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Change) and instance.kind == cls.__dict__["_kind"]


if TYPE_CHECKING:  # their docstrings are those of the classes that run

    class InsertChange(Change):  # noqa: D101
        @property
        def kind(self) -> Literal["insert"]: ...
        @property
        def before(self) -> None: ...
        @property
        def after(self) -> Row: ...

    class UpdateChange(Change):  # noqa: D101
        @property
        def kind(self) -> Literal["update"]: ...
        @property
        def before(self) -> Row: ...
        @property
        def after(self) -> Row: ...

    class DeleteChange(Change):  # noqa: D101
        @property
        def kind(self) -> Literal["delete"]: ...
        @property
        def before(self) -> Row: ...
        @property
        def after(self) -> None: ...

else:

    class InsertChange(metaclass=_KindType):
        """A change of an inserted row: its ``before`` is None.

        It is for ``isinstance``, ``match`` and annotations; the objects are of :class:`Change`.

        Examples:
            >>> changes = rc.open_binlog(["shop-bin.000001", "shop-bin.000002"]).changes()
            >>> change = next(one for one in changes if isinstance(one, rc.InsertChange))
            >>> change.kind, change.before is None, change.after["id"]
            ('insert', True, 1)
        """

        _kind = "insert"

    class UpdateChange(metaclass=_KindType):
        """A change of an updated row: its ``before`` and ``after`` are rows.

        Examples:
            >>> changes = rc.open_binlog(["shop-bin.000001", "shop-bin.000002"]).changes()
            >>> change = next(one for one in changes if isinstance(one, rc.UpdateChange))
            >>> change.before["id"] == change.after["id"]
            True
        """

        _kind = "update"

    class DeleteChange(metaclass=_KindType):
        """A change of a deleted row: its ``after`` is None.

        Examples:
            >>> changes = rc.open_binlog(["shop-bin.000001", "shop-bin.000002"]).changes()
            >>> change = next(one for one in changes if isinstance(one, rc.DeleteChange))
            >>> change.after is None, "id" in change.before
            (True, True)
        """

        _kind = "delete"


AnyChange: TypeAlias = InsertChange | UpdateChange | DeleteChange
"""A change of one of the three kinds. Where ``kind`` is compared, type checkers know ``before`` and ``after``."""
