"""Row changes of binlog files, written to an output and acknowledged by a position file."""

from __future__ import annotations

import math

from replica_client.cli.acknowledging import SAVE_INTERVAL, Delivery
from replica_client.cli.chosen_changes import ChosenChanges
from replica_client.cli.file_progress import FileProgress
from replica_client.cli.interruption import Stop
from replica_client.cli.loss_report import ALLOW_EMPTY_HINT, tell_losses, tell_unmatched
from replica_client.errors import ConfigError
from replica_client.position.stores.base import PositionStore
from replica_client.readers.files.binlog_file import BinlogFileReader


def write_file_changes(
    reader: BinlogFileReader,
    chosen: ChosenChanges,
    store: PositionStore | None = None,
    progress: FileProgress | None = None,
) -> None:
    """Write the changes that a reader gives.

    Args:
        reader: of the files.
        chosen: which, and where they go.
        store: where the position behind what was written is saved.
        progress: is told what was read.
    """
    output = chosen.output
    interval = math.inf if output.whole_at_end else SAVE_INTERVAL
    delivery = Delivery(output, store, interval, state=reader.state)
    # A run that goes on from a saved position may find nothing more of its tables.
    checks_tables = chosen.checks_tables and (store is None or store.load_checkpoint() is None)
    chosen.begin(reader.position)
    with Stop().watching() as stop:
        try:
            for transaction in stop.until(reader.transactions()):
                delivery.delivered(chosen.write(transaction))
                if progress is not None:
                    progress.read(transaction)
                if delivery.is_due:
                    delivery.commit()
                if chosen.done:
                    break
            try:
                chosen.check()
                if checks_tables and not chosen.done:
                    reader.check_tables(ALLOW_EMPTY_HINT)
            except ConfigError:
                output.discard()
                raise
        finally:
            if chosen.finish():
                delivery.commit()
            tell_losses(reader.losses)
            if not checks_tables:
                tell_unmatched(reader.unmatched_patterns)
