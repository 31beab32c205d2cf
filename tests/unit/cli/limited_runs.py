"""Runs of ``changes`` on files, with and without a limit, as the command does them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import replica_client as rc
from replica_client.cli.acknowledging import ChosenChanges
from replica_client.cli.file_changes import write_file_changes
from replica_client.rows.selection import Selection
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.transactions.assembler import AssemblyOptions


class _Taken:
    """An output that keeps the text of what it takes."""

    whole_at_end = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, transaction: rc.Transaction) -> None:
        self.lines += [_text(change) for change in transaction.changes]

    def write_change(self, transaction: rc.Transaction, rows: Any, change: rc.Change) -> None:
        self.lines.append(_text(change))

    def completed(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def discard(self) -> None:
        self.lines.clear()

    def finish(self) -> bool:
        return True


def _text(change: rc.Change) -> str:
    return f"{change.kind} {change.database}.{change.table} {change.before} {change.after}"


def run(
    files: list[Path],
    store: FilePositionStore | None,
    limit: int | None,
    part_size: int,
    tables: str = "*.*",
) -> list[str]:
    """One run of ``changes``, as the command does it."""
    saved = None if store is None else store.load_checkpoint()
    state: dict[str, Any] = dict(saved.state) if saved else {}
    reader = rc.open_binlog(
        files,
        start=None if saved is None else saved.position,
        schema=SchemaHistory.from_state(state[STATE_KEY]) if saved else None,
        losses=LossLedger.from_state(state.get(LOSSES_KEY, [])),
        prepared=PreparedLedger.from_state(state.get(PREPARED_KEY, [])),
        assembly=AssemblyOptions(
            Selection((tables,)), part_size=part_size, on_statement="deliver", record_losses="all"
        ),
    )
    taken = _Taken()
    write_file_changes(reader, ChosenChanges(taken, None, limit), store)
    return taken.lines


def all_runs(
    files: list[Path], path: Path, limit: int, part_size: int, tables: str = "*.*"
) -> Iterator[str]:
    """Runs with a limit, one after another, until one gives nothing."""
    store = FilePositionStore(path)
    while lines := run(files, store, limit, part_size, tables):
        assert len(lines) <= limit
        yield from lines
