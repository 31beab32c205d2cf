"""Counts of the rows and bytes in a group of transactions."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from replica_client.service.table_checker import RowCounter
from replica_client.stream.live.grouped import TransactionGroup

_MOST: Final = 1024
"""Transactions written together at most, so that other tasks and commits get their turn."""


class GroupTally:
    """Counts of a group of ordinary transactions.

    Args:
        group: the transactions.
        counter: counts rows.

    Attributes:
        rows: changed rows of the first transaction, of the first two, and so on; begins with 0.
        sizes: bytes of their events, likewise.
        tables: rows and bytes by database and table.

    Raises:
        BinlogDecodeError: the images of an event are not of its table.
    """

    __slots__ = ("rows", "sizes", "tables")

    def __init__(self, group: TransactionGroup, counter: RowCounter) -> None:
        self.rows, self.sizes = [0], [0]
        self.tables: dict[tuple[str, str], list[int]] = {}
        tables, count_of = self.tables, counter.count
        total = size = 0
        shape, tally = None, [0, 0]
        for transaction in group.transactions:
            for rows in transaction.rows:
                count, length = count_of(rows), rows.event_size
                if rows.shape is not shape:
                    shape = rows.shape
                    tally = tables.setdefault((shape.database, shape.table), [0, 0])
                tally[0] += count
                tally[1] += length
                total += count
                size += length
            self.rows.append(total)
            self.sizes.append(size)

    @classmethod
    def of(cls, group: TransactionGroup, counter: RowCounter) -> GroupTally:
        """Return the counts of a group, computed once."""
        known = group.known
        if not isinstance(known, GroupTally):
            known = group.known = cls(group, counter)
        return known

    def end(self, begin: int, rows: int, size: int) -> int:
        """Return the exclusive end of a piece, at the latest where a commit becomes due.

        Args:
            begin: number of the piece's first transaction.
            rows: changed rows after which a commit is due.
            size: bytes after which a commit is due.
        """
        limit = min(len(self.rows) - 1, begin + _MOST)
        by_rows = bisect_left(self.rows, self.rows[begin] + rows, begin + 1, limit)
        by_size = bisect_left(self.sizes, self.sizes[begin] + size, begin + 1, limit)
        return min(by_rows, by_size)
