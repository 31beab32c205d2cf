"""Events on standard output, as JSON or as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica_client._compiled import compiled
from replica_client.binlog.event import BinlogEvent
from replica_client.cli.event_lines import COLUMNS, json_line, plain_line
from replica_client.cli.event_text import EventTables, EventText
from replica_client.cli.output import Lines
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.files.binlog_file import BinlogFileReader

if TYPE_CHECKING:
    from replica_client.cli.chosen_events import ChosenEvents

_MOST_WAITING = 64 << 10
"""Bytes that wait to be written together."""


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
