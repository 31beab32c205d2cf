"""Raw event bytes in, decoded events with their place out: the part that files and streams share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.options import DecodeOptions
from replica_client.constants.event_types import EventType
from replica_client.position.position import Position
from replica_client.position.tracker import PositionTracker, TransactionBoundary

_PAYLOAD = int(EventType.TRANSACTION_PAYLOAD_EVENT)


class PlacedEvent(NamedTuple):
    """An event, and the transaction that ended with it or that it shows abandoned."""

    event: BinlogEvent
    boundary: TransactionBoundary | None


class EventFeed:
    """Decodes events in order and tracks the position.

    A transaction payload is followed by the events inside it.

    Args:
        options: how to decode.
        start: where the first event is; None when the source will tell.
        mode: a stream's events, or those of files.
    """

    def __init__(
        self,
        options: DecodeOptions,
        start: Position | None = None,
        mode: Literal["stream", "file"] = "stream",
    ) -> None:
        self.options = options
        self.decoder = BinlogDecoder(options)
        self.tracker = PositionTracker(start, mode=mode)
        self._abandoned: TransactionBoundary | None = None

    def change_source(self) -> None:
        """Another server goes on behind the last transaction that ended.

        A transaction that is open is abandoned: it comes again as a whole.
        """
        gtid_set = self.tracker.gtid_set
        self._abandoned = self.tracker.abandon()
        self.tracker = PositionTracker(Position("", 0, gtid_set))
        self.new_decoder()

    def new_decoder(self, file: str = "") -> None:
        """Forget format and table maps: another file or connection begins."""
        self.decoder = BinlogDecoder(self.options, file)

    def feed_stream(self, data: bytes) -> Iterator[PlacedEvent]:
        """Take an event of a stream, whose place the tracker finds.

        Raises:
            BinlogDecodeError: the bytes are not an event.
        """
        position = self.tracker.locate(self.decoder.peek_header(data))
        return self.feed(data, position, self.tracker.file)

    def feed(self, data: bytes, position: int, file: str) -> Iterator[PlacedEvent]:
        """Take an event whose place is known.

        Raises:
            BinlogDecodeError: the bytes are not an event.
        """
        event = self.decoder.decode(data, position, file)
        boundary = self.tracker.feed(event)
        if self._abandoned is not None and boundary is None:
            boundary, self._abandoned = self._abandoned, None
        yield PlacedEvent(event, boundary)
        if event.header.type_code == _PAYLOAD:
            for inner in self.decoder.inner_events(event):
                yield PlacedEvent(inner, self.tracker.feed(inner))
