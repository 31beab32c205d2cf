"""The file of the dead letters: JSON lines.

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

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from replica_client.binlog.context import BinlogFormat
from replica_client.binlog.encoder import encode_event
from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import SinkError
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import change_to_json
from replica_client.storage.durable import DATA_MODE, sync_directory


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
