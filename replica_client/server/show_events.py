"""SHOW BINLOG EVENTS: what stands in a file, event by event, with the names and texts that servers give."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.errors import BinlogDecodeError, ServerError
from replica_client.server.event_info import event_info, event_name
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
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
    async with file.present():
        return await _wanted_rows(file, match)


async def _wanted_rows(file: ServedFile, match: re.Match[str]) -> list[tuple[Value, ...]]:
    position = int(match["position"] or FIRST_EVENT)
    count = None if match["count"] is None else int(match["count"])
    offset = int(match["offset"] or 0)
    if position != FIRST_EVENT and not _begins(file, position):
        raise _failed("Wrong offset or I/O error")
    wanted = islice(_rows(file, position), offset, None if count is None else offset + count)
    rows: list[tuple[Value, ...]] = []
    for number, row in enumerate(wanted):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # others are served meanwhile
        if len(rows) >= MAX_ROWS:
            raise _failed(f"more than {MAX_ROWS} events; ask for them in parts with LIMIT")
        rows.append(row)
    return rows


def _rows(file: ServedFile, position: int) -> Iterator[tuple[Value, ...]]:
    """Rows of the events from a position on; those inside a payload come behind it."""
    decoder = BinlogDecoder(file=file.name, format=file.format)
    for at, header in file.headers(position):
        name, end = event_name(header.type_code), header.next_position
        try:
            event = decoder.decode(file.read(at, header.event_size), at)
            info = event_info(event, file.flavor)
        except BinlogDecodeError as error:
            yield file.name, at, name, header.server_id, end, f"damaged: {error}"[:_MAX_INFO]
            continue
        yield file.name, at, name, header.server_id, end, info[:_MAX_INFO]
        try:
            for inner in decoder.inner_events(event):
                code, server_id = inner.header.type_code, inner.header.server_id
                text = event_info(inner, file.flavor)[:_MAX_INFO]
                yield file.name, end, event_name(code), server_id, end, text
        except BinlogDecodeError as error:
            yield file.name, end, name, header.server_id, end, f"damaged: {error}"[:_MAX_INFO]


def _begins(file: ServedFile, position: int) -> bool:
    """Whether an event begins at a position."""
    return any(at == position for at, _ in file.headers() if at <= position)


def _failed(why: str) -> ServerError:
    return ServerError(1220, "HY000", f"Error when executing command SHOW BINLOG EVENTS: {why}")
