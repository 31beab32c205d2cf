"""A sample of a source's newest binlog file, which shows its content whatever its settings are now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.event_types import EventType, event_type_name
from replica_client.doctor.finding import Finding, note, ok, problem, warning
from replica_client.errors import BinlogDecodeError
from replica_client.readers.statement_effects import changes_rows
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.request import DumpRequest
from replica_client.transport.side_dump import open_dump

MAX_SIZE: Final = 16 << 20
MAX_SECONDS: Final = 3.0
_DECODED: Final = (int(EventType.QUERY_EVENT), int(EventType.QUERY_COMPRESSED_EVENT))
_MARKED: Final = {
    EventType.TRANSACTION_PAYLOAD_EVENT: "compressed transactions",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "partial JSON updates",
    EventType.QUERY_COMPRESSED_EVENT: "compressed statements",
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: "compressed rows",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: "compressed rows",
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: "compressed rows",
    EventType.WRITE_ROWS_COMPRESSED_EVENT: "compressed rows",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT: "compressed rows",
    EventType.DELETE_ROWS_COMPRESSED_EVENT: "compressed rows",
    EventType.START_ENCRYPTION_EVENT: "an encrypted file",
    EventType.INCIDENT_EVENT: "incidents",
}


@dataclass(slots=True)
class Sample:
    """Counts of a part of the newest file.

    Attributes:
        size: bytes read.
        events: by type code.
        statements: changes of rows that were logged as text.
        first_statement: the first of them.
        fault: an event that could not be read.
    """

    size: int = 0
    events: Counter[int] = field(default_factory=Counter)
    statements: int = 0
    first_statement: str = ""
    fault: str = ""


async def take_sample(options: ConnectOptions, file: str) -> Sample:
    """Read the start of a file.

    Raises:
        ServerError: the source refuses, for want of a privilege or otherwise.
        TransportError: the connection failed.
        ProtocolError: the source sent data that the protocol forbids.
    """
    sample = Sample()
    decoder = BinlogDecoder()
    deadline = asyncio.get_running_loop().time() + MAX_SECONDS
    # Never the server id that the user gave: it may be in use, and a dump would end the other one.
    async with await open_dump(options, DumpRequest(file, non_block=True)) as dump:
        async for data in dump:
            _count(sample, decoder, data)
            if sample.size >= MAX_SIZE or asyncio.get_running_loop().time() >= deadline:
                break
    return sample


def _count(sample: Sample, decoder: BinlogDecoder, data: bytes) -> None:
    sample.size += len(data)
    try:
        header = decoder.peek_header(data)
        code = header.type_code
        if not header.is_artificial:
            sample.events[code] += 1
        if code == EventType.FORMAT_DESCRIPTION_EVENT:
            decoder.decode(data, 4)
        elif code in _DECODED:
            query = decoder.decode(data, 0).body.query
            if changes_rows(query):
                sample.statements += 1
                sample.first_statement = sample.first_statement or _short(query)
    except BinlogDecodeError as error:
        sample.fault = sample.fault or str(error)


def _short(query: bytes) -> str:
    text = " ".join(query[:200].decode("utf-8", "replace").split())
    return text if len(text) <= 60 else text[:60] + "…"


def seen(sample: Sample) -> Iterator[Finding]:
    """Findings about a sample."""
    names = sorted({name for code, name in _MARKED.items() if sample.events[code]})
    unknown = sorted(code for code in sample.events if event_type_name(code).startswith("UNKNOWN_"))
    count = sum(sample.events.values())
    where = f"the newest file's first {count} {'event' if count == 1 else 'events'}"
    if sample.fault or unknown:
        what = sample.fault or f"events of unknown type {', '.join(map(str, unknown))}"
        yield problem(
            "events", f"{where}: {what}", "run replica-client events on the source's file"
        )
    elif names:
        yield note("events", f"{where} hold {', '.join(names)}")
    else:
        yield ok("events", f"{where}: nothing out of the ordinary")
    if sample.statements:
        yield warning(
            "statements",
            f"{where} hold {sample.statements} changes logged as text, which are not rows "
            f"({sample.first_statement})",
            "have every session use binlog_format = ROW, and start behind these statements",
        )
