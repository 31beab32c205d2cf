"""The rows of prepared XA transactions, which wait for their XA COMMIT."""

from __future__ import annotations

import logging

from replica_client.position.groups import MIDDLE
from replica_client.position.position import Position
from replica_client.position.prepared import PreparedLedger, PreparedTransaction, XaId
from replica_client.position.tracker import PositionTracker
from replica_client.readers.row_spool import RowSpool
from replica_client.readers.spool_storage import SpoolStorage

_LOG = logging.getLogger("replica_client")


class PreparedRows:
    """Rows of prepared XA transactions, until their XA COMMIT or XA ROLLBACK.

    Args:
        ledger: the transactions that were prepared before reading began; it is updated.
        storage: memory and file of the rows; None: a new one of the default size.

    Attributes:
        ledger: where the pending transactions are, for the checkpoint.
        storage: see above.
    """

    def __init__(
        self, ledger: PreparedLedger | None = None, storage: SpoolStorage | None = None
    ) -> None:
        self.ledger = PreparedLedger() if ledger is None else ledger
        self.storage = SpoolStorage() if storage is None else storage
        # A transaction without wanted rows has an empty tuple.
        self._rows: dict[XaId, tuple[RowSpool, ...]] = {}

    def __contains__(self, xid: object) -> bool:
        return xid in self._rows

    def read_back(self, xid: XaId, commit: Position) -> None:
        """Read a transaction that was prepared before reading began, if possible.

        Args:
            xid: id of the transaction.
            commit: start of the transaction of its XA COMMIT.

        Raises:
            BinlogDecodeError: the events before cannot be decoded.
            DataLossError: a change of the transaction cannot be delivered as rows.
        """

    def keep(self, one: PreparedTransaction, spools: tuple[RowSpool, ...]) -> None:
        """Keep the rows of a transaction at its XA PREPARE.

        Args:
            one: the transaction and its place.
            spools: items before the XA PREPARE, to be delivered in this order.

        Raises:
            SpoolError: the temporary file cannot be written.
            DataLossError: too many are pending.
        """
        before = self._rows.pop(one.xid, ())
        if before:
            _LOG.warning(
                "XA transaction %s was prepared again at %s:%d without an end of the one before, whose "
                "rows are dropped: the source lost it in a crash",
                *(one.xid, one.start.file, one.start.offset),
            )
            for spool in before:
                spool.close()
        self.ledger.prepare(one)
        kept = tuple(spool for spool in spools if len(spool))
        if 2 * self.storage.memory_used > self.storage.memory_limit:
            # Many small transactions take as much memory as a large one.
            for spool in kept:
                spool.spill()
        self._rows[one.xid] = kept

    def adopt(self, xid: XaId, others: PreparedRows) -> None:
        """Keep a transaction that was read back, if it was found."""
        one = others.ledger.find(xid)
        if one is not None:
            self.keep(one, others.end(xid, one.start))

    def end(self, xid: XaId, start: Position) -> tuple[RowSpool, ...]:
        """Remove a transaction that ends and return its items, which the caller closes.

        Args:
            xid: id of the transaction.
            start: start of the transaction of its XA COMMIT or XA ROLLBACK.
        """
        self.ledger.end(xid, start)
        return self._rows.pop(xid, ())


def passes_over(tracker: PositionTracker, data: bytes) -> bool:
    """Skip a rows event inside a transaction, undecoded, and return True; False for other events."""
    if not tracker.in_transaction or data[4] not in MIDDLE:
        return False
    tracker.skip(1, len(data))
    return True
