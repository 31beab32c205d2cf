"""A consistent first copy of tables, without a lock on the source, that the stream continues.

::

    async with await SourceConnection.open(options) as connection:
        start = await low_watermark(connection)      # the stream begins here
        async for chunk in snapshot(connection, tables):
            ...                                      # rows, and the window in which they were read

Where the stream changes a row of a chunk at ``chunk.window.low`` or later, the stream wins:
chunks are applied first, then all changes from the lowest low mark on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from replica_client.schema.model import TableModel
from replica_client.stream.snapshot.chunks import (
    Chunk,
    ChunkReading,
    KeyRange,
    can_be_cut,
    key_ranges,
    read_chunk,
    reading,
)
from replica_client.stream.snapshot.watermarks import (
    Locking,
    Window,
    begin_between,
    log_end,
    low_watermark,
)
from replica_client.stream.transport.connection import SourceConnection

DEFAULT_CHUNK_ROWS = 50_000


async def snapshot(
    connection: SourceConnection,
    tables: Iterable[TableModel],
    *,
    chunk_rows: int = DEFAULT_CHUNK_ROWS,
    locking: Locking = "never",
    after: tuple[str, str, KeyRange] | None = None,
) -> AsyncIterator[Chunk]:
    """Read all rows of tables in chunks, table by table in the given order.

    Args:
        connection: connection to the source.
        tables: the current definitions of the tables.
        chunk_rows: approximate number of rows of a chunk; a table whose key cannot be split is one
            chunk.
        locking: see :data:`Locking`.
        after: database, table and range of the last chunk that is done; reading continues after it.
    """
    resume = after
    for table in tables:
        if resume is not None and (table.database, table.name) != resume[:2]:
            continue
        done = resume[2].upto if resume is not None else None
        skipping, resume = resume is not None, None
        if skipping and done is None:
            continue  # its last chunk was done
        async for part in key_ranges(connection, table, chunk_rows, after=done):
            yield await read_chunk(connection, table, part, locking=locking)


__all__ = [
    "DEFAULT_CHUNK_ROWS",
    "Chunk",
    "ChunkReading",
    "KeyRange",
    "Locking",
    "Window",
    "begin_between",
    "can_be_cut",
    "key_ranges",
    "log_end",
    "low_watermark",
    "read_chunk",
    "reading",
    "snapshot",
]
