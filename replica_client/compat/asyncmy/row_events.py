"""Table map and rows events as asyncmy gives them: rows without ``none_sources``."""

from __future__ import annotations

from replica_client.compat.pymysqlreplication import row_event as _base
from replica_client.compat.pymysqlreplication.row_event import RowsEvent as RowsEvent
from replica_client.compat.pymysqlreplication.row_event import TableMapEvent as TableMapEvent


class WriteRowsEvent(_base.WriteRowsEvent):
    """Rows that were inserted: ``values``."""


class DeleteRowsEvent(_base.DeleteRowsEvent):
    """Rows that were deleted: ``values``."""


class UpdateRowsEvent(_base.UpdateRowsEvent):
    """Rows that were updated: ``before_values`` and ``after_values``."""
