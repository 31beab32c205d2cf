"""Changes that can never be written, kept with their bytes in a file of JSON lines.

One line for each, once, on disk before the sink commits without it::

    {"at": "2026-11-21T20:15:00Z", "error": "…", "file": "binlog.000024", "position": 1472,
     "event_index": 2, "row_index": 0, "gtid": "…", "timestamp": 1795291200, "table": "shop.orders",
     "kind": "insert", "row": {…}, "columns": […], "event": "base64 of the rows event"}

``row`` is the change as ``replica-client changes --json`` prints it, null where the row's bytes are no
row; ``row_index`` is null when all rows of the event were left out, since one could not be decoded.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replica_client.binlog.context import BinlogFormat
from replica_client.binlog.encoder import encode_event
from replica_client.daemon.row_images import without
from replica_client.errors import BinlogDecodeError, PoisonChangeError, SinkError
from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import change_to_json

_EventKey = tuple[str, int]


@dataclass(slots=True)
class _Letter:
    """What is left out of an event: row indexes, None for the whole event."""

    error: str
    rows: dict[int | None, bool]
    timestamp: int | None = None


class DeadLetters:
    """Leaves changes out that were found poisonous, and writes them down first.

    Args:
        path: the file; it is made when the first one comes.
        count: is told how many were written down.
    """

    def __init__(self, path: Path, count: Callable[[int], None]) -> None:
        self._path = path
        self._count = count
        self._letters: dict[_EventKey, _Letter] = {}
        self._load()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def accuse(self, error: PoisonChangeError | BinlogDecodeError) -> bool:
        """A change could not be written: leave it out when it comes again.

        Returns:
            whether that can help: the change is known by its place, and was not left out already.
        """
        row = error.row_index if isinstance(error, PoisonChangeError) else None
        if not error.file or error.position is None:
            return False
        letter = self._letters.setdefault((error.file, error.position), _Letter(str(error), {}))
        if row in letter.rows or None in letter.rows:
            return False
        letter.rows[row] = False
        letter.error = str(error)
        return True

    async def leave_out(self, transaction: Transaction, layout: BinlogFormat) -> Transaction:
        """The transaction without its dead letters, which are on disk when this returns.

        Raises:
            SinkError: they could not be written down; retriable.
        """
        if not self._letters:
            return transaction
        out: list[RowsOfEvent] = []
        lines: list[str] = []
        found: list[_Letter] = []
        for rows in transaction.rows:
            letter = self._letters.get((rows.event.file, rows.event.position))
            if letter is None or letter.timestamp not in (None, rows.event.header.timestamp):
                out.append(rows)
                continue
            lines += [
                _line(rows, row, letter.error, layout)
                for row, written in letter.rows.items()
                if not written
            ]
            found.append(letter)
            if None not in letter.rows:
                out += without(rows, [row for row in letter.rows if row is not None])
        if lines:
            await asyncio.to_thread(self._append, "".join(lines))
            for letter in found:
                letter.rows = dict.fromkeys(letter.rows, True)
            self._count(len(lines))
        return replace(transaction, rows=tuple(out)) if found else transaction

    def _append(self, text: str) -> None:
        try:
            fresh = not self._path.exists()
            with self._path.open("ab") as stream:
                size = stream.tell()
                try:
                    stream.write(text.encode())
                    stream.flush()
                    os.fsync(stream.fileno())
                except OSError:
                    stream.truncate(size)
                    raise
            if fresh:
                directory = os.open(self._path.parent, os.O_RDONLY)
                try:
                    os.fsync(directory)
                finally:
                    os.close(directory)
        except OSError as error:
            raise SinkError(
                f"dead letters {self._path}: {error.strerror}", retriable=True
            ) from error

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise SinkError(
                f"dead letters {self._path}: {error.strerror}", retriable=True
            ) from error
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            # A crash cut the last line; its change was not committed, and comes again.
            os.truncate(self._path, whole)
        for line in data[:whole].splitlines():
            entry: dict[str, Any] = json.loads(line)
            key = (entry["file"], entry["position"])
            letter = self._letters.setdefault(key, _Letter(entry["error"], {}, entry["timestamp"]))
            letter.rows[entry["row_index"]] = True


def _line(rows: RowsOfEvent, row_index: int | None, error: str, layout: BinlogFormat) -> str:
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
        "timestamp": event.header.timestamp,
        "table": f"{rows.shape.database}.{rows.shape.table}",
        "columns": [column.name for column in rows.shape.columns],
        "kind": event.body.kind,
        "row": row,
        "event": base64.b64encode(encode_event(event, layout)).decode(),
    }
    return json.dumps(entry, ensure_ascii=True) + "\n"
