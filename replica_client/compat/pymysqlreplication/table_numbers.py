"""The tables of a stream by their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from replica_client.compat.pymysqlreplication.stream_tables import TableFacts
from replica_client.compat.pymysqlreplication.table import Table

_KEPT = 1 << 16


class TableMap(Mapping[int, Table]):
    """Tables by number; a :class:`Table` is made when it is looked at."""

    def __init__(self) -> None:
        self._known: dict[int, TableFacts] = {}

    def announce(self, table_id: int, facts: TableFacts) -> None:
        """Take a table map's table."""
        self._known.pop(table_id, None)
        self._known[table_id] = facts

    def trim(self) -> None:
        """Forget the numbers that were given first where there are many.

        A server gives a table another number each time that it opens it.
        """
        if len(self._known) >= 2 * _KEPT:
            for number in list(islice(self._known, _KEPT)):
                del self._known[number]

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
