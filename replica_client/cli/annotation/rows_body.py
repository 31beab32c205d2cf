"""Layout of rows events of all versions: head, bitmaps, and each column of each row image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replica_client.cli.annotation.annotator import Annotator, show_bits, show_bytes, show_name
from replica_client.errors import (
    BinlogDecodeError,
    ColumnDecodeError,
    SchemaError,
    ShortBufferError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent, EventContext
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import (
    LABEL_TYPES,
    PREFIXED_TYPES,
    TYPE_FACTS,
    ColumnType,
)
from replica_client.protocol.constants.event_types import EventType
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_values import value_to_json
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import TableShape

_T = ColumnType
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass(frozen=True, slots=True)
class RowText:
    """The decoded rows of an event, for people.

    Attributes:
        names: of the columns.
        images: per row its images in order; per image the text of each column, None where absent.
    """

    names: Sequence[str]
    images: Sequence[Sequence[Sequence[str | None]]]


_UPDATES = frozenset(
    (
        EventType.UPDATE_ROWS_EVENT_V1,
        EventType.UPDATE_ROWS_EVENT,
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
        EventType.PRE_GA_UPDATE_ROWS_EVENT,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT,
    )
)


def rows_head(a: Annotator, ctx: EventContext, version: int) -> tuple[bytes, bytes, int]:
    """Annotate all up to the row images; return both bitmaps and the column count."""
    is_update = ctx.type_code in _UPDATES
    a.section = "post-header"
    size = ctx.post_header_size(10 if version == 2 else 8)
    id_size = 4 if size == 6 else 6
    a.uint("table_id", id_size, "of a TABLE_MAP before")
    a.uint("flags", 2, "1: last of its statement", hex)
    extra_size = 0
    if version == 2:
        extra_size = a.uint("extra_info length", 2, "bytes, these two included") - 2
        a.take("extra_post_header", max(0, size - id_size - 4))
    else:
        a.take("extra_post_header", max(0, size - id_size - 2))
    a.section = "body"
    if extra_size > 0:
        _extra_info(a, a.offset + extra_size, is_update)
    count = a.lenenc("column_count")
    bitmap_size = (count + 7) // 8
    before = a.take("columns_before", bitmap_size, "bit per column, 1: in the image", show_bits)
    after = before
    if is_update and version:
        after = a.take("columns_after", bitmap_size, "bit per column, 1: in the image", show_bits)
    return before, after, count


def _extra_info(a: Annotator, end: int, is_update: bool) -> None:
    while a.offset < end:
        tag = a.uint("extra_info tag", 1, "0: NDB, 1: partition")
        if tag == 1:
            a.uint("partition_id", 2)
            if is_update:
                a.uint("source_partition_id", 2)
        elif tag == 0:
            size = a.uint("ndb length", 1, "bytes, this and the next included")
            a.uint("ndb_format", 1)
            a.take("ndb_data", size - 2)
        else:
            a.take("extra_info rest", end - a.offset, "not known")


def rows(
    a: Annotator,
    ctx: EventContext,
    event: RowsEvent,
    table_map: TableMapEvent | None,
    text: RowText | None,
) -> None:
    """Annotate a rows event; ``text`` has the values, ``table_map`` the types."""
    before, after, count = rows_head(a, ctx, event.version)
    a.section = "rows"
    if event.compressed:
        a.rest("rows", "MariaDB compression header and zlib data")
        return
    if table_map is None or table_map.column_count != count:
        a.rest("rows", "row images; no TABLE_MAP says which columns")
        return
    partial = ctx.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT
    labels = ("before", "after") if event.kind == "update" else ("image",)
    number = 0
    while a.remaining:
        for which, label in enumerate(labels):
            a.section = f"row {number} {label}"
            texts = text.images[number][which] if text else ()
            names = text.names if text else ()
            used = after if which else before
            _image(a, table_map, used, partial and which == 1, not event.version, names, texts)
        number += 1


def _image(
    a: Annotator,
    table_map: TableMapEvent,
    used: bytes,
    partial: bool,
    pre_ga: bool,
    names: Sequence[str],
    texts: Sequence[str | None],
) -> None:
    columns = [at for at in range(table_map.column_count) if used[at >> 3] >> (at & 7) & 1]
    if partial and a.lenenc("value_options", "bit 0: partial JSON") & 1:
        json_columns = sum(code == _T.MYSQL_TYPE_JSON for code in table_map.column_types)
        a.take("partial_bits", (json_columns + 7) // 8, "bit per JSON column, 1: a diff", show_bits)
    # Before 5.1.18 images had the null bits of the server's record, whose first bit is no column's.
    first = 1 if pre_ga else 0
    size = (len(columns) + first + 7) // 8
    nulls = a.take("null_bits", size, "bit per column in the image", show_bits)
    for index, at in enumerate(columns, first):
        if nulls[index >> 3] >> (index & 7) & 1:
            continue
        code, metadata = table_map.column_types[at], table_map.column_metadata[at]
        name = names[at] if at < len(names) else f"@{at + 1}"
        size = column_size(a.left(), code, metadata)
        shown = texts[at] if at < len(texts) else None
        a.take(name, size, show_type(code), _shower(shown))


def _shower(shown: str | None) -> Callable[[bytes], str]:
    return show_bytes if shown is None else lambda _: shown


def row_text_of(event: BinlogEvent, decoder: BinlogDecoder) -> RowText | None:
    """Return the values of a rows event; None for other events and undecodable ones."""
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


def show_type(code: int) -> str:
    """Return a column type's code and upstream name."""
    name = show_name(code, ColumnType).replace("MYSQL_TYPE_", "")
    return name if " " in name else f"{name} unknown"


def _decimal(precision: int, scale: int) -> int:
    whole, part = precision - scale, scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + part // 9 * 4 + _DIGIT_BYTES[part % 9]


def column_size(data: bytes, code: int, metadata: int) -> int:
    """Return the number of bytes of a value, its own length included.

    Args:
        data: begins with the value.
        code: the column's type as the table map has it.
        metadata: the column's, as ``TableMapEvent.column_metadata``.

    Raises:
        ShortBufferError: the bytes end in the value's length.
        ColumnDecodeError: a type that row images do not have.
    """
    facts = TYPE_FACTS.get(code)
    if facts is None:
        raise ColumnDecodeError(f"a row image cannot have a column of type {code}")
    if facts.size:
        return facts.size + ((metadata + 1) // 2 if facts.family == "fraction" else 0)
    if code == _T.MYSQL_TYPE_NULL:
        return 0
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        return _decimal(metadata & 0xFF, metadata >> 8)
    if code == _T.MYSQL_TYPE_BIT:
        return (metadata >> 8) + (1 if metadata & 0xFF else 0)
    if facts.family == "label":
        return metadata >> 8
    if facts.family == "string":
        real, length = metadata & 0xFF, metadata >> 8
        if real in LABEL_TYPES:
            return length
        if not metadata:
            # Early 5.1 wrote no metadata; its strings were shorter than 256 bytes.
            return _prefixed(data, 1)
        # Two bits of a length above 255 are kept, inverted, in the real type's byte.
        if real & 0x30 != 0x30:
            length |= ((real & 0x30) ^ 0x30) << 4
        return _prefixed(data, 1 if length < 256 else 2)
    if facts.family == "varchar":
        return _prefixed(data, 1 if metadata < 256 else 2)
    if code in PREFIXED_TYPES:
        return _prefixed(data, metadata)
    raise ColumnDecodeError(f"a row image cannot have a column of type {code}")


def _prefixed(data: bytes, size: int) -> int:
    if len(data) < size:
        raise ShortBufferError(0, size, len(data), "length of a value")
    return size + int.from_bytes(data[:size], "little")
