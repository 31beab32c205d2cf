"""Row changes on standard output, as JSON or as lines for people."""

from __future__ import annotations

import os
import sys

from replica_client.cli.change_text import row_text
from replica_client.cli.output import Column, Lines, coloured, commit_clock
from replica_client.codec.printable import printable
from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_lines import JsonLines
from replica_client.rows.row_change import Change
from replica_client.rows.table_lines import TableLines

_MOST_WAITING = 64 << 10
"""Bytes that wait to be written together."""

_COLUMNS = (
    Column("position", 28),
    Column("committed (UTC)", 26),
    Column("kind", 6),
    Column("table", 24),
    Column("row"),
)
_COLOURS = {"insert": "32", "update": "33", "delete": "31"}
_POSITION, _TIME, _KIND, _TABLE, _ROW = _COLUMNS


class RowOutput:
    """Writes the rows of transactions; in colours where standard output is a terminal that shows them.

    Args:
        json: whether as JSON.
    """

    whole_at_end = False

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._colours = not json and coloured(sys.stdout, os.environ)
        self._lines = Lines(_COLUMNS)
        self._is_headed = json
        self._committed, self._time = -1, ""
        widths = (_POSITION.width, _TIME.width, _KIND.width, _TABLE.width)
        self._table = None if json else TableLines(self._line, widths)
        self._rows = self._table or JsonLines()

    def write(self, transaction: Transaction) -> None:
        """Write the rows of a transaction; those before a row that cannot be decoded, too.

        Raises:
            BinlogDecodeError: a row cannot be decoded.
            OSError: standard output cannot be written.
        """
        if self._table is not None and transaction.commit_us != self._committed:
            self._committed = transaction.commit_us
            self._time = commit_clock(self._committed)
            self._table.set_time(self._time)
        if self._colours:
            for rows in transaction.rows:
                for change in rows:
                    self.write_change(transaction, rows, change)
            return
        try:
            for rows in transaction.rows:
                self._rows.rows(rows)
                if self._rows.used >= _MOST_WAITING:
                    self._hand_over()
        except BaseException:
            self._hand_over()
            raise

    def write_change(self, transaction: Transaction, rows: RowsOfEvent, change: Change) -> None:
        """Write one of the rows of a transaction.

        Raises:
            OSError: standard output cannot be written.
        """
        self._hand_over()
        if self._json:
            self._lines.json_text(change.to_json())
            return
        self._head()
        line = change_line(change, commit_clock(transaction.commit_us))
        if self._colours:
            self._lines.coloured(line, _COLOURS[change.kind])
        else:
            self._lines.line(line)

    def _line(self, change: Change) -> str:
        return change_line(change, self._time)

    def completed(self) -> None:
        """See :class:`~replica_client.cli.chosen_changes.ChangeOutput`."""

    def discard(self) -> None:
        """See :class:`~replica_client.cli.chosen_changes.ChangeOutput`."""

    def finish(self) -> bool:
        """See :class:`~replica_client.cli.chosen_changes.ChangeOutput`."""
        return True

    def flush(self) -> None:
        """Hand everything on; see :meth:`Lines.flush`."""
        self._hand_over()
        self._lines.flush()

    def _hand_over(self) -> None:
        if not self._rows.used:
            return
        self._head()
        self._lines.encoded(self._rows.take())

    def _head(self) -> None:
        if not self._is_headed:
            self._is_headed = True
            self._lines.heading()


def change_line(change: Change, time: str) -> str:
    """Return one line for people, without its end; ``time`` is the text of the commit time."""
    cells = (
        _POSITION.pad(printable(f"{change.file}:{change.offset}")),
        _TIME.pad(time),
        _KIND.pad(printable(change.kind)),
        _TABLE.pad(printable(f"{change.database}.{change.table}")),
        printable(row_text(change)),
    )
    return "  ".join(cells).rstrip()
