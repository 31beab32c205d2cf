"""Row images of MariaDB's compressed rows events (``log_bin_compress``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.codec.compression import deflate_record, inflate_record
from replica_client.protocol.constants.event_types import EventType

_COMPRESSED: Final[dict[int, int]] = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
    EventType.UPDATE_ROWS_EVENT_V1: EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
    EventType.DELETE_ROWS_EVENT_V1: EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
    EventType.WRITE_ROWS_EVENT: EventType.WRITE_ROWS_COMPRESSED_EVENT,
    EventType.UPDATE_ROWS_EVENT: EventType.UPDATE_ROWS_COMPRESSED_EVENT,
    EventType.DELETE_ROWS_EVENT: EventType.DELETE_ROWS_COMPRESSED_EVENT,
}


def row_images(event: RowsEvent, options: DecodeOptions) -> bytes:
    """Return the row images of any rows event, decompressed if necessary.

    In a compressed event everything after the column bitmaps is one record
    (:func:`replica_client.protocol.codec.compression.inflate_record`).

    Raises:
        BinlogDecodeError: broken compression.
        LimitExceededError: larger than the option max_uncompressed_size.
    """
    if not event.compressed:
        return event.rows
    return inflate_record(event.rows, options.max_uncompressed_size)


def compress_rows(event: RowsEvent) -> RowsEvent:
    """Return the rows as an event of the compressed type; a compressed event itself.

    Raises:
        EncodeError: the type has no compressed form.
    """
    if event.compressed:
        return event
    type_code = _COMPRESSED.get(event.type_code)
    if type_code is None:
        raise EncodeError(f"rows events of type {event.type_code} have no compressed form")
    return replace(event, type_code=type_code, rows=deflate_record(event.rows))
