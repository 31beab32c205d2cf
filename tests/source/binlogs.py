"""Small binlog files made by the encoder, for tests against the testing source."""

import struct
from pathlib import Path
from uuid import UUID

from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat, EventHeader
from replica_client.protocol.binlog.events import (
    FormatDescriptionEvent,
    GtidEvent,
    MariadbGtidEvent,
    PreviousGtidsEvent,
    QueryEvent,
    RotateEvent,
    XidEvent,
)
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.server.served_library import gtid_list

SERVER_ID = 11
SOURCE_UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TIMESTAMP = 1_700_000_000
_TRANSACTION_STANDALONE = 1


class BinlogMaker:
    """Builds one file event by event; transactions are GTID, BEGIN, a statement, XID."""

    def __init__(
        self,
        *,
        mariadb: bool = False,
        checksum: bool = True,
        first: int = 1,
        created: int | None = None,
    ) -> None:
        self.mariadb = mariadb
        # Servers say when they began a file at their start, and 0 in the files behind a rotation.
        created = created if created is not None else TIMESTAMP if first == 1 else 0
        version = b"10.11.6-MariaDB-log" if mariadb else b"9.7.4"
        algorithm = ChecksumAlgorithm.CRC32 if checksum else ChecksumAlgorithm.OFF
        description = FormatDescriptionEvent(
            server_version=version.ljust(50, b"\0"),
            create_timestamp=created,
            checksum_algorithm=algorithm,
            post_header_sizes=bytes(171) if mariadb else FormatDescriptionEvent().post_header_sizes,
        )
        if mariadb:
            sizes = bytearray(171)
            sizes[: len(FormatDescriptionEvent().post_header_sizes)] = (
                FormatDescriptionEvent().post_header_sizes
            )
            sizes[EventType.GTID_EVENT - 1] = 19
            sizes[EventType.GTID_LIST_EVENT - 1] = 4
            description = FormatDescriptionEvent(
                server_version=version.ljust(50, b"\0"),
                create_timestamp=created,
                checksum_algorithm=algorithm,
                post_header_sizes=bytes(sizes),
            )
        self.format: BinlogFormat = description.format
        self.data = b"\xfebin"
        self.next_number = first
        self.events: list[bytes] = []
        self.add(EventType.FORMAT_DESCRIPTION_EVENT, description)
        if mariadb:
            have = [MariadbGtid(0, SERVER_ID, first - 1)] if first > 1 else []
            self.add(EventType.GTID_LIST_EVENT, gtid_list(MariadbGtidSet(have)))
        else:
            have_text = f"{SOURCE_UUID}:1-{first - 1}" if first > 1 else ""
            self.add(
                EventType.PREVIOUS_GTIDS_LOG_EVENT,
                PreviousGtidsEvent(GtidSet.parse(have_text).encode()),
            )

    def event(self, code: int, body: object) -> bytes:
        draft = BinlogEvent(EventHeader(TIMESTAMP, code, SERVER_ID, 0, 0, 0), body)
        size = len(encode_event(draft, self.format))
        header = EventHeader(TIMESTAMP, code, SERVER_ID, size, len(self.data) + size, 0)
        return encode_event(BinlogEvent(header, body), self.format)

    def add(self, code: int, body: object) -> bytes:
        data = self.event(code, body)
        self.data += data
        self.events.append(data)
        return data

    def transaction(self, size: int = 30) -> list[bytes]:
        """Adds one; returns its events."""
        number = self.next_number
        self.next_number += 1
        start = len(self.events)
        if self.mariadb:
            self.add(EventType.GTID_EVENT, MariadbGtidEvent(number, 0, _TRANSACTION_STANDALONE))
        else:
            self.add(EventType.GTID_LOG_EVENT, GtidEvent(1, UUID(SOURCE_UUID).bytes, number))
        self.query(b"BEGIN")
        self.query(b"INSERT INTO t VALUES ('" + bytes([97 + number % 26]) * size + b"')")
        self.add(EventType.XID_EVENT, XidEvent(number))
        return self.events[start:]

    def query(self, text: bytes) -> bytes:
        return self.add(EventType.QUERY_EVENT, QueryEvent(5, 0, 0, b"", b"shop", text))

    def rotate(self, name: str) -> bytes:
        return self.add(EventType.ROTATE_EVENT, RotateEvent(4, name))

    def save(self, path: Path) -> Path:
        path.write_bytes(self.data)
        return path


def two_files(
    directory: Path, *, mariadb: bool = False, checksum: bool = True, transactions: int = 5
) -> list[Path]:
    """binlog.000001 with GTIDs 1 to n, binlog.000002 with as many more."""
    first = BinlogMaker(mariadb=mariadb, checksum=checksum)
    for _ in range(transactions):
        first.transaction()
    first.rotate("binlog.000002")
    second = BinlogMaker(mariadb=mariadb, checksum=checksum, first=transactions + 1)
    for _ in range(transactions):
        second.transaction()
    return [
        first.save(directory / "binlog.000001"),
        second.save(directory / "binlog.000002"),
    ]


def type_of(event: bytes) -> int:
    return event[4]


def next_position_of(event: bytes) -> int:
    value: int = struct.unpack_from("<I", event, 13)[0]
    return value


def is_artificial(event: bytes) -> bool:
    return bool(struct.unpack_from("<H", event, 17)[0] & 0x20)


def events_in(path: Path) -> list[bytes]:
    """The events of a file, by their own sizes."""
    data = path.read_bytes()
    out = []
    at = 4
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 9)[0]
        out.append(data[at : at + size])
        at += size
    return out
