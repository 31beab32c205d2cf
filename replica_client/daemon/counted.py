"""Rows that are counted, or left out, when a sink iterates them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from replica_client.daemon.observation import Observation, TableTally
from replica_client.readers.transaction import Transaction
from replica_client.rows.change import Change, RowsOfEvent


@dataclass(frozen=True, slots=True)
class CountedRows(RowsOfEvent):
    """The rows of an event; the first iteration counts them.

    Attributes:
        tally: of their table.
        observation: of the route.
        done: holds something once they were counted.
        rows: what is iterated.
    """

    tally: TableTally
    observation: Observation
    done: list[bool]
    rows: RowsOfEvent

    def __iter__(self) -> Iterator[Change]:
        if self.done:
            yield from self.rows
            return
        count = 0
        for change in self.rows:
            count += 1
            yield change
        if not self.done:
            self.done.append(True)
            self.tally.rows += count
            self.observation.counted_rows += count


@dataclass(frozen=True, slots=True)
class RowsWithout(RowsOfEvent):
    """The rows of an event but some.

    Attributes:
        left_out: indexes of those that are not given; None for all.
    """

    left_out: frozenset[int | None] | None

    def __iter__(self) -> Iterator[Change]:
        if self.left_out is None:
            return
        # Zero-argument super() does not work in a class that slots=True made anew.
        for change in RowsOfEvent.__iter__(self):
            if change.row_index not in self.left_out:
                yield change


def counted(transaction: Transaction, observation: Observation) -> tuple[Transaction, int]:
    """A transaction whose rows count themselves, and the bytes of its rows events."""
    if not transaction.rows:
        return transaction, 0
    total = 0
    out = []
    for rows in transaction.rows:
        size = rows.event.header.event_size
        tally = observation.tally(rows.shape.database, rows.shape.table)
        tally.bytes += size
        total += size
        out.append(
            CountedRows(
                *(rows.event, rows.shape, rows.decoder, rows.event_index, rows.first_row),
                *(rows.gtid, tally, observation, [], rows),
            )
        )
    return replace(transaction, rows=tuple(out)), total
