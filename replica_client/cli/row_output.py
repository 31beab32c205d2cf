"""Row changes on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Literal

from replica_client.cli.output import (
    Column,
    Lines,
    coloured,
    commit_clock,
    cropped,
    message,
    terminal_width,
)
from replica_client.cli.program import extra_module
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_lines import JsonLines
from replica_client.rows.json_values import value_to_json
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import ABSENT
from replica_client.rows.table_lines import TableLines
from replica_client.storage.location import local_path
from replica_client.stream.transactions.transaction import Statement, Transaction


class CsvOutput:
    """CSV; see :mod:`replica_client.rows.table_files`."""

    whole_at_end = False

    def __init__(self) -> None:
        from replica_client.rows.table_files import CsvLines  # not by the other outputs

        self._lines = Lines()
        self._csv = CsvLines()

    def write(self, transaction: Transaction) -> None:
        for change in transaction.changes:
            self._write(transaction, change)

    def write_change(self, transaction: Transaction, rows: RowsOfEvent, change: Change) -> None:
        self._write(transaction, change)

    def _write(self, transaction: Transaction, change: Change) -> None:
        stamp = transaction.commit_us
        for line in self._csv.lines(change, transaction.commit_version, stamp):
            self._lines.data(line)

    def completed(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        self._lines.flush()

    def discard(self) -> None:
        """Do nothing."""

    def finish(self) -> bool:
        return True


class BatchOutput:
    """A file of record batches; ``-`` is an Arrow stream on standard output."""

    def __init__(self, target: str, form: Literal["parquet", "arrow"]) -> None:
        module = extra_module("replica_client.rows.table_files", "arrow")
        self.whole_at_end = target != "-"
        if not self.whole_at_end and form == "parquet":
            raise ConfigError("--parquet -: a Parquet file needs a name; --arrow - writes a stream")
        self._file = module.BatchFile(
            local_path(target, f"--{form}") if self.whole_at_end else sys.stdout.buffer, form
        )
        self._target = target
        self._torn = self._discarded = False

    def write(self, transaction: Transaction) -> None:
        rows_of_events = transaction.rows
        for rows in rows_of_events:
            self._file.check(rows)
        self._torn = True
        for rows in rows_of_events:
            stamp = transaction.commit_us
            self._file.add_rows(rows, transaction.commit_version, stamp)
        self._torn = False

    def write_change(self, transaction: Transaction, rows: RowsOfEvent, change: Change) -> None:
        self._torn = True
        stamp = transaction.commit_us
        self._file.add_change(rows, change, transaction.commit_version, stamp)

    def completed(self) -> None:
        self._torn = False

    def flush(self) -> None:
        if not self.whole_at_end:
            self._file.flush()

    def discard(self) -> None:
        if self.whole_at_end:
            self._discarded = True
            self._file.discard()

    def finish(self) -> bool:
        """Write no file if a fault came in the middle of a transaction."""
        if self._discarded:
            return False
        if self._torn and self.whole_at_end:
            self._file.discard()
            message(f"{self._target} was not written: a transaction is not whole")
            return False
        if not self._file.finish() and self.whole_at_end:
            message(f"there are no changes: {self._target} was not written")
        return True


def row_text(change: Change) -> str:
    """Return the row as ``name=value``; ``name=old→new`` where an update changed the value."""
    return ", ".join(text for _, text, _ in row_parts(change))


def row_parts(change: Change) -> Iterator[tuple[str, str, bool]]:
    """Yield name, text and whether an update changed the value, of each column in order."""
    before = {} if change.before is None else change.before.as_dict()
    after = {} if change.after is None else change.after.as_dict()
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name, ABSENT), after.get(name, ABSENT)
        # The JSON document null equals None, but is not SQL NULL.
        same = (was is None) == (now is None) and was == now
        if was is ABSENT or now is ABSENT or same:
            yield name, f"{name}={value_to_json(was if now is ABSENT else now)}", False
        else:
            yield name, f"{name}={value_to_json(was)}→{value_to_json(now)}", True


_MOST_WAITING = 64 << 10
"""Bytes that wait to be written together."""

_COLUMNS = (
    Column("position", 28),
    Column("committed (UTC)", 26),
    Column("kind", 6),
    Column("table", 24),
    Column("row"),
)
_NARROW = (Column("time", 8), Column("kind", 6), Column("table", 16), Column("row"))
_MIDDLE = (
    Column("position", 20),
    Column("time (UTC)", 19),
    Column("kind", 6),
    Column("table", 20),
    Column("row"),
)
_COLOURS = {"insert": "32", "update": "33", "delete": "31", "statement": "36"}
_CHANGED = "1"  # bold


class TerminalChanges:
    """Lines of changes for a terminal: as wide as that is, the key and what changed first.

    Args:
        width: columns of the terminal.
        colours: whether it shows colours.
    """

    def __init__(self, width: int, *, colours: bool) -> None:
        self._width = width
        self._colours = colours
        self.columns = _NARROW if width < 100 else _MIDDLE if width < 160 else _COLUMNS

    def line(self, change: Change, committed: str) -> str:
        """Return the line of a change."""
        shape = change.shape
        key = {shape.columns[at].name for at in shape.primary_key}
        parts = list(row_parts(change))
        if change.kind == "update":
            parts.sort(key=lambda part: (part[0] not in key, not part[2]))
        texts = (self._in(_CHANGED, printable(text), changed) for _, text, changed in parts)
        table = f"{change.database}.{change.table}"
        return self.cells(
            f"{change.file}:{change.offset}",
            committed,
            change.kind,
            table,
            ", ".join(texts),
        )

    def cells(self, position: str, time: str, kind: str, table: str, row: str) -> str:
        """Return the line of some cells; the row may have colours."""
        cells = [
            printable(position),
            time if self.columns is _COLUMNS else time[:19],
            kind,
            printable(table),
        ]
        if len(self.columns) < len(_COLUMNS):
            cells = [time[11:19], kind, printable(table)]
        texts = [
            cropped(column.pad(cell), max(column.width, 1))
            if column.heading == "table"
            else column.pad(cell)
            for column, cell in zip(self.columns, cells, strict=False)
        ]
        at = -2  # the kind's cell
        texts[at] = self._in(_COLOURS[kind], texts[at], True)
        return cropped("  ".join((*texts, row)).rstrip(), self._width)

    def _in(self, colour: str, text: str, wanted: bool) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if wanted and self._colours else text


class RowOutput:
    """Writes the rows of transactions; for the width and the colours of a terminal where standard output is one.

    Args:
        json: whether as JSON.
        statements: whether statements are written, too: changes that were logged as text.
    """

    whole_at_end = False

    def __init__(self, *, json: bool, statements: bool = False) -> None:
        self._json = json
        self._statements = statements
        self._terminal: TerminalChanges | None = None
        if not json and sys.stdout.isatty():
            self._terminal = TerminalChanges(
                terminal_width(sys.stdout), colours=coloured(sys.stdout, os.environ)
            )
        self._lines = Lines(_COLUMNS if self._terminal is None else self._terminal.columns)
        self._is_headed = json
        self._committed, self._time = -1, ""
        self._table = None if json else TableLines(self._line, (0, 0, 0, 0))
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
        if self._statements and transaction.statements:
            items: list[RowsOfEvent | Statement] = [*transaction.rows, *transaction.statements]
            for item in sorted(items, key=lambda one: one.event_index):
                if isinstance(item, Statement):
                    self._write_statement(transaction, item)
                else:
                    for change in item:
                        self.write_change(transaction, item, change)
            return
        if self._terminal is not None:
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
        if self._terminal is not None:
            self._lines.coloured(self._terminal.line(change, commit_clock(transaction.commit_us)))
        else:
            self._lines.line(change_line(change, commit_clock(transaction.commit_us)))

    def _write_statement(self, transaction: Transaction, statement: Statement) -> None:
        self._hand_over()
        timestamp = transaction.commit_us // 1_000_000
        committed = commit_clock(transaction.commit_us)
        if self._json:
            record = {
                "file": statement.file,
                "position": statement.position,
                "event_index": statement.event_index,
                "gtid": transaction.gtid,
                "timestamp": timestamp,
                "kind": "statement",
                "database": statement.database,
                "statement": statement.text,
            }
            self._lines.json(record)
            return
        self._head()
        text = printable(" ".join(statement.text.split()))
        position = f"{statement.file}:{statement.position}"
        if self._terminal is not None:
            cells = (position, committed, "statement", statement.database, text)
            self._lines.coloured(self._terminal.cells(*cells))
        else:
            self._lines.line(
                "  ".join((position, committed, "statement", statement.database, text))
            )

    def _line(self, change: Change) -> str:
        return change_line(change, self._time)

    def completed(self) -> None:
        """Do nothing."""

    def discard(self) -> None:
        """Do nothing."""

    def finish(self) -> bool:
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
    """Return one line for people, without its end, for a pipe or a file: nothing pads or crops it.

    Args:
        change: the change.
        time: the text of its commit time.
    """
    cells = (
        printable(f"{change.file}:{change.offset}"),
        time,
        change.kind,
        printable(f"{change.database}.{change.table}"),
        printable(row_text(change)),
    )
    return "  ".join(cells).rstrip()
