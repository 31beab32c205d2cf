"""The files of a range of a source's binlog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.errors import ConfigError
from replica_client.position.position import Position
from replica_client.readers.files.file_bytes import BinlogFile


def files_between(
    files: Sequence[BinlogFile], begin: Position | None, end: Position | None
) -> Iterator[tuple[Position, BinlogFile]]:
    """Yield the files between two positions, each with the position where its reading begins.

    Raises:
        ConfigError: the file of the first position is not among them.
    """
    names = [file.name for file in files]
    if begin is not None and begin.file not in names:
        raise ConfigError(
            f"since {begin}: no such file among {', '.join(names[:5])}{' …' if names[5:] else ''}"
        )
    for file in files[names.index(begin.file) if begin is not None else 0 :]:
        start = Position(file.name, FIRST_EVENT)
        if begin is not None and begin.file == file.name and begin.offset > FIRST_EVENT:
            start = Position(file.name, begin.offset)
        if end is not None and start >= end:
            return
        yield start, file
