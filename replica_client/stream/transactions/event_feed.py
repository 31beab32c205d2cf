"""Decoded events with positions from raw event bytes: shared by files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import CONTAINERS, BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.layout import EventClass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.stream.position.groups import class_of
from replica_client.stream.position.tracker import PositionTracker, TransactionBoundary

_ENDS_FILE = (EventType.STOP_EVENT, EventType.ROTATE_EVENT)


class LocatedEvent(NamedTuple):
    """An event, and the transaction that it ends or shows to be abandoned."""

    event: BinlogEvent
    boundary: TransactionBoundary | None


class EventFeed:
    """Decoder of events in order, which tracks the position.

    A transaction payload is followed by the events inside it, the last fragment of a rows event by the rows
    event.

    Args:
        options: how to decode.
        start: position of the first event; None when the source will say.
        mode: whether the events come from a stream or from files.
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
        self._in_file = mode == "file"
        self._abandoned: TransactionBoundary | None = None
        # The file before, if it had no end; and the file that is being read, until its end.
        self._endless = self._open_file = ""

    def change_source(self) -> None:
        """Prepare for another server that continues after the last finished transaction.

        An open transaction is abandoned: it is delivered again as a whole.
        """
        gtid_set = self.tracker.gtid_set
        self._abandoned = self.tracker.abandon()
        self.tracker = PositionTracker(Position("", 0, gtid_set))
        self.new_decoder()

    def new_decoder(self, file: str = "") -> None:
        """Forget format and table maps, as another file or connection begins."""
        self.decoder = BinlogDecoder(self.options, file)
        self._endless, self._open_file = self._open_file, ""

    def passed(self, file: str) -> None:
        """Note that events of a file were read but not fed; none of them ends the file."""
        self._open_file = file

    def feed_stream(self, data: bytes) -> Iterator[LocatedEvent]:
        """Take an event of a stream and find its position with the tracker.

        Raises:
            BinlogDecodeError: the bytes are not an event.
        """
        position = self.tracker.locate(self.decoder.peek_header(data))
        return self.feed(data, position, self.tracker.file)

    def _check_position(self, event: BinlogEvent) -> None:
        """Check that an event of a file is where it was written, and ends no file too early."""
        self.decoder.check_end(event)
        header = event.header
        if self.tracker.in_transaction:
            wrong = header.type_code in _ENDS_FILE
            reason = "the file ends in the midst of a transaction"
        else:
            # MariaDB since 11.4 leaves out the end positions of events between the first and the
            # last one.
            wrong = not (header.next_position or header.is_artificial)
            wrong = wrong and class_of(event) is not EventClass.OUTSIDE
            reason = "a transaction begins in its midst"
        if wrong:
            raise BinlogDecodeError(
                f"{reason}: events before this one are missing; get the file from the source again",
                file=event.file or None,
                position=event.position,
                event_type=header.type_code,
                event_name=header.type_name,
            )

    def _check_file(self, event: BinlogEvent) -> None:
        """Check that the previous file was ended by the source, unless the source itself stopped."""
        endless, self._endless = self._endless, ""
        if endless and self.decoder.tells_ends and not event.body.create_timestamp:
            raise BinlogDecodeError(
                f"{endless} has no end, and {event.file or 'the next file'} is not the first one after a restart: "
                f"events of {endless} are missing; get it from the source again",
                file=event.file or None,
                position=event.position,
                event_type=event.header.type_code,
                event_name=event.header.type_name,
            )

    def feed(self, data: bytes, position: int, file: str) -> Iterator[LocatedEvent]:
        """Take an event whose position is known.

        Raises:
            BinlogDecodeError: the bytes are not an event.
        """
        event = self.decoder.decode(data, position, file)
        del data  # avoids two copies of a very large event
        if self._in_file and self.decoder.tells_ends:
            self._check_position(event)
            code = event.header.type_code
            self._open_file = "" if code in _ENDS_FILE else file
            if code == EventType.FORMAT_DESCRIPTION_EVENT:
                self._check_file(event)
        boundary = self.tracker.feed(event)
        if self._abandoned is not None and boundary is None:
            boundary, self._abandoned = self._abandoned, None
        yield LocatedEvent(event, boundary)
        if event.header.type_code in CONTAINERS:
            for inner in self.decoder.inner_events(event):
                yield LocatedEvent(inner, self.tracker.feed(inner))
