"""Transactions of a stream that came together."""

from __future__ import annotations

from replica_client.readers.transaction import Transaction


class TransactionGroup:
    """Transactions that came together, in order; several consumers may share one group.

    Args:
        transactions: at least one.
        size: bytes of memory that they need, roughly.
        ordinary: whether each is whole, and has rows and nothing else.

    Attributes:
        transactions: see above.
        size: see above.
        ordinary: see above.
        known: results that one consumer stores for the next ones.
    """

    __slots__ = ("known", "ordinary", "size", "transactions")

    def __init__(self, transactions: list[Transaction], size: int, *, ordinary: bool) -> None:
        self.transactions = transactions
        self.size = size
        self.ordinary = ordinary
        self.known: object = None

    @classmethod
    def of_one(cls, transaction: Transaction) -> TransactionGroup:
        """Create a group of one transaction, or of a part of one."""
        size = OVERHEAD + sum(rows.event_size + OVERHEAD for rows in transaction.rows)
        size += sum(len(statement.text) for statement in transaction.statements)
        return cls([transaction], size, ordinary=False)


OVERHEAD = 512
"""Bytes that the objects of a transaction or of a rows event need apart from the event, roughly."""
