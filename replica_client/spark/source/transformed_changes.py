"""Transactions of a range after the transforms, for the builders of batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from replica_client.readers.transaction import Transaction
from replica_client.readers.transforms.transformer import Transformer
from replica_client.rows.batching import BatchAssembler
from replica_client.spark.source.file_partition import Changes


class TransformedChanges:
    """Shows transactions to another consumer after the transforms.

    Args:
        changes: the consumer.
        transformer: does the transforms.
        record_losses: kinds of losses that become rows.

    Attributes:
        batches: takes the rows.
    """

    def __init__(
        self, changes: Changes, transformer: Transformer, record_losses: Collection[str]
    ) -> None:
        self._changes, self._transformer = changes, transformer
        self._record_losses = record_losses
        self.batches: BatchAssembler = changes.batches

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Transform a transaction, take its unusual events, and return the rest of it."""
        shown = self._transformer.transaction(transaction, self._record_losses)
        return self._changes.keep_back(shown)

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches, as :class:`~replica_client.spark.source.file_partition.Changes` does."""
        return self._changes.take(ready, size)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Likewise."""
        return self._changes.flush()
