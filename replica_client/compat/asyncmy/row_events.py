"""Table map and rows events as asyncmy gives them: rows without ``none_sources``."""

from __future__ import annotations

from typing import Any

from replica_client.compat.pymysqlreplication import row_event as _base
from replica_client.compat.pymysqlreplication.row_event import RowsEvent as RowsEvent
from replica_client.compat.pymysqlreplication.row_event import TableMapEvent as TableMapEvent


class WriteRowsEvent(_base.WriteRowsEvent):
    """Rows that were inserted: ``values``."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows."""
        return _without_sources(super().rows, ("none_sources",))


class DeleteRowsEvent(_base.DeleteRowsEvent):
    """Rows that were deleted: ``values``."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows."""
        return _without_sources(super().rows, ("none_sources",))


class UpdateRowsEvent(_base.UpdateRowsEvent):
    """Rows that were updated: ``before_values`` and ``after_values``."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows."""
        return _without_sources(super().rows, ("before_none_sources", "after_none_sources"))


def _without_sources(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    if rows and names[0] in rows[0]:
        for row in rows:
            for name in names:
                del row[name]
    return rows
