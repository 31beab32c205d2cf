"""Hands the transactions of a source's binlog files to a sink, as the daemon does."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client import Position, open_binlog
from replica_client.sinks.protocol import Sink
from replica_client.stream.position.stores.base import Checkpoint
from tests.servers.local import LocalServer


async def drive(
    sink: Sink,
    server: LocalServer,
    tables: Sequence[str],
    start: Position | str | None = None,
    *,
    commit_every: int = 50,
) -> Position | None:
    """Write what is behind the sink's checkpoint (or ``start``), commit, close; the end."""
    try:
        return await _drive(sink, server, tables, start, commit_every)
    finally:
        await sink.close()


async def _drive(
    sink: Sink,
    server: LocalServer,
    tables: Sequence[str],
    start: Position | str | None,
    commit_every: int,
) -> Position | None:
    checkpoint = await sink.open()
    begin = checkpoint.position if checkpoint is not None else start
    paths = [server.binlog_path(name) for name in server.binlog_files()]
    written, last = 0, None
    for transaction in open_binlog(paths, tables=list(tables), start=begin).transactions():
        if transaction.schema_changes and written and last is not None:
            await sink.commit(Checkpoint(last))
        await sink.write(transaction)
        written, last = written + 1, transaction.position
        if transaction.complete and (transaction.schema_changes or written >= commit_every):
            await sink.commit(Checkpoint(last))
            written = 0
    if written and last is not None:
        await sink.commit(Checkpoint(last))
    return last
