"""A whole event as annotated bytes, which cover each byte once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replica_client.cli.annotation.annotator import (
    AnnotatedBytes,
    Annotator,
    DeclaredFields,
    moment,
    require,
    show,
    show_bits,
    show_name,
)
from replica_client.cli.annotation.rows_body import RowText, rows, show_type
from replica_client.errors import BinlogDecodeError, MissingTableMapError, ShortBufferError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import event_checksum
from replica_client.protocol.binlog.event import (
    HEADER_SIZE_V1,
    BinlogEvent,
    EventBody,
    EventContext,
)
from replica_client.protocol.binlog.events import EVENT_CLASSES
from replica_client.protocol.binlog.events.control import HeartbeatV2Event, UnknownEvent
from replica_client.protocol.binlog.events.fields import DeclaredEvent
from replica_client.protocol.binlog.events.gtid_tagged import MESSAGE_FIELDS, GtidTaggedEvent
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.binlog.payload import read_unsigned
from replica_client.protocol.constants.column_types import (
    FRACTION_TYPES,
    METADATA_SIZES,
    NUMBER_FIELDS,
    NUMERIC_TYPES,
    ColumnType,
    MetadataFieldType,
    types_of,
)
from replica_client.protocol.constants.event_types import EventFlag, EventType, event_type_name
from replica_client.protocol.gtid import format_uuid

_T = ColumnType
_F = MetadataFieldType


def annotate_event(
    data: bytes,
    event: BinlogEvent,
    decoder: BinlogDecoder,
    text: RowText | None = None,
    base: int = 0,
) -> list[AnnotatedBytes]:
    """Return the annotated bytes of one event; together they are its bytes.

    Args:
        data: the whole event, decrypted.
        event: the decoded event; an UnknownEvent for one that the decoder refused.
        decoder: the decoder, which knows format and table maps.
        text: the values of a rows event.
        base: the offset of the event's first byte.
    """
    type_code = event.header.type_code
    header_size = decoder.format.header_size
    if type_code == EventType.FORMAT_DESCRIPTION_EVENT:
        header_size = HEADER_SIZE
    end = len(data) - (0 if event.checksum is None else 4)
    header_size = min(header_size, end)
    header = Annotator(data, 0, header_size, base)
    body = Annotator(data, header_size, end, base + header_size)
    ctx = EventContext(decoder.format, type_code, event.header.flags, decoder.options)
    try:
        _header(header, header_size, type_code)
        if isinstance(event.body, RowsEvent):
            rows(body, ctx, event.body, _table_map_of(decoder, event.body), text)
        else:
            # Of the type's class: the decoder may have refused the event.
            _body(body, ctx, EVENT_CLASSES.get(type_code, UnknownEvent))
        body.rest("extra", "beyond the known fields")
    except (ShortBufferError, BinlogDecodeError, IndexError) as error:
        header.fail(error)
        body.fail(error)
    annotated_bytes = [*header.annotated_bytes, *body.annotated_bytes]
    if event.checksum is not None:
        annotated_bytes.append(_checksum(data, end, event, base))
    return annotated_bytes


def _body(a: Annotator, ctx: EventContext, cls: type[EventBody]) -> None:
    if cls in CODED:
        CODED[cls](a, ctx)
    else:
        DeclaredFields(a, ctx, cls if issubclass(cls, DeclaredEvent) else UnknownEvent).annotate()


def _table_map_of(decoder: BinlogDecoder, event: RowsEvent) -> TableMapEvent | None:
    try:
        return decoder.table_map(event.table_id)
    except MissingTableMapError:
        return None


def _header(a: Annotator, size: int, type_code: int) -> None:
    a.section = "header"
    a.uint("timestamp", 4, "s since 1970 (UTC)", moment)
    a.uint("type_code", 1, "", lambda code: f"{code} {event_type_name(type_code)}")
    a.uint("server_id", 4)
    a.uint("event_size", 4, "bytes, header and checksum included")
    if size > HEADER_SIZE_V1:
        a.uint("next_position", 4, "byte of the file, modulo 2^32")
        a.uint("flags", 2, "flags", lambda value: show_name(value, EventFlag))
    a.rest("extra header")


def _checksum(data: bytes, end: int, event: BinlogEvent, base: int) -> AnnotatedBytes:
    is_format = event.header.type_code == EventType.FORMAT_DESCRIPTION_EVENT
    computed = event_checksum(memoryview(data)[:end], is_format)
    stored = int.from_bytes(data[end:], "little")
    verdict = "right" if computed == stored else f"WRONG, the bytes have 0x{computed:08x}"
    value = f"0x{stored:08x} ({verdict})"
    return AnnotatedBytes(
        "checksum", base + end, bytes(data[end:]), "crc32", value, "CRC-32", stored
    )


def _table_map(a: Annotator, ctx: EventContext) -> None:
    a.section = "post-header"
    size = ctx.post_header_size(8)
    id_size = 4 if size == 6 else 6
    a.uint("table_id", id_size)
    a.uint("flags", 2, "flags", hex)
    a.take("extra_post_header", max(0, size - id_size - 2))
    a.section = "body"
    for name in ("schema", "table"):
        a.take(name, a.uint(f"{name} length", 1, "bytes"))
        a.uint(f"{name} end", 1, "end of string", lambda value: str(value) if value else "NUL")
    count = a.lenenc("column count")
    require(a, count, "column types")
    types = [a.uint(f"column_types[{i}]", 1, "column type", show_type) for i in range(count)]
    if not a.remaining:
        return
    a.lenenc("column_metadata length", "bytes")
    for index, code in enumerate(types):
        _column_metadata(a, index, code)
    a.take("null_bitmap", (count + 7) // 8, "bit per column, 1: nullable", show_bits)
    a.section = "metadata"
    while a.remaining:
        field = a.uint("field type", 1, "", _field_name)
        name = _field_name(field).split(" ", 1)[1].lower()
        _optional_field(a, field, name, a.lenenc(f"{name} length", "bytes"), types)


def _field_name(code: int) -> str:
    name = show_name(code, MetadataFieldType)
    return name if " " in name else f"{name} field"


def _column_metadata(a: Annotator, index: int, code: int) -> None:
    name = f"column_metadata[{index}]"
    if code == _T.MYSQL_TYPE_TYPED_ARRAY:
        element = a.uint(f"{name} element type", 1, "column type", show_type)
        size = 3 if element == _T.MYSQL_TYPE_VARCHAR else METADATA_SIZES[element]
        if size:
            a.uint(name, size, "of the element")
        return
    size = METADATA_SIZES[code]
    if not size:
        return
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        a.uint(f"{name} precision", 1, "digits")
        a.uint(f"{name} scale", 1, "digits")
    elif code in types_of("string", "label"):
        a.uint(f"{name} real type", 1, "column type, with high bits of the length", str)
        a.uint(f"{name} length", 1, "bytes")
    elif code == _T.MYSQL_TYPE_BIT:
        a.uint(f"{name} bits", 1, "bits beyond whole bytes")
        a.uint(f"{name} bytes", 1, "whole bytes")
    elif code in FRACTION_TYPES:
        a.uint(name, size, "fraction digits")
    elif code in types_of("varchar"):
        a.uint(name, size, "bytes at most")
    else:
        a.uint(name, size, "bytes of the value or of its length")


def _optional_field(a: Annotator, code: int, name: str, size: int, types: list[int]) -> None:
    require(a, size, name)
    end = a.offset + size
    if code == _F.SIGNEDNESS:
        count = sum(column in NUMERIC_TYPES for column in types)
        a.take(
            name, size, f"bit per numeric column ({count}), from the top, 1: unsigned", show_bits
        )
    elif code == _F.COLUMN_VISIBILITY:
        a.take(name, size, "bit per column, from the top, 1: visible", show_bits)
    elif code in (_F.DEFAULT_CHARSET, _F.ENUM_AND_SET_DEFAULT_CHARSET):
        a.lenenc(name, "collation id")
        while a.offset < end:
            a.lenenc(f"{name} exception", "index among its kind")
            a.lenenc(f"{name} of it", "collation id")
    elif code in NUMBER_FIELDS:
        _numbers(a, name, end, NUMBER_FIELDS[_F(code)][1])
    elif code == _F.COLUMN_NAME:
        index = 0
        while a.offset < end:
            a.lenenc_string(f"column_names[{index}]")
            index += 1
    elif code in (_F.SET_STR_VALUE, _F.ENUM_STR_VALUE):
        index = 0
        while a.offset < end:
            count = a.lenenc(f"{name}[{index}] count", "labels")
            require(a, count, "labels")
            for at in range(count):
                a.lenenc_string(f"{name}[{index}][{at}]")
            index += 1
    elif code == _F.SIMPLE_PRIMARY_KEY:
        _numbers(a, name, end, "column index")
    elif code == _F.PRIMARY_KEY_WITH_PREFIX:
        index = 0
        while a.offset < end:
            a.lenenc(f"{name}[{index}]", "column index")
            a.lenenc(f"{name}[{index}] prefix", "characters, 0: whole")
            index += 1
    else:
        a.take(name, size, "not known")
    if a.offset < end:
        a.take(f"{name} rest", end - a.offset, "left over")


def _numbers(a: Annotator, name: str, end: int, unit: str) -> None:
    index = 0
    while a.offset < end:
        a.lenenc(f"{name}[{index}]", unit)
        index += 1


def _heartbeat_v2(a: Annotator, ctx: EventContext) -> None:
    names = {1: "log_file", 2: "position"}
    while a.remaining:
        code = a.lenenc("field type", "1: file, 2: position, 0: end")
        if not code:
            return
        name = names.get(code, f"field {code}")
        size = a.lenenc(f"{name} length", "bytes")
        if code == 2:
            a.lenenc(name, "byte of log_file")
        else:
            a.take(name, size)


def _gtid_tagged(a: Annotator, ctx: EventContext) -> None:
    a.read("serialization version", read_unsigned)
    a.read("message size", read_unsigned, "bytes")
    a.read("last non-ignorable field id", read_unsigned)
    while a.remaining:
        code = a.read("field id", read_unsigned)
        if code >= len(MESSAGE_FIELDS):
            a.rest("unknown fields", "of a newer server")
            continue
        name, read, _ = MESSAGE_FIELDS[code]
        a.read(name, read, "", format_uuid if name == "sid" else show)


_PAYLOAD = {1: ("payload_size", "bytes"), 2: ("compression_type", "0: zstd, 255: none")} | {
    3: ("uncompressed_size", "bytes")
}


def _transaction_payload(a: Annotator, ctx: EventContext) -> None:
    a.section = "post-header"
    payload_size = None
    while code := a.lenenc("field type", "0: end"):
        name, unit = _PAYLOAD.get(code, (f"field {code}", "not known"))
        size = a.lenenc(f"{name} length", "bytes")
        if code not in _PAYLOAD:
            a.take(name, size, unit)
            continue
        value = a.lenenc(name, unit)
        if code == 1:
            payload_size = value
    a.section = "body"
    a.take("payload", a.remaining if payload_size is None else payload_size, "compressed events")


CODED: Mapping[type, Callable[[Annotator, EventContext], None]] = {
    TableMapEvent: _table_map,
    HeartbeatV2Event: _heartbeat_v2,
    GtidTaggedEvent: _gtid_tagged,
    TransactionPayloadEvent: _transaction_payload,
}
"""Events whose bytes are no list of fields."""
