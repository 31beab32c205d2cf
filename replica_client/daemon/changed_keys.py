"""The rows of a table that the stream changed while a chunk of the table was read."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from replica_client.constants.event_types import EventType
from replica_client.errors import BinlogDecodeError
from replica_client.readers.transaction import Transaction
from replica_client.rows.absent import ABSENT
from replica_client.rows.change import RowsOfEvent
from replica_client.schema.history import LogPosition, SchemaChange
from replica_client.tables.table_copy import TableName

Key = tuple[Any, ...]


class ChangedKeys:
    """Changes that the stream delivers for a table: its DDL, and its rows after :meth:`begin`.

    Args:
        table: the table's name in the stream.
    """

    def __init__(self, table: TableName) -> None:
        self._table = table
        self._key: Sequence[str] | None = None
        self._begun = False
        self._keys: dict[Key, LogPosition] = {}
        self._partial: dict[Key, LogPosition] = {}
        self._unknown: LogPosition | None = None
        self._altered: LogPosition | None = None

    def begin(self, key: Sequence[str] | None) -> None:
        """Begin to collect rows: a chunk is read from now on.

        Args:
            key: columns that identify a row; None: there are none.
        """
        self._key, self._begun = key, True

    def see(self, transaction: Transaction) -> None:
        """Record the changes of a delivered transaction, or of a part of one."""
        start = LogPosition.of(transaction.start.file, transaction.start.offset)
        for rows in transaction.rows:
            if self._begun and (rows.shape.database, rows.shape.table) == self._table:
                self._see_rows(rows, start)
        for change in transaction.schema_changes:
            if self._is_about(change):
                self._altered = start
        if any(loss.table in ("", self._table[1]) for loss in transaction.losses):
            self._unknown = start

    def altered(self, since: LogPosition) -> bool:
        """Return whether DDL at or after ``since`` altered or dropped the table."""
        return self._altered is not None and self._altered >= since

    def changed(self, low: LogPosition) -> Container[Key]:
        """Return the keys of rows changed by transactions that begin at or after ``low``."""
        return {key for key, at in self._keys.items() if at >= low}

    def is_unknown(self, low: LogPosition, keys: Iterable[Key]) -> bool:
        """Return whether the stream may lack the full image of some of these rows since ``low``."""
        if self._unknown is not None and self._unknown >= low:
            return True
        return bool(self._partial) and any(
            at is not None and at >= low for at in map(self._partial.get, keys)
        )

    def _is_about(self, change: SchemaChange) -> bool:
        named = {(change.database, change.table), change.name_after}
        return self._table in named or (not change.table and change.database == self._table[0])

    def _see_rows(self, rows: RowsOfEvent, start: LogPosition) -> None:
        names = rows.decoder.column_names
        if self._key is None or not set(self._key) <= set(names):
            self._unknown = start
            return
        indexes = [names.index(name) for name in self._key]
        # JSON documents may come as differences.
        in_part = rows.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT
        try:
            for change in rows:
                before, after = change.before, change.after
                old = None if before is None else tuple(before[at] for at in indexes)
                if old is not None:
                    self._keys[old] = start
                if after is None:
                    continue
                new = tuple(after[at] for at in indexes)
                if old is not None:
                    new = tuple(
                        one if two is ABSENT else two for one, two in zip(old, new, strict=True)
                    )
                self._keys[new] = start
                if in_part or any(value is ABSENT for value in after):
                    self._partial[new] = start
                else:
                    self._partial.pop(new, None)
        except BinlogDecodeError:
            # The sink reports this error.
            self._unknown = start
