"""The definition of one table by the table maps in files."""

from __future__ import annotations

from collections.abc import Iterator

from replica_client.archive.file_list import ListedFile
from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.options import DecodeOptions
from replica_client.constants.event_types import EventType
from replica_client.readers.files.file_bytes import BinlogFile, open_events

_WANTED = (
    EventType.FORMAT_DESCRIPTION_EVENT,
    EventType.START_ENCRYPTION_EVENT,
    EventType.TABLE_MAP_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
)

_NAMES_OFFSET = 27
"""Where the names of a table begin in its map, after the header, the table id and the flags."""
_CHECKSUM_SIZE = 4


def table_maps(
    file: ListedFile, database: str, table: str, options: DecodeOptions
) -> Iterator[tuple[BinlogEvent, BinlogDecoder]]:
    """Yield the table maps of a table in a file, with the decoder of their file.

    Raises:
        BinlogDecodeError: a fault in the file.
    """
    name = _name_bytes(database, table)
    decoder = BinlogDecoder(options, file.name)
    encrypted = False
    with BinlogFile(file.name, file.where).open() as stream:
        source = open_events(stream, file.name, options)
        while True:
            position = source.position
            if position >= file.size:
                return
            data = source.next_event(decoder.format.header_size, options.max_event_size)
            if data is None:
                return
            if not encrypted:
                if data[4] not in _WANTED:
                    continue
                if data[4] == EventType.TABLE_MAP_EVENT and name not in data:
                    continue
            encrypted = encrypted or data[4] == EventType.START_ENCRYPTION_EVENT
            event = decoder.decode(data, position, file.name)
            for found in (event, *_inside(event, decoder)):
                if found.header.type_code == EventType.TABLE_MAP_EVENT:
                    if (found.body.schema, found.body.table) == (database, table):
                        yield found, decoder


def table_names(file: ListedFile, options: DecodeOptions) -> Iterator[tuple[str, str]]:
    """Yield the database and name of the tables that have table maps in a file.

    Raises:
        BinlogDecodeError: a fault in the file.
    """
    decoder = BinlogDecoder(options, file.name)
    seen: set[bytes] = set()
    with BinlogFile(file.name, file.where).open() as stream:
        source = open_events(stream, file.name, options)
        while (position := source.position) < file.size:
            data = source.next_event(decoder.format.header_size, options.max_event_size)
            if data is None:
                return
            if data[4] not in _WANTED:
                continue
            # The map of a table differs from the one before in its head, its table id and its checksum.
            if data[4] == EventType.TABLE_MAP_EVENT:
                body = bytes(data[_NAMES_OFFSET:-_CHECKSUM_SIZE])
                if body in seen:
                    continue
                seen.add(body)
            event = decoder.decode(data, position, file.name)
            for found in (event, *_inside(event, decoder)):
                if found.header.type_code == EventType.TABLE_MAP_EVENT:
                    yield found.body.schema, found.body.table


def _inside(event: BinlogEvent, decoder: BinlogDecoder) -> Iterator[BinlogEvent]:
    if event.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
        yield from decoder.inner_events(event)


def _name_bytes(database: str, table: str) -> bytes:
    """Return the bytes by which a table map names a table."""
    names = [name.encode("utf-8", "surrogateescape") for name in (database, table)]
    return b"".join(bytes((len(name),)) + name + b"\0" for name in names)
