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
    """Keeps the rows of prepared transactions until their XA COMMIT or XA ROLLBACK.

    Args:
        ledger: the transactions that were prepared before reading began; it is moved on.
        storage: memory and file of the rows; None: its own, of the default size.

    Attributes:
        ledger: where the pending transactions are, for the checkpoint.
        storage: see above.
    """

    def __init__(
        self, ledger: PreparedLedger | None = None, storage: SpoolStorage | None = None
    ) -> None:
        self.ledger = PreparedLedger() if ledger is None else ledger
        self.storage = SpoolStorage() if storage is None else storage
        # Of a transaction that has no wanted rows: none.
        self._rows: dict[XaId, tuple[RowSpool, ...]] = {}

    def __contains__(self, xid: object) -> bool:
        return xid in self._rows

    def read_back(self, xid: XaId, commit: Position) -> None:
        """Read a transaction that was prepared before reading began, where that can be done here.

        Args:
            xid: of the transaction.
            commit: where the transaction of its XA COMMIT begins.

        Raises:
            BinlogDecodeError: what lies before cannot be decoded.
            DataLossError: a change of the transaction cannot be delivered as rows.
        """

    def keep(self, one: PreparedTransaction, spools: tuple[RowSpool, ...]) -> None:
        """An XA PREPARE was read.

        Args:
            one: where.
            spools: what stands before it, to be given in this order.

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
            # Many small ones are no less memory than a large one.
            for spool in kept:
                spool.spill()
        self._rows[one.xid] = kept

    def adopt(self, xid: XaId, others: PreparedRows) -> None:
        """Keep a transaction that was read back, if it was found."""
        one = others.ledger.find(xid)
        if one is not None:
            self.keep(one, others.end(xid, one.start))

    def end(self, xid: XaId, start: Position) -> tuple[RowSpool, ...]:
        """What waited of a transaction that ends, to be closed by the caller.

        Args:
            xid: which.
            start: where the transaction of its XA COMMIT or XA ROLLBACK begins.
        """
        self.ledger.end(xid, start)
        return self._rows.pop(xid, ())


def passes_over(tracker: PositionTracker, data: bytes) -> bool:
    """Whether an event is rows inside a transaction, which who looks for an XA PREPARE need not decode."""
    if not tracker.in_transaction or data[4] not in MIDDLE:
        return False
    tracker.skip(1, len(data))
    return True
