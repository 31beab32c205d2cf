"""How far the reading of binlog files is, as a bar on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from replica_client.codec.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from replica_client.readers.transaction import Transaction
    from replica_client.storage.location import Location

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
        """A transaction was read."""
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
    """A bar on standard error while files are read.

    Args:
        paths: as the user gave them.
        shares_terminal: whether lines go to standard output; on one terminal a bar would be among them.
    """
    if not sys.stderr.isatty() or (shares_terminal and sys.stdout.isatty()):
        yield FileProgress(None, {})
        return
    from rich.progress import Progress  # takes long to import

    from replica_client.cli.output import progress_console
    from replica_client.cli.raw_files import files_of
    from replica_client.storage.files import file_status

    sizes = {path.name: file_status(path).size for path in files_of(list(map(str, paths)))}
    with Progress(console=progress_console(), transient=True) as progress:
        yield FileProgress(progress, sizes)
