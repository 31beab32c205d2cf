"""SHOW BINLOG EVENTS."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

from replica_client.errors import BinlogDecodeError, LimitExceededError, ServerError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import (
    FIRST_EVENT,
    BinlogEvent,
    DecodeOptions,
    EventContext,
    EventHeader,
)
from replica_client.protocol.binlog.events import (
    EVENT_CLASSES,
    AnnotateRowsEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
    RowsQueryEvent,
    TransactionPayloadEvent,
    XaPrepareEvent,
)
from replica_client.protocol.binlog.events.gtids import MariadbGtidFlag
from replica_client.protocol.binlog.events.transaction_payload import PayloadCompression
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import EventFlag, EventType, event_type_name
from replica_client.protocol.gtid import Gtid, MariadbGtid, MariadbGtidSet
from replica_client.protocol.wire.resultset import Value
from replica_client.server.budget import SLICE_SECONDS, SessionBudget
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary

_NAMES: Final = {
    EventType.FORMAT_DESCRIPTION_EVENT: "Format_desc",
    EventType.ANONYMOUS_GTID_LOG_EVENT: "Anonymous_Gtid",
    EventType.GTID_LOG_EVENT: "Gtid",
    EventType.GTID_EVENT: "Gtid",
    EventType.GTID_TAGGED_LOG_EVENT: "Gtid_tagged",
    EventType.GTID_LIST_EVENT: "Gtid_list",
    EventType.XA_PREPARE_LOG_EVENT: "XA_prepare",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "Update_rows_partial",
    EventType.RAND_EVENT: "RAND",
    EventType.USER_VAR_EVENT: "User var",
}
_SUFFIX: Final = re.compile(r"(_COMPRESSED)?(_LOG)?_EVENT(_V[12])?$")
_ROW_FLAGS: Final = (
    (1, "STMT_END_F"),
    (2, "NO_FOREIGN_KEY_CHECKS_F"),
    (4, "RELAXED_UNIQUE_CHECKS_F"),
    (8, "COMPLETE_ROWS_F"),
    (16, "USE_SQL_FOREIGN_KEY_F"),
)
# Settings under which a statement of MariaDB ran, by bits of its status.
_MARIADB_SETTINGS: Final = (
    (1 << 26, "foreign_key_checks=1"),
    (1 << 27, "unique_checks=1"),
)


def event_name(code: int) -> str:
    """Return the name that SHOW BINLOG EVENTS prints for an event type."""
    known = _NAMES.get(code)  # type: ignore[call-overload]
    if known is not None:
        return str(known)

    def tail(match: re.Match[str]) -> str:
        return f"{match[1] or ''}{match[3] or ''}".lower()

    return _SUFFIX.sub(tail, event_type_name(code)).capitalize()


def event_info(event: BinlogEvent, flavor: ServerFlavor) -> str:
    """Return the Info text of an event; empty if the event has none or its type is unknown here."""
    body: Any = event.body
    code = event.header.type_code
    mariadb = flavor is ServerFlavor.MARIADB
    if isinstance(body, QueryEvent):
        return _query(event, body, mariadb)
    if isinstance(body, RowsEvent):
        return _rows_info(body, mariadb)
    if isinstance(body, MariadbGtidEvent):
        return _mariadb_gtid(event, body)
    if isinstance(body, XaPrepareEvent):
        end = " ONE PHASE" if body.one_phase else ""
        return f"XA {'COMMIT' if body.one_phase else 'PREPARE'} {_xid(body)}{end}"
    if isinstance(body, TransactionPayloadEvent):
        kind = "ZSTD" if body.compression_type == PayloadCompression.ZSTD else "NONE"
        return f"compression='{kind}', decompressed_size={body.uncompressed_size} bytes"
    template: str = getattr(body, "INFO", "")
    return template.format(body) if template else _other(code, body)


def _other(code: int, body: Any) -> str:
    if code in (EventType.ROWS_QUERY_LOG_EVENT, EventType.ANNOTATE_ROWS_EVENT):
        query = bytes(body.query).decode("utf-8", "replace")
        return f"# {query}" if code == EventType.ROWS_QUERY_LOG_EVENT else query
    if code == EventType.GTID_LIST_EVENT:
        return f"[{MariadbGtidSet(MariadbGtid(*gtid) for gtid in body.gtids)}]"
    if code == EventType.ANONYMOUS_GTID_LOG_EVENT:
        return "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'"
    if code in (EventType.GTID_LOG_EVENT, EventType.GTID_TAGGED_LOG_EVENT):
        return f"SET @@SESSION.GTID_NEXT= '{Gtid(body.sid, body.gno, body.tag)}'"
    return ""


def _query(event: BinlogEvent, body: QueryEvent, mariadb: bool) -> str:
    database = bytes(body.schema).decode("utf-8", "replace")
    text = body.query_text("replace")
    try:
        status = body.status
    except BinlogDecodeError:
        return text
    if mariadb and status.flags2:
        settings = [word for bit, word in _MARIADB_SETTINGS if status.flags2 & bit]
        text = f"set {', '.join(settings)}; {text}" if settings else text
    if database and not event.header.flags & EventFlag.LOG_EVENT_SUPPRESS_USE_F:
        text = f"use `{database}`; {text}"
    if not mariadb and status.ddl_xid is not None:
        text = f"{text} /* xid={status.ddl_xid} */"
    return text


def _rows_info(body: RowsEvent, mariadb: bool) -> str:
    known = _ROW_FLAGS[:1] if mariadb or body.version < 2 else _ROW_FLAGS
    if not body.flags & 16:
        known = known[:1]  # servers without USE_SQL_FOREIGN_KEY_F print only STMT_END_F
    words = [word for bit, word in known if body.flags & bit]
    return f"table_id: {body.table_id}" + (f" flags: {' '.join(words)}" if words else "")


def _mariadb_gtid(event: BinlogEvent, body: MariadbGtidEvent) -> str:
    if body.flags & MariadbGtidFlag.FL_PREPARED_XA and body.xid is not None:
        begin = f"XA START {_xid(body.xid)} "
    else:
        begin = "" if body.flags & MariadbGtidFlag.FL_STANDALONE else "BEGIN "
    gtid = MariadbGtid(body.domain_id, event.header.server_id, body.sequence)
    end = "" if body.commit_id is None else f" cid={body.commit_id}"
    return f"{begin}GTID {gtid}{end}"


def _xid(xid: Any) -> str:
    gtrid, bqual = bytes(xid.gtrid).hex().upper(), bytes(xid.bqual).hex().upper()
    return f"X'{gtrid}',X'{bqual}',{xid.format_id}"


COLUMNS: Final = ("Log_name", "Pos", "Event_type", "Server_id", "End_log_pos", "Info")
LIKE_ROW: Final[tuple[Value, ...]] = ("", 0, "", 0, 0, "")
"""A row with values of the columns' types."""

PIECE_SIZE: Final = 64 << 10
"""Bytes of text after which rows are sent."""

MAX_DECODED: Final = 1 << 20
"""Bytes up to which an event is decoded as a whole; of a larger one only its first bytes."""

_MAX_PAYLOAD: Final = 16 << 20
_MAX_INFO: Final = 64 << 10
_HEAD_SIZE: Final = 128 << 10
_ROW_SIZE: Final = 64
_PAYLOADS: Final = frozenset((EventType.TRANSACTION_PAYLOAD_EVENT,))
_OPTIONS: Final = DecodeOptions(max_event_size=_MAX_PAYLOAD, max_uncompressed_size=_MAX_PAYLOAD)
_STATEMENT: Final = re.compile(
    r"SHOW\s+BINLOG\s+EVENTS(?:\s+IN\s+(?P<quote>['\"])(?P<file>[^'\"]+)(?P=quote))?"
    r"(?:\s+FROM\s+(?P<position>[0-9]{1,20}))?(?:\s+LIMIT\s+(?:(?P<offset>[0-9]{1,20})\s*,\s*)?(?P<count>[0-9]{1,20}))?$",
    re.IGNORECASE,
)

Row = tuple[Value, ...]


async def show_binlog_events(
    library: BinlogLibrary, text: str, budget: SessionBudget
) -> AsyncGenerator[list[Row], None] | None:
    """Return the rows of the statement in pieces, or None if it is another statement.

    Raises:
        ServerError: there is no such file, or no event begins at that position.
    """
    match = _STATEMENT.match(text)
    if match is None:
        return None
    file = library.find(match["file"] or "")
    if file is None:
        raise _failed("Could not find target log")
    position = int(match["position"] or FIRST_EVENT)
    if position != FIRST_EVENT:
        async with file.present():
            if not await _begins(file, position, budget):
                raise _failed("Wrong offset or I/O error")
    count = None if match["count"] is None else int(match["count"])
    return _pieces(file, position, int(match["offset"] or 0), count, budget)


async def _pieces(
    file: ServedFile, position: int, offset: int, count: int | None, budget: SessionBudget
) -> AsyncGenerator[list[Row], None]:
    """Yield rows in pieces, each made in a turn of the account."""
    passed = sent = 0
    over = False
    async with file.present():
        rows = _rows(file, position)
        while not over:
            piece: list[Row] = []
            size = 0
            async with budget.working():
                begun, end = time.thread_time(), time.perf_counter() + SLICE_SECONDS
                while size < PIECE_SIZE and time.perf_counter() < end:
                    row = None if sent == count else next(rows, None)
                    if row is None:
                        over = True
                        break
                    if passed < offset:
                        passed += 1
                        continue
                    piece.append(row)
                    size += _ROW_SIZE + len(str(row[-1]))
                    sent += 1
                budget.account.charge(time.thread_time() - begun)
            if piece:
                yield piece


def _rows(file: ServedFile, position: int) -> Iterator[Row]:
    """Yield the rows of the events from a position on; events inside a payload come after it."""
    decoder = BinlogDecoder(_OPTIONS, file=file.name, format=file.format)
    for at, header in file.headers(position):
        name, server_id, end = event_name(header.type_code), header.server_id, header.next_position
        if header.event_size > MAX_DECODED and header.type_code not in _PAYLOADS:
            info = _head_info(file, at, header)[:_MAX_INFO]
            yield file.name, at, name, server_id, end, info
            continue
        if header.event_size > _MAX_PAYLOAD:
            yield file.name, at, name, server_id, end, f"{header.event_size} bytes; not opened"
            continue
        try:
            event = decoder.decode(file.read(at, header.event_size), at)
            info = event_info(event, file.flavor)
        except BinlogDecodeError as error:
            yield file.name, at, name, server_id, end, f"damaged: {error}"[:_MAX_INFO]
            continue
        yield file.name, at, name, server_id, end, info[:_MAX_INFO]
        try:
            for inner in decoder.inner_events(event):
                code, inner_id = inner.header.type_code, inner.header.server_id
                text = event_info(inner, file.flavor)[:_MAX_INFO]
                yield file.name, end, event_name(code), inner_id, end, text
        except LimitExceededError:
            yield file.name, end, name, server_id, end, f"more than {_MAX_PAYLOAD} bytes; not shown"
        except BinlogDecodeError as error:
            yield file.name, end, name, server_id, end, f"damaged: {error}"[:_MAX_INFO]


def _head_info(file: ServedFile, at: int, header: EventHeader) -> str:
    """Return the text of a large event, from its first bytes."""
    kind = EVENT_CLASSES.get(header.type_code)
    if kind is not None and issubclass(
        kind, RowsEvent | QueryEvent | RowsQueryEvent | AnnotateRowsEvent
    ):
        head = file.read(at, min(_HEAD_SIZE, header.event_size))
        context = EventContext(file.format, header.type_code, header.flags)
        try:
            body = kind.decode(ByteReader(head, HEADER_SIZE, len(head)), context)
            return event_info(BinlogEvent(header, body), file.flavor)
        except BinlogDecodeError:
            pass  # its head is larger than that
    return f"{header.event_size} bytes"


async def _begins(file: ServedFile, position: int, budget: SessionBudget) -> bool:
    """Return whether an event begins at a position."""
    for at, _ in file.headers():
        if at >= position:
            return at == position
        await budget.pace()
    return False


def _failed(why: str) -> ServerError:
    return ServerError(1220, "HY000", f"Error when executing command SHOW BINLOG EVENTS: {why}")
