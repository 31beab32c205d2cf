"""A whole event, from its header to its checksum, as annotated bytes that cover each byte once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replica_client.cli.annotation import (
    control,
    gtids,
    load_body,
    payload_body,
    statement_body,
    table_map_body,
)
from replica_client.cli.annotation.annotator import AnnotatedBytes, Annotator
from replica_client.cli.annotation.control import moment
from replica_client.cli.annotation.rows_body import RowText, rows
from replica_client.errors import BinlogDecodeError, MissingTableMapError, ShortBufferError
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import HEADER_SIZE_V1, BinlogEvent, event_checksum
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.constants.event_types import EventFlag, EventType, event_type_name

Layout = Callable[[Annotator, EventContext], None]
T = EventType

LAYOUTS: Mapping[int, Layout] = {
    T.START_EVENT_V3: control.start_v3,
    T.QUERY_EVENT: statement_body.query,
    T.STOP_EVENT: control.stop,
    T.ROTATE_EVENT: control.rotate,
    T.INTVAR_EVENT: statement_body.intvar,
    T.LOAD_EVENT: load_body.load,
    T.SLAVE_EVENT: control.slave,
    T.CREATE_FILE_EVENT: load_body.create_file,
    T.APPEND_BLOCK_EVENT: load_body.append_block,
    T.EXEC_LOAD_EVENT: load_body.exec_load,
    T.DELETE_FILE_EVENT: load_body.exec_load,
    T.NEW_LOAD_EVENT: load_body.load,
    T.RAND_EVENT: statement_body.rand,
    T.USER_VAR_EVENT: statement_body.user_var,
    T.FORMAT_DESCRIPTION_EVENT: control.format_description,
    T.XID_EVENT: control.xid,
    T.BEGIN_LOAD_QUERY_EVENT: load_body.append_block,
    T.EXECUTE_LOAD_QUERY_EVENT: statement_body.query,
    T.TABLE_MAP_EVENT: table_map_body.table_map,
    T.INCIDENT_EVENT: control.incident,
    T.HEARTBEAT_LOG_EVENT: control.heartbeat,
    T.IGNORABLE_LOG_EVENT: control.opaque,
    T.ROWS_QUERY_LOG_EVENT: statement_body.rows_query,
    T.GTID_LOG_EVENT: gtids.gtid,
    T.ANONYMOUS_GTID_LOG_EVENT: gtids.gtid,
    T.PREVIOUS_GTIDS_LOG_EVENT: gtids.previous_gtids,
    T.TRANSACTION_CONTEXT_EVENT: gtids.transaction_context,
    T.VIEW_CHANGE_EVENT: gtids.view_change,
    T.XA_PREPARE_LOG_EVENT: control.xa_prepare,
    T.TRANSACTION_PAYLOAD_EVENT: payload_body.transaction_payload,
    T.HEARTBEAT_LOG_EVENT_V2: control.heartbeat_v2,
    T.GTID_TAGGED_LOG_EVENT: gtids.gtid_tagged,
    T.ANNOTATE_ROWS_EVENT: statement_body.annotate_rows,
    T.BINLOG_CHECKPOINT_EVENT: control.binlog_checkpoint,
    T.GTID_EVENT: gtids.mariadb_gtid,
    T.GTID_LIST_EVENT: gtids.mariadb_gtid_list,
    T.START_ENCRYPTION_EVENT: control.start_encryption,
    T.QUERY_COMPRESSED_EVENT: statement_body.query,
}
"""The layout of each type but rows events, which need their table map; others are not divided."""


def annotate_event(
    data: bytes,
    event: BinlogEvent,
    decoder: BinlogDecoder,
    text: RowText | None = None,
    base: int = 0,
) -> list[AnnotatedBytes]:
    """The annotated bytes of one event; together they are its bytes.

    Args:
        data: the whole event, decrypted.
        event: what the decoder made of it; an UnknownEvent for one that it refused.
        decoder: the decoder, which knows format and table maps.
        text: the values of a rows event.
        base: what the annotated bytes' offsets count from.
    """
    type_code = event.header.type_code
    header_size = decoder.format.header_size
    if type_code == T.FORMAT_DESCRIPTION_EVENT:
        header_size = HEADER_SIZE
    end = len(data) - (0 if event.checksum is None else 4)
    header_size = min(header_size, end)
    header = Annotator(data, 0, header_size, base)
    body = Annotator(data, header_size, end, base + header_size)
    ctx = EventContext(decoder.format, type_code, event.header.flags, decoder.options)
    try:
        _header(header, header_size, type_code)
        if isinstance(event.body, RowsEvent):
            rows(body, ctx, event.body, _table_map(decoder, event.body), text)
        else:
            LAYOUTS.get(type_code, control.opaque)(body, ctx)
        body.rest("extra", "beyond the known fields")
    except (ShortBufferError, BinlogDecodeError, IndexError) as error:
        header.fail(error)
        body.fail(error)
    annotated_bytes = [*header.annotated_bytes, *body.annotated_bytes]
    if event.checksum is not None:
        annotated_bytes.append(_checksum(data, end, event, base))
    return annotated_bytes


def _table_map(decoder: BinlogDecoder, event: RowsEvent) -> TableMapEvent | None:
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
        a.flags("flags", 2, EventFlag)
    a.rest("extra header")


def _checksum(data: bytes, end: int, event: BinlogEvent, base: int) -> AnnotatedBytes:
    is_format = event.header.type_code == T.FORMAT_DESCRIPTION_EVENT
    computed = event_checksum(memoryview(data)[:end], is_format)
    stored = int.from_bytes(data[end:], "little")
    verdict = "right" if computed == stored else f"WRONG, the bytes have 0x{computed:08x}"
    value = f"0x{stored:08x} ({verdict})"
    return AnnotatedBytes(
        "checksum", base + end, bytes(data[end:]), "crc32", value, "CRC-32", stored
    )
