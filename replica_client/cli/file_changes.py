"""Row changes of binlog files, written to an output, and the progress of reading."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from replica_client.cli.acknowledging import SAVE_INTERVAL, ChosenChanges, Delivery
from replica_client.cli.interruption import Stop
from replica_client.cli.reading import ALLOW_EMPTY_HINT, tell_losses, tell_unmatched
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable
from replica_client.stream.files.binlog_file import BinlogFileReader
from replica_client.stream.position.stores.base import PositionStore

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from replica_client.storage.location import Location
    from replica_client.stream.transactions.transaction import Transaction


_INTERVAL = 0.1


class FileProgress:
    """Draws a bar as transactions are read; nothing where there is no terminal for it.

    Args:
        progress: the bar; None: none.
        sizes: of the files, by name, in order.
    """

    def __init__(self, progress: Progress | None, sizes: dict[str, int]) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._before: dict[str, int] = {}
        total = 0
        for name, size in sizes.items():
            self._before[name] = total
            total += size
        if progress is not None:
            self._task = progress.add_task("reading", total=total)
        self._drawn = 0.0

    def read(self, transaction: Transaction) -> None:
        """Note that a transaction was read."""
        if self._progress is None or self._task is None:
            return
        now = time.monotonic()
        if now - self._drawn < _INTERVAL:
            return
        self._drawn = now
        position = transaction.position
        done = self._before.get(position.file, 0) + position.offset
        self._progress.update(self._task, completed=done, description=printable(position.file))


@contextmanager
def file_progress(paths: Sequence[Location], *, shares_terminal: bool) -> Iterator[FileProgress]:
    """Show a bar on standard error while files are read.

    Args:
        paths: as the user gave them.
        shares_terminal: whether lines go to standard output; on one terminal a bar would be among them.
    """
    if not sys.stderr.isatty() or (shares_terminal and sys.stdout.isatty()):
        yield FileProgress(None, {})
        return
    from rich.progress import Progress  # takes long to import

    from replica_client.cli.file_check import files_of
    from replica_client.cli.output import progress_console
    from replica_client.storage.files import file_status

    found = (file_status(path) for path in files_of(list(map(str, paths))))
    sizes = {one.name: one.size for one in found}
    with Progress(console=progress_console(), transient=True) as progress:
        yield FileProgress(progress, sizes)


def write_file_changes(
    reader: BinlogFileReader,
    chosen: ChosenChanges,
    store: PositionStore | None = None,
    progress: FileProgress | None = None,
    times: str = "",
) -> None:
    """Write the changes that a reader gives.

    Args:
        reader: of the files.
        chosen: which, and where they go.
        store: where the position behind what was written is saved.
        progress: is told what was read.
        times: a range in which there must be a transaction, for the message; empty: there need be none.

    Raises:
        ConfigError: no transaction is in the range, or a table or column is not in what was read.
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
                if times and chosen.is_empty:
                    raise ConfigError(f"{times}: the files have no transaction{ALLOW_EMPTY_HINT}")
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
