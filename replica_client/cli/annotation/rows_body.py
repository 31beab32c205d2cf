"""Layout of rows events of all versions: head, bitmaps, and each column of each row image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replica_client.cli.annotation.annotator import Annotator, show_bytes
from replica_client.cli.annotation.column_sizes import column_size, is_json
from replica_client.cli.annotation.control import extra_post_header
from replica_client.cli.annotation.table_map_body import bits, type_name
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType


@dataclass(frozen=True, slots=True)
class RowText:
    """What a decoder made of the rows of an event, for people.

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
    """Everything up to the row images: both bitmaps and the column count."""
    is_update = ctx.type_code in _UPDATES
    a.section = "post-header"
    size = ctx.post_header_size(10 if version == 2 else 8)
    id_size = 4 if size == 6 else 6
    a.uint("table_id", id_size, "of a TABLE_MAP before")
    a.uint("flags", 2, "1: last of its statement", hex)
    extra_size = 0
    if version == 2:
        extra_size = a.uint("extra_info length", 2, "bytes, these two included") - 2
        extra_post_header(a, ctx, id_size + 4)
    else:
        extra_post_header(a, ctx, id_size + 2)
    a.section = "body"
    if extra_size > 0:
        _extra_info(a, a.offset + extra_size, is_update)
    count = a.lenenc("column_count")
    bitmap_size = (count + 7) // 8
    before = a.take("columns_before", bitmap_size, "bit per column, 1: in the image", bits)
    after = before
    if is_update and version:
        after = a.take("columns_after", bitmap_size, "bit per column, 1: in the image", bits)
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
    """A rows event; ``text`` gives the values, ``table_map`` the types."""
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
        json_columns = sum(is_json(code) for code in table_map.column_types)
        a.take("partial_bits", (json_columns + 7) // 8, "bit per JSON column, 1: a diff", bits)
    # Before 5.1.18 images had the null bits of the server's record, whose first bit is no column's.
    first = 1 if pre_ga else 0
    size = (len(columns) + first + 7) // 8
    nulls = a.take("null_bits", size, "bit per column in the image", bits)
    for index, at in enumerate(columns, first):
        if nulls[index >> 3] >> (index & 7) & 1:
            continue
        code, metadata = table_map.column_types[at], table_map.column_metadata[at]
        name = names[at] if at < len(names) else f"@{at + 1}"
        size = column_size(a.view, code, metadata)
        shown = texts[at] if at < len(texts) else None
        a.take(name, size, type_name(code), _shower(shown))


def _shower(shown: str | None) -> Callable[[bytes], str]:
    return show_bytes if shown is None else lambda _: shown
