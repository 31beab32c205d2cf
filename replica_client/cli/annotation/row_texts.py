"""The values of a rows event as text, by the same decoder that delivers changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replica_client.cli.annotation.rows_body import RowText
from replica_client.errors import BinlogDecodeError, SchemaError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.rows.absent import ABSENT
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_values import value_to_json
from replica_client.schema.shape import TableShape


def row_text_of(event: BinlogEvent, decoder: BinlogDecoder) -> RowText | None:
    """The values of a rows event; None for other events, and where they cannot be decoded."""
    if not isinstance(event.body, RowsEvent):
        return None
    try:
        shape = TableShape.from_table_map(decoder.table_map(event.body.table_id))
        images = RowImageDecoder(shape, decoder.options)
        texts = [
            [_texts(image) for image in pair if image is not None]
            for pair in images.iter_event(event)
        ]
    except (BinlogDecodeError, SchemaError):
        return None
    return RowText([column.name for column in shape.columns], texts)


def _texts(image: Sequence[Any]) -> list[str | None]:
    return [None if value is ABSENT else value_to_json(value) for value in image]
