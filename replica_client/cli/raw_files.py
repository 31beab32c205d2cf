"""Binlog files as the bytes of their events, for commands that look at bytes."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from replica_client.binlog.encryption_mysql import decrypt_file
from replica_client.binlog.file_scan import MAGIC_SIZE, FileKind, HeaderScan, file_kind
from replica_client.cli.sources import binlog_paths
from replica_client.errors import BinlogDecodeError
from replica_client.readers.file_bytes import binlog_files


def files_of(sources: Sequence[str]) -> list[Path]:
    """The binlog files that paths and directories name, in order."""
    return [
        file.path
        for path in binlog_paths(sources)
        for file in binlog_files(path)
        if file.path is not None
    ]


@contextmanager
def opened(path: Path) -> Iterator[memoryview]:
    """The bytes of a file, read as they are touched.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            yield view


def raw_events(
    data: memoryview, file: str, keys: Mapping[str, bytes]
) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each whole event, in order; MariaDB's are still encrypted.

    Raises:
        BinlogDecodeError: not a binlog, encrypted with a key that is not in ``keys``, or the file
            ends inside an event (after all events before that were given).
    """
    try:
        if file_kind(data[:MAGIC_SIZE]) is FileKind.ENCRYPTED:
            data = memoryview(decrypt_file(bytes(data), keys))
        scan = HeaderScan(data)
        for position, header in scan:
            yield position, bytes(data[position : position + header.event_size])
        scan.raise_if_truncated()
    except BinlogDecodeError as error:
        raise error.at(file=file) from error.__cause__
