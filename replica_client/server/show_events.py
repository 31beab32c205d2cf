"""SHOW BINLOG EVENTS: the events of a file, with the names and texts that servers print."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from replica_client.binlog.context import EventContext
from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events import (
    EVENT_CLASSES,
    AnnotateRowsEvent,
    QueryEvent,
    RowsEvent,
    RowsQueryEvent,
)
from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.binlog.header import EventHeader
from replica_client.binlog.layout import HEADER_SIZE
from replica_client.binlog.options import DecodeOptions
from replica_client.codec.reader import ByteReader
from replica_client.constants.event_types import EventType
from replica_client.errors import BinlogDecodeError, LimitExceededError, ServerError
from replica_client.server.budget import SLICE_SECONDS, SessionBudget
from replica_client.server.event_info import event_info, event_name
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
from replica_client.wire.resultset import Value

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
