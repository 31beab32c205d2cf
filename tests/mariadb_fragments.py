"""Binlog files of MariaDB with rows events in fragments, made from files without: the format of 12.3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import cut_rows, encode_event
from replica_client.protocol.binlog.event import MAGIC, MAGIC_SIZE, BinlogEvent, EventHeader
from replica_client.protocol.binlog.layout import HEADER_SIZE, ROWS_TYPES
from replica_client.protocol.constants.event_types import EventType

GOLDEN = Path(__file__).parent / "golden" / "mariadb-11.8.6"


def events_of(data: bytes) -> Iterator[tuple[bytes, BinlogEvent, BinlogDecoder]]:
    """Yield the events of a plain file."""
    decoder, at = BinlogDecoder(), MAGIC_SIZE
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        raw = data[at : at + size]
        yield raw, decoder.decode(raw, at, "binlog"), decoder
        at += size


def moved(event: BinlogEvent, end: int, decoder: BinlogDecoder) -> bytes:
    """Return an event's bytes with the position of its end."""
    old = event.header
    draft = len(encode_event(event, decoder.format))
    next_position = (end + draft) & 0xFFFFFFFF if old.next_position else 0
    header = EventHeader(
        old.timestamp, old.type_code, old.server_id, draft, next_position, old.flags, old.extra
    )
    return encode_event(BinlogEvent(header, event.body), decoder.format)


def fragmented(data: bytes, size: int, *, with_checksum: bool = False) -> bytes:
    """Return a plain file in which rows events of more than ``size`` bytes are in fragments.

    Args:
        data: the file.
        size: bytes of each fragment.
        with_checksum: whether the joined rows event keeps its checksum: the format's page does not say.
    """
    out = bytearray(MAGIC)
    for raw, event, decoder in events_of(data):
        tail = decoder.format.checksum_size
        if event.header.type_code not in ROWS_TYPES or len(raw) - tail <= size:
            out += moved(event, len(out), decoder)
            continue
        plain = raw if with_checksum else _plain(raw, tail)
        for fragment in cut_rows(plain, size):
            header = EventHeader(
                event.header.timestamp,
                EventType.PARTIAL_ROW_DATA_EVENT,
                event.header.server_id,
                0,
                1,
                event.header.flags,
            )
            out += moved(BinlogEvent(header, fragment), len(out), decoder)
    return bytes(out)


def transactions_of(data: bytes) -> list[list[bytes]]:
    """Return the events of each transaction of a plain file, without checksums and end positions."""
    found: list[list[bytes]] = []
    for raw, event, decoder in events_of(data):
        code = event.header.type_code
        if code == EventType.GTID_EVENT:
            found.append([])
        if found and code not in _BETWEEN:
            plain = _plain(raw, decoder.format.checksum_size)
            found[-1].append(plain[:13] + bytes(4) + plain[17:])
    return found


def plain_file(events: list[bytes]) -> bytes:
    """Return a binlog file of MariaDB without checksums, of events as :func:`transactions_of` gives them."""
    sample = (GOLDEN / "no_checksum.binlog").read_bytes()
    out = bytearray(MAGIC + next(events_of(sample))[0])
    for event in events:
        end = (len(out) + len(event)).to_bytes(4, "little")
        out += event[:13] + end + event[17:]
    return bytes(out)


_BETWEEN = (EventType.BINLOG_CHECKPOINT_EVENT, EventType.ROTATE_EVENT, EventType.STOP_EVENT)


def _plain(raw: bytes, tail: int) -> bytes:
    """Return an event without its checksum."""
    size = len(raw) - tail
    return raw[:9] + size.to_bytes(4, "little") + raw[13:HEADER_SIZE] + raw[HEADER_SIZE:size]
