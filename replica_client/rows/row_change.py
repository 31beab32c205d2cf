# cython: boundscheck=False, wraparound=False
"""One row change, and what the changes of a rows event have in common.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from replica_client.rows.pretty import pretty_call
from replica_client.rows.row import Row
from replica_client.schema.shape import TableShape

if TYPE_CHECKING:  # the same types whether or not the user's environment has Cython
    from replica_client import _cython as cython
else:
    import cython

ChangeKind = Literal["insert", "update", "delete"]

_FIELDS = (
    *("kind", "database", "table", "before", "after", "file", "position", "event_index"),
    *("row_index", "gtid", "timestamp"),
)
_JSON_FIELDS = (
    *("file", "position", "event_index", "row_index", "gtid", "timestamp", "kind", "database"),
    *("table", "before", "after"),
)


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

    Examples:
        >>> change = next(rc.open_binlog("shop-bin.000001").changes())
        >>> change.kind, change.database, change.table, change.before, change.after["name"]
        ('insert', 'shop', 'customers', None, 'Ada Lovelace')
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

    def as_dict(self, plain_json: bool = False) -> dict[str, Any]:
        """All fields but the shape, as :meth:`to_json` has them, with the rows as dicts of Python values.

        Args:
            plain_json: as in :meth:`~replica_client.rows.row.Row.as_dict`; the JSON document ``null`` is
                None then, as SQL NULL is.

        Raises:
            ColumnDecodeError: with ``plain_json``: the bytes of a document are none.
        """
        found: dict[str, Any] = dict(zip(_FIELDS, self._fields(), strict=False))
        for image in ("before", "after"):
            if found[image] is not None:
                found[image] = found[image].as_dict(plain_json)
        return {name: found[name] for name in _JSON_FIELDS}

    def to_json(self) -> str:
        """The change as JSON: the line that ``replica-client changes --json`` prints.

        Values are written as :mod:`replica_client.rows.json_values` says; columns that an image left out
        are left out; ``json_null`` names the columns that hold the JSON document ``null``
        (:mod:`replica_client.rows.json_nulls`).

        Raises:
            ColumnDecodeError: the bytes of a JSON document are none.
        """
        from replica_client.rows.json_values import change_to_json  # it writes changes

        return change_to_json(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How IPython shows it."""
        pretty_call(printer, "Change", dict(zip(_FIELDS, self._fields()[:-1], strict=True)))
