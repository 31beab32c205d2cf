"""Dead letters: changes that a sink refused.

One line for each change that can never be written::

    {"at": "2026-11-21T20:15:00Z", "error": "…", "file": "binlog.000024", "position": 1472,
     "event_index": 2, "row_index": 0, "gtid": "…", "row_number": 7, "timestamp": 1795291200,
     "table": "shop.orders", "kind": "insert", "row": {…}, "columns": […],
     "event": "base64 of the rows event"}

``row`` is the change as ``replica-client changes --json`` prints it, null where the row's bytes are
no row; ``row_index`` is null if all rows of the event were left out because one could not be
decoded. ``row_number`` counts the transaction's delivered rows from 0. With the GTID it identifies
the change on every server; file, position and indexes are valid on one server only.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from replica_client.errors import BinlogDecodeError, PoisonChangeError, SinkError
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import change_to_json
from replica_client.service.table_checker import RowCounter, without
from replica_client.storage.durable import DATA_MODE, sync_directory
from replica_client.stream.transactions.transaction import Transaction


@dataclass(frozen=True, slots=True)
class SavedLetter:
    """The identity of a change that was written to the file.

    Attributes:
        file: binlog file of its event.
        position: of the event in the file.
        row_index: of the row in the event; None: all of its rows.
        timestamp: of the event.
        gtid: of its transaction; empty without.
        row_number: of the (first) row in the transaction; None in lines of older releases.
        table: ``database.table``.
    """

    file: str
    position: int
    row_index: int | None
    timestamp: int
    gtid: str
    row_number: int | None
    table: str


def letter_line(
    rows: RowsOfEvent, row_index: int | None, row_number: int, error: str, layout: BinlogFormat
) -> str:
    """Return the line for one row of an event, or for all its rows."""
    event = rows.event
    row = None
    if row_index is not None:
        change = next((change for change in rows if change.row_index == row_index), None)
        row = None if change is None else json.loads(change_to_json(change))
    entry = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "error": error,
        "file": event.file,
        "position": event.position,
        "event_index": rows.event_index,
        "row_index": row_index,
        "gtid": rows.gtid,
        "row_number": row_number,
        "timestamp": event.header.timestamp,
        "table": f"{rows.shape.database}.{rows.shape.table}",
        "columns": [column.name for column in rows.shape.columns],
        "kind": event.body.kind,
        "row": row,
        "event": base64.b64encode(encode_event(event, layout)).decode(),
    }
    return json.dumps(entry, ensure_ascii=True) + "\n"


def append_lines(path: Path, text: str) -> None:
    """Append lines to the file: when this returns they are on disk; on an error none is.

    Raises:
        SinkError: they could not be written; retriable.
    """
    try:
        fresh = not path.exists()
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, DATA_MODE), "ab"
        ) as stream:
            size = stream.tell()
            try:
                stream.write(text.encode())
                stream.flush()
                os.fsync(stream.fileno())
            except OSError:
                stream.truncate(size)
                raise
        if fresh:
            sync_directory(path.parent)
    except OSError as error:
        raise _refused(path, error) from error


def saved_letters(path: Path) -> Iterator[SavedLetter]:
    """Yield the letters of the file; cut off a line that a crash left incomplete.

    The change of an incomplete line is delivered again.

    Raises:
        SinkError: the file cannot be read; retriable.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(path, error) from error
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    for line in data[:whole].splitlines():
        entry = json.loads(line)
        yield SavedLetter(
            entry["file"],
            entry["position"],
            entry["row_index"],
            entry["timestamp"],
            entry["gtid"],
            entry.get("row_number"),
            entry["table"],
        )


def _refused(path: Path, error: OSError) -> SinkError:
    return SinkError(f"dead letters {path}: {error.strerror}", retriable=True)


_EventKey = tuple[str, int]
_GtidKey = tuple[str, str, int]  # GTID, table, number of the row in the transaction


@dataclass(slots=True)
class _Accused:
    """Poisonous rows of an event, by its place on this source; None stands for all its rows."""

    error: str = ""
    rows: dict[int | None, bool] = field(default_factory=dict)  # whether it is written down
    timestamp: int | None = None
    gtid: str = ""

    def is_of(self, rows: RowsOfEvent) -> bool:
        """Return whether an event at this position is the one that was meant."""
        same_time = self.timestamp in (None, rows.event.header.timestamp)
        return same_time and self.gtid in ("", rows.gtid)


class DeadLetters:
    """Poisonous changes, which are saved and then left out.

    A saved change is identified by its GTID, its table and its number among the rows of its
    transaction, which are the same on every server; without GTIDs by file, position and time.

    Args:
        path: the file; created with the first letter.
        count: called with the number of letters just saved.
    """

    def __init__(self, path: Path, count: Callable[[int], None]) -> None:
        self._path = path
        self._count = count
        self._accused: dict[_EventKey, _Accused] = {}
        # Events with letters that are not saved yet, or that are not identified by GTID.
        self._open: set[_EventKey] = set()
        self._whole: set[_GtidKey] = set()
        self._rows: set[_GtidKey] = set()
        self._gtids: set[str] = set()
        self._counter = RowCounter()
        self._next_number = 0
        for letter in saved_letters(path):
            if letter.gtid and letter.row_number is not None:
                self._remember(letter.gtid, letter.table, letter.row_number, letter.row_index)
            else:
                key = (letter.file, letter.position)
                accused = self._accused.setdefault(key, _Accused(timestamp=letter.timestamp))
                accused.rows[letter.row_index] = True
                self._open.add(key)

    @property
    def path(self) -> Path:
        """The file of the dead letters."""
        return self._path

    @property
    def leaves_nothing_out(self) -> bool:
        """Whether no known change has to be left out."""
        return not self._open and not self._gtids

    def accuse(self, error: PoisonChangeError | BinlogDecodeError) -> bool:
        """Record a change that could not be written, to leave it out when it comes again.

        Returns:
            Whether that can help: the change's place is known, and it was not left out already.
        """
        row = error.row_index if isinstance(error, PoisonChangeError) else None
        if not error.file or error.position is None:
            return False
        key = (error.file, error.position)
        accused = self._accused.setdefault(key, _Accused())
        if row in accused.rows or None in accused.rows:
            return False
        accused.rows[row] = False
        accused.error = str(error)
        self._open.add(key)
        return True

    async def leave_out(self, transaction: Transaction, layout: BinlogFormat) -> Transaction:
        """Return the transaction without its dead letters, after they are saved on disk.

        Raises:
            SinkError: they could not be saved; retriable.
        """
        if not transaction.part:
            self._next_number = 0
        if not self._open and transaction.gtid not in self._gtids:
            return transaction
        out: list[RowsOfEvent] = []
        lines: list[str] = []
        found: list[tuple[RowsOfEvent, int, _Accused]] = []
        for rows in transaction.rows:
            first, count = self._next_number, self._rows_of(rows)
            self._next_number += count
            left = self._left_out(rows, first, count)
            accused = self._accused.get((rows.event.file, rows.event.position))
            if accused is not None and accused.is_of(rows):
                lines += [
                    letter_line(rows, row, _number(rows, row, first), accused.error, layout)
                    for row, is_written in accused.rows.items()
                    if not is_written and row not in left
                ]
                left |= accused.rows.keys()
                found.append((rows, first, accused))
            if not left:
                out.append(rows)
            elif None not in left:
                out += without(rows, [row for row in left if row is not None])
        if lines:
            await asyncio.to_thread(append_lines, self._path, "".join(lines))
            self._count(len(lines))
        for rows, first, accused in found:
            self._is_written(rows, first, accused)
        return transaction.__replace__(rows=tuple(out))

    def _rows_of(self, rows: RowsOfEvent) -> int:
        try:
            return self._counter.count(rows)
        except BinlogDecodeError:
            return 1  # row count unknown on every server: the event cannot be decoded

    def _left_out(self, rows: RowsOfEvent, first: int, count: int) -> set[int | None]:
        """Return the rows of an event that were saved, identified by GTID."""
        if rows.gtid not in self._gtids:
            return set()
        table = f"{rows.shape.database}.{rows.shape.table}"
        if (rows.gtid, table, first) in self._whole:
            return {None}
        return {
            rows.first_row + at
            for at in range(count)
            if (rows.gtid, table, first + at) in self._rows
        }

    def _is_written(self, rows: RowsOfEvent, first: int, accused: _Accused) -> None:
        """Record that an event's letters are saved, and identify them by GTID if there is one."""
        accused.rows = dict.fromkeys(accused.rows, True)
        accused.timestamp = rows.event.header.timestamp
        if rows.gtid:
            table = f"{rows.shape.database}.{rows.shape.table}"
            for row in accused.rows:
                self._remember(rows.gtid, table, _number(rows, row, first), row)
            accused.gtid = rows.gtid
            self._open.discard((rows.event.file, rows.event.position))

    def _remember(self, gtid: str, table: str, number: int, row_index: int | None) -> None:
        self._gtids.add(gtid)
        (self._whole if row_index is None else self._rows).add((gtid, table, number))


def _number(rows: RowsOfEvent, row_index: int | None, first: int) -> int:
    """Return the number in the transaction of a row, or of the event's first row."""
    return first if row_index is None else first + row_index - rows.first_row
