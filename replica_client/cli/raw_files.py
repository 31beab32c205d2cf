"""Binlog files as the bytes of their events, for commands that look at bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.cli.sources import binlog_paths
from replica_client.readers.files.file_bytes import binlog_files, in_order, open_events
from replica_client.storage.files import open_file
from replica_client.storage.location import Location


def files_of(sources: Sequence[str]) -> list[Location]:
    """The binlog files that paths and directories name, in order.

    Raises:
        typer.BadParameter: a source is a live one.
        OSError: a path is not there, or may not be read.
        ConfigError: a directory without binlog files.
    """
    found = [file for path in binlog_paths(sources) for file in binlog_files(path)]
    return [file.path for file in in_order(found, attrgetter("name")) if file.path is not None]


def raw_events(path: Location, decoder: BinlogDecoder) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each whole event; MariaDB's encrypted ones as they are in the file.

    Args:
        path: the file.
        decoder: decodes each event before the next one is asked for, so that it knows the layout.

    Raises:
        OSError: the file cannot be read.
        BinlogDecodeError: not a binlog, encrypted with a key that is not there, or the file ends
            inside an event (after all events before that were given).
    """
    with open_file(path) as stream:
        source = open_events(stream, path.name, decoder.options)
        while True:
            position = source.position
            data = source.next_event(decoder.format.header_size, decoder.options.max_event_size)
            if data is None:
                return
            yield position, data
