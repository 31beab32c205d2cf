"""Row changes of binlog files, written to standard output and acknowledged by a position file."""

from __future__ import annotations

from replica_client.cli.delivery import Delivery
from replica_client.cli.interruption import Stop
from replica_client.cli.losses import tell_losses, tell_unmatched
from replica_client.cli.row_output import RowOutput
from replica_client.position.stores.base import PositionStore
from replica_client.readers.binlog_file import BinlogFileReader


def write_file_changes(
    reader: BinlogFileReader, output: RowOutput, store: PositionStore | None = None
) -> None:
    """Write all changes that a reader gives.

    Args:
        reader: of the files.
        output: where they go.
        store: where the position behind what was written is saved.
    """
    delivery = Delivery(output, store, state=reader.state)
    with Stop().watching() as stop:
        try:
            for transaction in reader.transactions():
                output.write(transaction)
                delivery.delivered(transaction)
                if delivery.is_due:
                    delivery.commit()
                if stop.requested:
                    break
        finally:
            delivery.commit()
            tell_losses(reader.losses)
            tell_unmatched(reader.unmatched_patterns)
