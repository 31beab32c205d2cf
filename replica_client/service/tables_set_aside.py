"""Tables that a sink cannot continue with: left out while its other tables go on.

They are part of the sink's checkpoint: saved with the position, and in one transaction with the
data if the sink has transactions. A new copy of a table takes it back; DROP TABLE on the source
forgets it.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from replica_client.errors import (
    PoisonChangeError,
    PositionStoreError,
    ReplicaClientError,
    SinkError,
)
from replica_client.schema.history import SchemaChange
from replica_client.service.table_checker import RowCounter
from replica_client.stream.live.grouped import TransactionGroup
from replica_client.stream.position.losses import Loss
from replica_client.stream.tables.net_changes import (
    CopyNeededError,
    DivergedError,
    TableName,
    TableRefusedError,
)
from replica_client.stream.transactions.transaction import Transaction

STATE_KEY: Final = "set_aside"
NOT_VISIBLE: Final = (
    "the source shows no such table: check the name, its letter case and the account's rights"
)
"""Reason of a table that is named in the configuration; it is copied once it is there."""
_LOG = logging.getLogger("replica_client.service")
_MAX_TEXT: Final = 500
_MAKES: Final = ("create_table", "rename_table")


@dataclass(frozen=True)
class SetAside:
    """The reason why a table is set aside, and since when.

    Attributes:
        reason: what could not be done.
        since: seconds since 1970.
        position: of the sink then, as text.
    """

    reason: str
    since: float
    position: str = ""


def failed_tables(error: Exception) -> frozenset[TableName]:
    """Return the tables that an error is limited to; empty if it concerns others too."""
    if isinstance(error, SinkError) and error.retriable:
        return frozenset()
    if isinstance(error, CopyNeededError | TableRefusedError):
        return error.tables
    if isinstance(error, DivergedError | PoisonChangeError) and error.table_name is not None:
        return frozenset((error.table_name,))
    return frozenset()


def reason_of(error: ReplicaClientError) -> str:
    """Return an error as one line."""
    return " ".join(str(error).split())[:_MAX_TEXT]


class TablesSetAside:
    """The tables of one sink that are set aside.

    Args:
        route: its name, for messages.
        companions: the state that is saved with the position.
        accepted: patterns of tables that may be set aside without making the service not ready.
        renames: whether the sink holds tables, so that renames and drops must still reach it.

    Attributes:
        tables: by name.
    """

    def __init__(
        self,
        route: str,
        companions: MutableMapping[str, object],
        accepted: Iterable[str],
        *,
        renames: bool,
    ) -> None:
        self._route, self._companions, self._renames = route, companions, renames
        self._accepted = tuple(accepted)
        self.tables = read_state(companions.get(STATE_KEY))

    def __bool__(self) -> bool:
        return bool(self.tables)

    @property
    def unaccepted(self) -> list[TableName]:
        """Tables that make the service not ready."""
        return unaccepted(self.tables, self._accepted)

    def add(self, reasons: Mapping[TableName, str], position: str) -> None:
        """Set tables aside."""
        for name, reason in reasons.items():
            self.tables.setdefault(name, SetAside(reason, time.time(), position))
        self._save()

    def take_back(self, names: Iterable[TableName]) -> None:
        """Continue with tables of which the sink has, or will have, a new copy."""
        back = [name for name in names if self.tables.pop(name, None) is not None]
        for name in back:
            _LOG.info("%s: %s.%s is taken back", self._route, *name)
        if back:
            self._save()

    def shown(self, transaction: Transaction) -> Transaction:
        """Return a transaction without changes of tables that are set aside."""
        if not self.tables:
            return transaction
        changes = tuple(one for one in transaction.schema_changes if self._passes(one))
        rows = tuple(
            one
            for one in transaction.rows
            if (one.shape.database, one.shape.table) not in self.tables
        )
        losses = tuple(one for one in transaction.losses if not self._is_lost(one))
        same = len(rows) == len(transaction.rows) and len(losses) == len(transaction.losses)
        if same and len(changes) == len(transaction.schema_changes):
            return transaction
        return transaction.__replace__(rows=rows, schema_changes=changes, losses=losses)

    def _is_lost(self, loss: Loss) -> bool:
        return (loss.database, loss.table) in self.tables

    def _passes(self, change: SchemaChange) -> bool:
        """Follow renames and drops of tables set aside; return whether the sink gets the change."""
        name = (change.database, change.table)
        made = self.tables.get(change.name_after)
        if made is not None and made.reason == NOT_VISIBLE and change.kind in _MAKES:
            raise CopyNeededError(
                f"{'.'.join(change.name_after)} is made on the source", {change.name_after}
            )
        if change.kind == "drop_database":
            gone = [one for one in self.tables if one[0] == change.database]
            for one in gone:
                del self.tables[one]
            self._save()
            return True
        if name not in self.tables:
            return True
        if change.kind == "drop_table":
            del self.tables[name]
            self._save()
            return True
        after = change.name_after
        if after != name:
            self.tables[after] = self.tables.pop(name)
            self._save()
            return self._renames and change.kind == "rename_table"
        return False

    def _save(self) -> None:
        self._companions[STATE_KEY] = [
            [*name, one.reason, one.since, one.position] for name, one in self.tables.items()
        ]


def read_state(value: object) -> dict[TableName, SetAside]:
    """Return the tables of a saved state.

    Raises:
        PositionStoreError: the state is malformed.
    """
    if value is None:
        return {}
    try:
        assert isinstance(value, list | tuple)
        return {
            (str(database), str(table)): SetAside(str(reason), float(since), str(position))
            for database, table, reason, since, position in value
        }
    except (AssertionError, TypeError, ValueError) as error:
        raise PositionStoreError(
            f"the tables set aside in the saved position are not of this release: {error}"
        ) from None


def unaccepted(tables: Iterable[TableName], accepted: Iterable[str]) -> list[TableName]:
    """Return the tables that no pattern accepts."""
    known = tuple(accepted)
    return [name for name in tables if not any(fnmatchcase(".".join(name), one) for one in known)]


def with_reason(reasons: Mapping[TableName, SetAside]) -> list[dict[str, object]]:
    """Return tables with their reasons, for the status page."""
    return [
        {
            "table": ".".join(name),
            "reason": one.reason,
            "since": one.since,
            "position": one.position,
        }
        for name, one in sorted(reasons.items())
    ]


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
