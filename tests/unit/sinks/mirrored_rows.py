"""What a mirror holds of a binlog, as mirrors are handed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replica_client.rows.selection import Selection
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.assembler import AssemblyOptions


async def mirrored(sink: Any, path: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """All rows that a mirror has of a binlog, as mirrors are handed values."""
    assembly = AssemblyOptions(Selection(["kinds.*"]))
    try:
        await sink.open()
        for transaction in open_binlog(path, assembly=assembly).transactions():
            await sink.write(transaction)
            if transaction.schema_changes:
                await sink.commit(Checkpoint(transaction.position))
        await sink.commit(Checkpoint(transaction.position))
        store = sink._store
        found = {}
        for name, model in store.tables.items():
            rows = sorted(store.rows(model, model.column_names), key=repr)
            found[name] = [dict(zip(model.column_names, row, strict=True)) for row in rows]
        return found
    finally:
        await sink.close()
