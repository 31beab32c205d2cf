# cython: boundscheck=False, wraparound=False
"""Transactions and rows events whose parts are made when they are asked for.

They stand for a :class:`~replica_client.readers.transaction.Transaction` and a
:class:`~replica_client.rows.change.RowsOfEvent`, have all their attributes, say that these are their
class, and become them where they are pickled, copied or replaced in part. Nearly all that a consumer
does not look at, of a transaction that is one row in five events, costs nothing.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import cython

from replica_client.binlog.context import BinlogFormat
from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.errors import BinlogDecodeError
from replica_client.position.position import Position
from replica_client.readers.gtid_trail import GtidTrail
from replica_client.readers.transaction import Statement, Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import placed
from replica_client.schema.shape import TableShape

if cython.compiled:
    from cython.cimports.replica_client.rows.change import ChangeIterator, ChangeOrigin
    from cython.cimports.replica_client.rows.image import RowImageDecoder
else:
    from replica_client.rows.change import ChangeIterator, ChangeOrigin
    from replica_client.rows.image import RowImageDecoder

_NO_STATEMENTS: tuple[Statement, ...] = ()
_KINDS = ("insert", "update", "delete")


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class LaneTransaction:
    """A whole ordinary transaction: row changes, committed, nothing else."""

    __dataclass_fields__ = Transaction.__dataclass_fields__

    def __init__(self, trail: GtidTrail, file: str, start: int) -> None:
        self.trail: Any = trail
        self.file = file
        self.start_offset = start
        self._start: Position | None = None
        self._position: Position | None = None
        self.one: Any = None
        self.more: Any = None
        self._rows: Any = None
        self.gtid_prefix = ""
        self.gtid_number = self.run_number = 0
        self.commit_us = self.thread = -1
        self.end_offset = self.event_index = self.run = self.time = self.commit_xid = 0

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return Transaction

    @property
    def start(self) -> Position:
        """See :class:`Transaction`, as of all others."""
        if self._start is None:
            self._start = Position(self.file, self.start_offset)
        return self._start

    @property
    def position(self) -> Position:
        """See the class."""
        if self._position is None:
            self._position = self.trail.position(
                self.end_offset, self.event_index, self.run, self.run_number
            )
        return self._position

    @property
    def gtid(self) -> str:
        """See the class."""
        return f"{self.gtid_prefix}{self.gtid_number}" if self.gtid_number else ""

    @property
    def timestamp(self) -> int:
        """See the class."""
        return int(self.time)

    @property
    def commit_timestamp_us(self) -> int | None:
        """See the class."""
        return None if self.commit_us < 0 else int(self.commit_us)

    @property
    def rows(self) -> tuple[RowsOfEvent, ...]:
        """See the class."""
        rows: tuple[RowsOfEvent, ...] | None = self._rows
        if rows is None:
            rows = () if self.one is None else (self.one, *(self.more or ()))
            self._rows = rows
        return rows

    @property
    def statements(self) -> tuple[Statement, ...]:
        """See the class."""
        return _NO_STATEMENTS

    @property
    def part(self) -> int:
        """See the class."""
        return 0

    @property
    def complete(self) -> bool:
        """See the class."""
        return True

    @property
    def schema_changes(self) -> tuple[Any, ...]:
        """See the class."""
        return ()

    @property
    def losses(self) -> tuple[Any, ...]:
        """See the class."""
        return ()

    @property
    def xid(self) -> int | None:
        """See the class."""
        return int(self.commit_xid)

    @property
    def thread_id(self) -> int | None:
        """See the class."""
        return None if self.thread < 0 else int(self.thread)

    @property
    def xa_commit(self) -> bool:
        """See the class."""
        return False

    @property
    def items(self) -> Iterator[RowsOfEvent]:
        """See the class."""
        return iter(self.rows)

    @property
    def changes(self) -> Iterator[Any]:
        """See the class."""
        if self.more is not None:
            return chain.from_iterable(self.rows)
        return iter(()) if self.one is None else iter(self.one)

    @property
    def commit_version(self) -> str:
        """See the class."""
        return self.start.sort_key()

    def _whole(self) -> Transaction:
        fields: Any = self.__dataclass_fields__
        return Transaction(**{name: getattr(self, name) for name in fields})

    def __eq__(self, other: object) -> bool:
        return bool(self._whole() == other)

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())

    def __reduce__(self) -> tuple[Any, ...]:
        return self._whole().__reduce__()  # type: ignore[return-value]


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class LaneRows:
    """The rows of an event that is not decoded.

    Args:
        data: the event.
        start: offset of its row images.
        end: offset behind them.
        kind: 0 insert, 1 update, 2 delete.
        columns_before: see :meth:`~replica_client.rows.image.RowImageDecoder.decode_rows`.
        columns_after: see there.
        decoder: of its row images, which are neither partial nor compressed.
        shape: of its table.
        format: of the file.
    """

    __dataclass_fields__ = RowsOfEvent.__dataclass_fields__

    def __init__(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        kind: cython.int,
        columns_before: bytes,
        columns_after: bytes | None,
        decoder: RowImageDecoder,
        shape: TableShape,
        format: BinlogFormat,
    ) -> None:
        self._data = data
        self._images_start = start
        self._images_end = end
        self._kind = kind
        self._columns_before = columns_before
        self._columns_after = columns_after
        self.decoder = decoder
        self.shape: Any = shape
        self._format: Any = format
        self._event: BinlogEvent | None = None
        self.file = ""
        self.gtid_prefix = ""
        self.offset = self.index = self.timestamp = self.gtid_number = 0

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return RowsOfEvent

    @property
    def event(self) -> BinlogEvent:
        """See :class:`RowsOfEvent`, as of all others."""
        event: BinlogEvent | None = self._event
        if event is None:
            decoder = BinlogDecoder(self.decoder.options, self.file, self._format)
            event = self._event = decoder.decode(self._data, self.offset)
        return event

    @property
    def event_index(self) -> int:
        """See the class."""
        return int(self.index)

    @property
    def first_row(self) -> int:
        """See the class."""
        return 0

    @property
    def gtid(self) -> str:
        """See the class."""
        return f"{self.gtid_prefix}{self.gtid_number}" if self.gtid_number else ""

    def __iter__(self) -> Iterator[Any]:
        shape = self.shape
        origin: ChangeOrigin = ChangeOrigin(
            _KINDS[self._kind],
            shape.database,
            shape.table,
            shape,
            self.file,
            self.offset,
            self.index,
            self.gtid_prefix,
            self.timestamp,
            self.gtid_number,
        )
        changes: ChangeIterator = ChangeIterator(origin, self.decoder, 0, self._data[4])
        try:
            changes.begin(
                self._data,
                self._images_start,
                self._images_end,
                self._columns_before,
                self._columns_after,
            )
        except BinlogDecodeError as error:
            raise placed(error, self.event) from error.__cause__
        given: Iterator[Any] = changes
        return given

    def _whole(self) -> RowsOfEvent:
        return RowsOfEvent(self.event, self.shape, self.decoder, self.event_index, 0, self.gtid)

    def __eq__(self, other: object) -> bool:
        return bool(self._whole() == other)

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())

    def __reduce__(self) -> tuple[Any, ...]:
        return self._whole().__reduce__()  # type: ignore[return-value]
