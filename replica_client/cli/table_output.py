"""Row changes of one table as CSV on standard output, or as a Parquet or Arrow file."""

from __future__ import annotations

import sys
from typing import Literal

from replica_client.cli.extras import extra_module
from replica_client.cli.output import Lines, message
from replica_client.errors import ConfigError
from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.row_change import Change
from replica_client.storage.location import local_path


class CsvOutput:
    """CSV; see :mod:`replica_client.rows.change_csv`."""

    whole_at_end = False

    def __init__(self) -> None:
        from replica_client.rows.change_csv import CsvLines  # not by the other outputs

        self._lines = Lines()
        self._csv = CsvLines()

    def write(self, transaction: Transaction) -> None:
        """See :class:`~replica_client.cli.chosen_changes.ChangeOutput`, as of all others."""
        for change in transaction.changes:
            self._write(transaction, change)

    def write_change(self, transaction: Transaction, rows: RowsOfEvent, change: Change) -> None:
        """See there."""
        self._write(transaction, change)

    def _write(self, transaction: Transaction, change: Change) -> None:
        stamp = transaction.commit_us
        for line in self._csv.lines(change, transaction.commit_version, stamp):
            self._lines.data(line)

    def completed(self) -> None:
        """See there."""

    def flush(self) -> None:
        """See there."""
        self._lines.flush()

    def discard(self) -> None:
        """See there."""

    def finish(self) -> bool:
        """See there."""
        return True


class BatchOutput:
    """A file of record batches; ``-`` is an Arrow stream on standard output."""

    def __init__(self, target: str, form: Literal["parquet", "arrow"]) -> None:
        module = extra_module("replica_client.rows.batch_file", "arrow")
        self.whole_at_end = target != "-"
        if not self.whole_at_end and form == "parquet":
            raise ConfigError("--parquet -: a Parquet file needs a name; --arrow - writes a stream")
        self._file = module.BatchFile(
            local_path(target, f"--{form}") if self.whole_at_end else sys.stdout.buffer, form
        )
        self._target = target
        self._torn = self._discarded = False

    def write(self, transaction: Transaction) -> None:
        """See :class:`~replica_client.cli.chosen_changes.ChangeOutput`, as of all others."""
        rows_of_events = transaction.rows
        for rows in rows_of_events:
            self._file.check(rows)
        self._torn = True
        for rows in rows_of_events:
            stamp = transaction.commit_us
            self._file.add_rows(rows, transaction.commit_version, stamp)
        self._torn = False

    def write_change(self, transaction: Transaction, rows: RowsOfEvent, change: Change) -> None:
        """See there."""
        self._torn = True
        stamp = transaction.commit_us
        self._file.add_change(rows, change, transaction.commit_version, stamp)

    def completed(self) -> None:
        """See there."""
        self._torn = False

    def flush(self) -> None:
        """See there."""
        if not self.whole_at_end:
            self._file.flush()

    def discard(self) -> None:
        """See there."""
        if self.whole_at_end:
            self._discarded = True
            self._file.discard()

    def finish(self) -> bool:
        """See there: not where a fault came in the middle of a transaction; there is no file then."""
        if self._discarded:
            return False
        if self._torn and self.whole_at_end:
            self._file.discard()
            message(f"{self._target} was not written: a transaction is not whole")
            return False
        if not self._file.finish() and self.whole_at_end:
            message(f"there are no changes: {self._target} was not written")
        return True
