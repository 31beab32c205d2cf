"""Skipping of events that a new connection sends again."""

from __future__ import annotations

from replica_client.binlog.header import EventHeader
from replica_client.constants.event_types import EventType
from replica_client.errors import SourceResetError
from replica_client.position.position import Position
from replica_client.position.tracker import PositionTracker
from replica_client.readers.event_feed import EventFeed

_HEARTBEATS = (EventType.HEARTBEAT_LOG_EVENT, EventType.HEARTBEAT_LOG_EVENT_V2)


class Replay:
    """Filter that skips events which a new connection sends again.

    Events before the position that was reached are decoded, for their table maps, and dropped.

    Args:
        start: where the new connection starts.
    """

    def __init__(self, start: Position) -> None:
        self._tracker = PositionTracker(Position(start.file, start.offset))

    @property
    def file(self) -> str:
        """The file of the next event."""
        return self._tracker.file

    def passes_over(self, data: bytes, feed: EventFeed) -> bool:
        """Return whether an event was seen before; False ends the replay.

        Raises:
            BinlogDecodeError: the bytes are not an event.
            SourceResetError: the source skipped the rest of the transaction that was being read.
        """
        header = feed.decoder.peek_header(data)
        position = self._tracker.locate(header)
        if not is_artificial_here(header):
            reached = Position(feed.tracker.file, feed.tracker.offset)
            if Position(self._tracker.file, position) >= reached:
                self._hand_over(position, feed)
                return False
        self._tracker.feed(feed.decoder.decode(data, position, self._tracker.file))
        return True

    def _hand_over(self, position: int, feed: EventFeed) -> None:
        """Move the feed to the dump's file, which may be a later one: a GTID set names no file."""
        if self._tracker.file == feed.tracker.file:
            return
        if feed.tracker.in_transaction:
            raise SourceResetError(
                f"the source went on at {self._tracker.file}:{position} although the transaction in "
                f"{feed.tracker.file} before {feed.tracker.offset} has not ended: its binlog was reset"
            )
        feed.tracker.enter_file(self._tracker.file, position)


def is_artificial_here(header: EventHeader) -> bool:
    """Return whether the source made up an event for the stream: the event is in no file."""
    if header.is_artificial or header.type_code in _HEARTBEATS:
        return True
    if header.type_code == EventType.ROTATE_EVENT:
        return header.timestamp == 0
    return header.type_code == EventType.FORMAT_DESCRIPTION_EVENT and header.next_position == 0
