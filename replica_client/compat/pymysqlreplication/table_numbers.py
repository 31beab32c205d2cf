"""The tables of a stream by their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replica_client.compat.pymysqlreplication.stream_tables import TableFacts
from replica_client.compat.pymysqlreplication.table import Table


class TableMap(Mapping[int, Table]):
    """Tables by number; a :class:`Table` is made when it is looked at."""

    def __init__(self) -> None:
        self._known: dict[int, TableFacts] = {}

    def announce(self, table_id: int, facts: TableFacts) -> None:
        """Take a table map's table."""
        self._known[table_id] = facts

    def _facts(self, table_id: int) -> TableFacts | None:
        return self._known.get(table_id)

    def clear(self) -> None:
        """Numbers hold within a file."""
        self._known.clear()

    def __getitem__(self, table_id: int) -> Table:
        return self._known[table_id].table(table_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return repr(dict(self))
