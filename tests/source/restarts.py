"""Readers of binlogs of which each goes on where the one before ended, with what was saved there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from replica_client import FilePositionStore, open_binlog
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.stream.transactions.transaction import Transaction


def transactions_with_restarts(
    files: Sequence[Path], store: Path, seed: int, most: int = 30, **options: Any
) -> Iterator[tuple[int, Transaction]]:
    """The transactions of binlogs, each with the number of the reader that gave it.

    Args:
        files: the binlogs.
        store: a position file, which is not there yet.
        seed: says behind how many transactions a reader ends.
        most: so many at most.
        options: of :func:`~replica_client.open_binlog`.
    """
    chance = random.Random(seed)
    for number in count():
        # A new one each time: nothing is known but what stands in the file.
        saved = FilePositionStore(store).load_checkpoint()
        if saved is not None:
            options |= {
                "start": saved.position,
                "schema": SchemaHistory.from_state(saved.state[STATE_KEY]),
                "losses": LossLedger.from_state(saved.state.get(LOSSES_KEY, [])),
                "prepared": PreparedLedger.from_state(saved.state.get(PREPARED_KEY, [])),
            }
        reader = open_binlog(list(files), **options)
        left = chance.randint(1, most)
        for transaction in reader.transactions():
            yield number, transaction
            left -= 1
            if left <= 0 and transaction.complete:
                position = transaction.position
                FilePositionStore(store).save(position, reader.state(position))
                break
        else:
            return
