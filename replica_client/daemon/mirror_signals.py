"""Signals to a mirror: requests to copy tables again, such as after a loss."""

from __future__ import annotations

import logging
from collections.abc import Callable

from replica_client.daemon.signals import EXECUTE, Signal, SignalTable
from replica_client.readers.transaction import Transaction
from replica_client.rows.selection import Selection
from replica_client.sinks.copying_sink import CopyingSink
from replica_client.tables.table_copy import CopyNeededError, Standing, TableName

_LOG = logging.getLogger("replica_client.daemon")


class MirrorSignals:
    """The handler of a mirror's signals.

    The stream does not pass a signal before each of its tables has a copy that began after the
    signal, even after a crash.

    Args:
        route: its name, for messages.
        table: the table of signals.
        sink: open.
        wanted: the tables of the sink.
        copies: whether the sink copies tables at all.
        fail: called with each error message.
    """

    def __init__(
        self,
        route: str,
        table: SignalTable,
        sink: CopyingSink,
        wanted: Selection,
        *,
        copies: bool,
        fail: Callable[[str], None],
    ) -> None:
        self._route, self._table, self._sink = route, table, sink
        self._wanted, self._copies, self._fail = wanted, copies, fail

    def take(self, transaction: Transaction) -> Transaction:
        """Handle a transaction's signals; return the transaction without them.

        Raises:
            CopyNeededError: a signal requests copies that do not exist yet.
        """
        for signal in self._table.signals(transaction):
            if isinstance(signal, ValueError):
                self._refuse(str(signal))
            elif signal.kind == EXECUTE:
                self._copy(signal, transaction)
        return self._table.hidden(transaction)

    def _copy(self, signal: Signal, transaction: Transaction) -> None:
        names = signal.names({*self._sink.tables, *self._sink.copies})
        for text in signal.tables:
            database, _, table = text.partition(".")
            if (database, table) not in names and self._is_wanted(database, table):
                names.append((database, table))
        if not self._copies:
            return self._refuse(f"{signal.id}: snapshot = true is not set on this sink")
        if signal.conditions:
            return self._refuse(f"{signal.id}: a mirror copies whole tables, and takes no filter")
        if not names:
            return self._refuse(f"{signal.id}: no table that the sink wants has such a name")
        if lacking := [name for name in names if not self._has_copy(name, transaction)]:
            raise CopyNeededError(
                f"{signal.id}: a copy of {len(lacking)} tables is asked for", lacking
            )
        return None

    def _is_wanted(self, database: str, table: str) -> bool:
        plain = table.replace("_", "").isalnum() and database.replace("_", "").isalnum()
        return plain and self._wanted.wants(database, table)

    def _has_copy(self, name: TableName, transaction: Transaction) -> bool:
        copy, at = self._sink.copies.get(name), transaction.start
        return copy is not None and copy.statement_at(at.file, at.offset) is Standing.BEFORE

    def _refuse(self, why: str) -> None:
        _LOG.error("%s: %s", self._route, why)
        self._fail(why)
