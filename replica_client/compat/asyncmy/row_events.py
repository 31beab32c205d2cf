"""Table map and rows events as asyncmy gives them: rows without ``none_sources``."""

from __future__ import annotations

from typing import Any

from replica_client.compat.asyncmy.bitmap import bit_count as bit_count, bit_get as bit_get
from replica_client.compat.asyncmy.column import Column as Column
from replica_client.compat.asyncmy.constants import *  # noqa: F403
from replica_client.compat.asyncmy.errors import (
    TableMetadataUnavailableError as TableMetadataUnavailableError,
)
from replica_client.compat.asyncmy.events import BinLogEvent as BinLogEvent
from replica_client.compat.asyncmy.table import Table as Table
from replica_client.compat.asyncmy.utils import byte2int as byte2int
from replica_client.compat.pymysqlreplication import row_event as _base
from replica_client.compat.pymysqlreplication.constants.CHARSET import (
    charset_by_name as charset_by_name,
)
from replica_client.compat.pymysqlreplication.row_event import RowsEvent as RowsEvent


class TableMapEvent(_base.TableMapEvent):
    """The table of the rows that follow.

    Attributes:
        table_name: its name.
        table: all that is known of it.
        column_schemas: a dict for each column, as far as the binlog or the source tell.
    """

    table: Table  # type: ignore[assignment]

    def _decode(self, body: Any) -> None:
        super()._decode(body)
        self.table_name: str = body.table
        facts = self._facts
        self.column_schemas = [
            {
                "COLUMN_NAME": column.name,
                "COLLATION_NAME": column.collation_name,
                "CHARACTER_SET_NAME": column.character_set_name,
                "COLUMN_COMMENT": column.comment,
                "COLUMN_KEY": "PRI" if column.is_primary else "",
                "ORDINAL_POSITION": number,
            }
            for number, column in enumerate(facts.columns, 1)
        ]
        self.table = Table(
            self.column_schemas,
            self.table_id,
            self.schema,
            self.table_name,
            facts.columns,
            facts.primary_key,
        )


class WriteRowsEvent(_base.WriteRowsEvent):
    """Rows that were inserted: ``values``."""


class DeleteRowsEvent(_base.DeleteRowsEvent):
    """Rows that were deleted: ``values``."""


class UpdateRowsEvent(_base.UpdateRowsEvent):
    """Rows that were updated: ``before_values`` and ``after_values``."""
