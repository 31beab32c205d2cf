"""The events of chosen tables."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events.rows import RowsEvent
from replica_client.binlog.events.table_map import TableMapEvent
from replica_client.cli.loss_report import ALLOW_EMPTY_HINT
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory


class ChosenEvents:
    """Leaves out table maps and rows of tables that are not asked for.

    A rows event has no name of a table, but the number that the table map before it has.

    Args:
        tables: patterns of wanted tables; None takes all.
        exclude: patterns of unwanted ones.
        allow_empty: take a pattern that matches no table.

    Raises:
        ConfigError: a pattern has no dot.
    """

    def __init__(
        self,
        tables: Sequence[str] | None,
        exclude: Sequence[str] | None,
        *,
        allow_empty: bool = False,
    ) -> None:
        self._selection = Selection(tables, exclude)
        self._allow_empty = allow_empty
        self._left_out: set[int] = set()

    def takes(self, event: BinlogEvent) -> bool:
        """Return whether an event is written."""
        body = event.body
        if isinstance(body, TableMapEvent):
            wanted = self._selection.wants(body.schema, body.table)
            if wanted:
                self._left_out.discard(body.table_id)
            else:
                self._left_out.add(body.table_id)
            return wanted
        return not (isinstance(body, RowsEvent) and body.table_id in self._left_out)

    def check(self) -> None:
        """Refuse a pattern that matched no table; asked at the end.

        Raises:
            ConfigError: naming it, and the nearest table.
        """
        if not self._allow_empty:
            self._selection.check_matched(SchemaHistory(), hint=ALLOW_EMPTY_HINT)
