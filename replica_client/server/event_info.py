"""The texts of SHOW BINLOG EVENTS: an event's name and its Info column, as servers print them."""

from __future__ import annotations

import re
from typing import Any, Final

from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events import (
    BinlogCheckpointEvent,
    IntvarEvent,
    MariadbGtidEvent,
    QueryEvent,
    RandEvent,
    RowsEvent,
    TransactionPayloadEvent,
    XaPrepareEvent,
)
from replica_client.binlog.events.mariadb_gtid import MariadbGtidFlag
from replica_client.binlog.events.transaction_payload import PayloadCompression
from replica_client.constants.event_types import EventFlag, EventType, event_type_name
from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import BinlogDecodeError
from replica_client.gtid import Gtid, MariadbGtid, MariadbGtidSet

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
_INTVARS: Final = {1: "LAST_INSERT_ID", 2: "INSERT_ID"}


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
        return _rows(body, mariadb)
    if isinstance(body, MariadbGtidEvent):
        return _mariadb_gtid(event, body)
    if isinstance(body, XaPrepareEvent):
        end = " ONE PHASE" if body.one_phase else ""
        return f"XA {'COMMIT' if body.one_phase else 'PREPARE'} {_xid(body)}{end}"
    if isinstance(body, TransactionPayloadEvent):
        kind = "ZSTD" if body.compression_type == PayloadCompression.ZSTD else "NONE"
        return f"compression='{kind}', decompressed_size={body.uncompressed_size} bytes"
    if isinstance(body, BinlogCheckpointEvent):
        return body.file
    if isinstance(body, IntvarEvent):
        return f"{_INTVARS.get(body.kind, 'INVALID_INT')}={body.value}"
    if isinstance(body, RandEvent):
        return f"rand_seed1={body.seed1},rand_seed2={body.seed2}"
    return _other(code, body)


def _other(code: int, body: Any) -> str:
    if code == EventType.FORMAT_DESCRIPTION_EVENT:
        version = bytes(body.server_version).rstrip(b"\0").decode("ascii", "replace")
        return f"Server ver: {version}, Binlog ver: 4"
    if code == EventType.ROTATE_EVENT:
        return f"{body.next_file};pos={body.next_position}"
    if code == EventType.XID_EVENT:
        return f"COMMIT /* xid={body.xid} */"
    if code in (EventType.ROWS_QUERY_LOG_EVENT, EventType.ANNOTATE_ROWS_EVENT):
        query = bytes(body.query).decode("utf-8", "replace")
        return f"# {query}" if code == EventType.ROWS_QUERY_LOG_EVENT else query
    if code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
        return str(body.gtid_set)
    if code == EventType.GTID_LIST_EVENT:
        return f"[{MariadbGtidSet(MariadbGtid(*gtid) for gtid in body.gtids)}]"
    if code == EventType.TABLE_MAP_EVENT:
        return f"table_id: {body.table_id} ({body.schema}.{body.table})"
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


def _rows(body: RowsEvent, mariadb: bool) -> str:
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
