"""Events on standard output, as JSON or as lines for people."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from replica_client._compiled import compiled
from replica_client.cli.event_lines import (
    COLUMNS,
    json_line,
    plain_line,
    terminal_columns,
    terminal_line,
)
from replica_client.cli.event_text import EventText
from replica_client.cli.output import Lines, terminal_width
from replica_client.cli.reading import ALLOW_EMPTY_HINT
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.stream.transactions.event_feed import EventFeed

if TYPE_CHECKING:
    from replica_client.stream.files.binlog_file import BinlogFileReader

_MOST_WAITING = 64 << 10
"""Bytes that wait to be written together."""


class ChosenEvents:
    """The events that ``events`` writes, without table maps and rows of other tables.

    A rows event has no name of a table, but the number that the table map before it has.

    Args:
        tables: patterns of wanted tables; None takes all.
        exclude: patterns of unwanted ones.
        limit: how many at most; None: all.
        last: how many of the last ones, which are written at the end, the newest first; None: all.
        allow_empty: take a pattern that matches no table.

    Attributes:
        excludes: says whether an event is at the end of reading; None: there is no end.

    Raises:
        ConfigError: a pattern has no dot.
    """

    def __init__(
        self,
        tables: Sequence[str] | None,
        exclude: Sequence[str] | None,
        limit: int | None = None,
        last: int | None = None,
        *,
        allow_empty: bool = False,
    ) -> None:
        self._selection = Selection(tables, exclude)
        self._allow_empty = allow_empty
        self._left_out: set[int] = set()
        self._left = limit
        self.excludes: Callable[[BinlogEvent], bool] | None = None
        self._last: deque[BinlogEvent] | None = None if last is None else deque(maxlen=last)

    def write(self, event: BinlogEvent, output: EventOutput) -> bool:
        """Write an event if it is wanted; return whether more are."""
        if self.excludes is not None and self.excludes(event):
            return False
        if not self._takes(event):
            return True
        if self._last is not None:
            self._last.append(event)
            return True
        output.write(event)
        if self._left is not None:
            self._left -= 1
        return self._left != 0

    def finish(self, output: EventOutput) -> None:
        """Write the last events, if these are wanted, and check the patterns.

        Raises:
            ConfigError: one matched no table; the message names the nearest table.
        """
        while self._last:
            output.write(self._last.pop())
        output.flush()
        if not (self._allow_empty or self._left == 0):
            self._selection.check_matched(SchemaHistory(), hint=ALLOW_EMPTY_HINT)

    def _takes(self, event: BinlogEvent) -> bool:
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


class EventOutput:
    """Writes events.

    Args:
        json: whether as JSON.
    """

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._width = 0 if json or not sys.stdout.isatty() else terminal_width(sys.stdout)
        self._lines = Lines(terminal_columns(self._width) if self._width else COLUMNS)
        self._is_headed = json

    def write(self, event: BinlogEvent) -> None:
        """Write one event."""
        if self.on_terminal:
            line = terminal_line(event, self._width)
        else:
            line = json_line(event) if self.json else plain_line(event)
        self.encoded(f"{line}\n".encode("utf-8", "backslashreplace"))

    @property
    def on_terminal(self) -> bool:
        """Whether lines are made for the width of a terminal."""
        return bool(self._width)

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
            if not chosen.write(event, output):
                break
        chosen.finish(output)
        return
    if output.on_terminal or not compiled():
        for event in reader.events():
            output.write(event)
        return
    # The fast path is there when the first file is open.
    fast_paths: list[EventText] = []

    def fast_path_of(feed: EventFeed) -> EventText:
        fast_paths.append(EventText(feed, json=output.json))
        return fast_paths[0]

    try:
        for _ in reader.look_at_events(fast_path_of):
            if fast_paths[0].text.used >= _MOST_WAITING:
                output.encoded(fast_paths[0].text.take())
    finally:
        if fast_paths and fast_paths[0].text.used:
            output.encoded(fast_paths[0].text.take())
