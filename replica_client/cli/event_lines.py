"""Every event on a line of standard output, as JSON or for people."""

from __future__ import annotations

import json

from replica_client.cli.event_fields import event_fields, summary
from replica_client.cli.output import Column, clock, cropped
from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.context import BinlogFormat, DecodeOptions, EventContext
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.binlog.events import EVENT_CLASSES
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.constants.event_types import event_type_name
from replica_client.rows.image import located

SUMMARY_SIZE = 120
COLUMNS = (
    Column("file", 16),
    Column("position", 10, right=True),
    Column("size", 8, right=True),
    Column("type", 26),
    Column("time (UTC)", 19),
    Column("server_id", 10, right=True),
    Column("next", 10, right=True),
    Column("fields"),
)


def json_line(event: BinlogEvent) -> str:
    """Return an event as a JSON object, without a line end."""
    header = event.header
    record = {
        "file": event.file,
        "position": event.position,
        "size": header.event_size,
        "type": event_type_name(header.type_code),
        "type_code": header.type_code,
        "timestamp": header.timestamp,
        "server_id": header.server_id,
        "next_position": header.next_position,
        "flags": header.flags,
        "checksum": None if event.checksum is None else f"{event.checksum:08x}",
    }
    if event.inner_index is not None:
        record["inner_index"] = event.inner_index
    try:
        record["fields"] = event_fields(event)
    except BinlogDecodeError as error:
        raise located(error, event) from None
    return json.dumps(record, ensure_ascii=False)


def plain_line(event: BinlogEvent) -> str:
    """Return an event for people, without a line end."""
    header = event.header
    inner = "" if event.inner_index is None else f"/{event.inner_index}"
    cells = (
        event.file,
        f"{event.position}{inner}",
        header.event_size,
        event_type_name(header.type_code),
        clock(header.timestamp),
        header.server_id,
        header.next_position,
        plain_fields(event),
    )
    texts = [column.pad(printable(str(cell))) for column, cell in zip(COLUMNS, cells, strict=True)]
    return "  ".join(texts).rstrip()


NARROW_COLUMNS = (Column("position", 10, right=True), Column("type", 26), Column("fields"))
_NARROW = 140
"""Columns of a terminal below which each line has only the most important cells."""


def terminal_columns(width: int) -> tuple[Column, ...]:
    """Return the columns that a terminal has room for."""
    return NARROW_COLUMNS if width < _NARROW else COLUMNS


def terminal_line(event: BinlogEvent, width: int) -> str:
    """Return an event for a terminal of so many columns, without a line end."""
    if width >= _NARROW:
        return cropped(plain_line(event), width)
    inner = "" if event.inner_index is None else f"/{event.inner_index}"
    kind = event_type_name(event.header.type_code)
    cells = (f"{event.position}{inner}", kind, plain_fields(event))
    texts = [column.pad(cell) for column, cell in zip(NARROW_COLUMNS, cells, strict=True)]
    return cropped(printable("  ".join(texts).rstrip()), width)


def plain_fields(event: BinlogEvent) -> str:
    """Return an event's own fields for people, short."""
    text = " ".join(summary(event).split())
    return text if len(text) <= SUMMARY_SIZE else text[: SUMMARY_SIZE - 1] + "…"


class FieldTexts:
    """The fields of event bodies as text.

    Args:
        json: as a JSON object, else for people.
    """

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def decoded(self, body: bytes, code: int, layout: BinlogFormat) -> BinlogEvent:
        """Return an event with a body that decodes without the events before it."""
        context = EventContext(layout, code, 0, DecodeOptions())
        decoded = EVENT_CLASSES[code].decode(ByteReader(body), context)
        return BinlogEvent(EventHeader(0, code, 0, 0, 0, 0), decoded)

    def text_of(self, event: BinlogEvent) -> str:
        """Return the fields of an event."""
        if self._json:
            return json.dumps(event_fields(event), ensure_ascii=False)
        return printable(plain_fields(event))

    def text(self, body: bytes, code: int, layout: BinlogFormat) -> str:
        """Return the fields of a body that decodes without the events before it."""
        return self.text_of(self.decoded(body, code, layout))
