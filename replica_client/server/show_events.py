"""SHOW BINLOG EVENTS: what stands in a file, event by event, with the names and texts that servers give."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.constants.event_types import EventType, event_type_name
from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import BinlogDecodeError, ServerError
from replica_client.gtid import Gtid, MariadbGtid, MariadbGtidSet
from replica_client.server.files import ServedFile
from replica_client.server.library import BinlogLibrary
from replica_client.wire.resultset import Value

COLUMNS: Final = ("Log_name", "Pos", "Event_type", "Server_id", "End_log_pos", "Info")
MAX_ROWS: Final = 100_000
"""Events that one answer may have; more are asked for with LIMIT."""

_MAX_INFO: Final = 64 << 10
_AT_ONCE: Final = 64
_STATEMENT: Final = re.compile(
    r"SHOW\s+BINLOG\s+EVENTS(?:\s+IN\s+(?P<quote>['\"])(?P<file>[^'\"]+)(?P=quote))?"
    r"(?:\s+FROM\s+(?P<position>[0-9]{1,20}))?(?:\s+LIMIT\s+(?:(?P<offset>[0-9]{1,20})\s*,\s*)?(?P<count>[0-9]{1,20}))?$",
    re.IGNORECASE,
)
_NAMES: Final = {
    EventType.FORMAT_DESCRIPTION_EVENT: "Format_desc",
    EventType.ANONYMOUS_GTID_LOG_EVENT: "Anonymous_Gtid",
    EventType.GTID_LOG_EVENT: "Gtid",
    EventType.GTID_EVENT: "Gtid",
    EventType.GTID_TAGGED_LOG_EVENT: "Gtid_tagged",
    EventType.GTID_LIST_EVENT: "Gtid_list",
    EventType.XA_PREPARE_LOG_EVENT: "XA_prepare",
}
_SUFFIX: Final = re.compile(r"(_LOG)?_EVENT(_V[12])?$")


async def show_binlog_events(library: BinlogLibrary, text: str) -> list[tuple[Value, ...]] | None:
    """Rows of the statement; None when it is another one.

    Raises:
        ServerError: there is no such file, no event begins there, or there are too many.
    """
    match = _STATEMENT.match(text)
    if match is None:
        return None
    file = library.find(match["file"] or "")
    if file is None:
        raise _failed("Could not find target log")
    position = int(match["position"] or FIRST_EVENT)
    count = None if match["count"] is None else int(match["count"])
    offset = int(match["offset"] or 0)
    if position != FIRST_EVENT and not _begins(file, position):
        raise _failed("Wrong offset or I/O error")
    decoder = BinlogDecoder(file=file.name, format=file.format)
    rows: list[tuple[Value, ...]] = []
    with file.opened():
        for number, (at, header) in enumerate(file.headers(position)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # others are served meanwhile
            if number < offset:
                continue
            if count is not None and len(rows) >= count:
                break
            if len(rows) >= MAX_ROWS:
                raise _failed(f"more than {MAX_ROWS} events; ask for them in parts with LIMIT")
            data = file.read(at, header.event_size)
            row = (_name(header.type_code), header.server_id, header.next_position)
            rows.append((file.name, at, *row, _info(decoder, data, at, file)))
    return rows


def _begins(file: ServedFile, position: int) -> bool:
    """Whether an event begins at a position."""
    return any(at == position for at, _ in file.headers() if at <= position)


def _failed(why: str) -> ServerError:
    return ServerError(1220, "HY000", f"Error when executing command SHOW BINLOG EVENTS: {why}")


def _name(code: int) -> str:
    known = _NAMES.get(code)  # type: ignore[call-overload]
    if known is not None:
        return str(known)
    return _SUFFIX.sub(lambda match: (match[2] or "").lower(), event_type_name(code)).capitalize()


def _info(decoder: BinlogDecoder, data: bytes, position: int, file: ServedFile) -> str:
    try:
        event = decoder.decode(data, position)
    except BinlogDecodeError as error:
        return f"damaged: {error}"[:_MAX_INFO]
    return _text(event.header.type_code, event.body, file, data)[:_MAX_INFO]


def _text(code: int, body: Any, file: ServedFile, data: bytes) -> str:
    if code == EventType.FORMAT_DESCRIPTION_EVENT:
        return f"Server ver: {file.format.server_version}, Binlog ver: 4"
    if code == EventType.ROTATE_EVENT:
        return f"{body.next_file};pos={body.next_position}"
    if code == EventType.QUERY_EVENT:
        database = bytes(body.schema).decode("utf-8", "replace")
        query = bytes(body.query).decode("utf-8", "replace")
        use = f"use `{database}`; " if database and query != "BEGIN" else ""
        return use + query
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
    return _gtid_text(code, file, data)


def _gtid_text(code: int, file: ServedFile, data: bytes) -> str:
    if code == EventType.ANONYMOUS_GTID_LOG_EVENT:
        return "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'"
    if code not in (
        EventType.GTID_LOG_EVENT,
        EventType.GTID_TAGGED_LOG_EVENT,
        EventType.GTID_EVENT,
    ):
        return ""
    gtid = file.gtid_of(data)
    if file.flavor is ServerFlavor.MARIADB:
        return f"BEGIN GTID {gtid}"
    return f"SET @@SESSION.GTID_NEXT= '{gtid}'" if isinstance(gtid, Gtid) else ""
