"""Events on standard output, as JSON or as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client._compiled import compiled
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events.rows import RowsEvent
from replica_client.binlog.events.table_map import TableMapEvent
from replica_client.cli.event_lines import COLUMNS, json_line, plain_line
from replica_client.cli.event_text import EventTables, EventText
from replica_client.cli.loss_report import ALLOW_EMPTY_HINT
from replica_client.cli.output import Lines
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.files.binlog_file import BinlogFileReader
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory

_MOST_WAITING = 64 << 10
"""Bytes that wait to be written together."""


class ChosenEvents:
    """Leaves out table maps and rows of tables that are not asked for.

    A rows event has no name of a table, but the number that the table map before it has.

    Args:
        tables: patterns of wanted tables; None takes all.
        exclude: patterns of unwanted ones.
        allow_empty: take a pattern that matches no table.

    Raises:
        ConfigError: a pattern has no dot.
    """

    def __init__(
        self,
        tables: Sequence[str] | None,
        exclude: Sequence[str] | None,
        *,
        allow_empty: bool = False,
    ) -> None:
        self._selection = Selection(tables, exclude)
        self._allow_empty = allow_empty
        self._left_out: set[int] = set()

    def takes(self, event: BinlogEvent) -> bool:
        """Return whether an event is written."""
        body = event.body
        if isinstance(body, TableMapEvent):
            wanted = self._selection.wants(body.schema, body.table)
            if wanted:
                self._left_out.discard(body.table_id)
            else:
                self._left_out.add(body.table_id)
            return wanted
        return not (isinstance(body, RowsEvent) and body.table_id in self._left_out)

    def check(self) -> None:
        """Refuse a pattern that matched no table; asked at the end.

        Raises:
            ConfigError: naming it, and the nearest table.
        """
        if not self._allow_empty:
            self._selection.check_matched(SchemaHistory(), hint=ALLOW_EMPTY_HINT)


class EventOutput:
    """Writes events.

    Args:
        json: whether as JSON.
    """

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._lines = Lines(COLUMNS)
        self._is_headed = json

    def write(self, event: BinlogEvent) -> None:
        """Write one event."""
        line = json_line(event) if self.json else plain_line(event)
        self.encoded(f"{line}\n".encode("utf-8", "backslashreplace"))

    def encoded(self, lines: bytes | bytearray) -> None:
        """Write lines that are encoded."""
        if not self._is_headed:
            self._is_headed = True
            self._lines.heading()
        self._lines.encoded(lines)

    def flush(self) -> None:
        """Hand everything on."""
        self._lines.flush()


def write_file_events(
    reader: BinlogFileReader, output: EventOutput, chosen: ChosenEvents | None = None
) -> None:
    """Write the events of files.

    Args:
        reader: of the files.
        output: where they go.
        chosen: which; None: all.

    Raises:
        BinlogDecodeError: the first fault; the events before it were written.
        ConfigError: a pattern of tables matched none.
    """
    if chosen is not None:
        for event in reader.events():
            if chosen.takes(event):
                output.write(event)
        output.flush()
        chosen.check()
        return
    if not compiled():
        for event in reader.events():
            output.write(event)
        return
    # The fast path is there when the first file is open.
    fast_paths: list[EventText] = []

    def fast_path_of(feed: EventFeed) -> EventText:
        fast_paths.append(EventText(feed, EventTables(), json=output.json))
        return fast_paths[0]

    try:
        for _ in reader.look_at_events(fast_path_of):
            if fast_paths[0].text.used >= _MOST_WAITING:
                output.encoded(fast_paths[0].text.take())
    finally:
        if fast_paths and fast_paths[0].text.used:
            output.encoded(fast_paths[0].text.take())
