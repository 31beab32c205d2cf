"""A sink that keeps lines in memory, as a disk would: what is committed outlives the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from replica_client.errors import SinkError
from replica_client.rows.json_values import change_to_json
from replica_client.sinks.protocol import Guarantee
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.transaction import Transaction


@dataclass
class Disk:
    """What is committed, and what shall go wrong.

    Attributes:
        lines: committed changes.
        commits: how many lines each commit had, and whether a schema change was among them.
        before_write: called with each transaction; may raise.
        before_commit: called with what is not committed yet; may raise.
        delay: seconds that a commit takes.
        write_delay: seconds that a write takes.
    """

    holds: bool = True
    lines: list[str] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    commits: list[tuple[int, bool]] = field(default_factory=list)
    opened: int = 0
    is_open: bool = False
    before_open: Callable[[], None] = lambda: None
    before_write: Callable[[Transaction], None] = lambda transaction: None
    before_commit: Callable[[list[Transaction]], None] = lambda transactions: None
    delay: float = 0.0
    write_delay: float = 0.0


DISKS: dict[str, Disk] = {}


class MemorySink:
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.holds_position = disk.holds
        self.waiting: list[Transaction] = []
        self.since_commit = 0

    async def open(self) -> Checkpoint | None:
        assert not self.disk.is_open, "opened twice"
        self.disk.opened += 1
        self.disk.before_open()
        self.disk.is_open = True
        return self.disk.checkpoint

    async def write(self, transaction: Transaction) -> None:
        await asyncio.sleep(self.disk.write_delay)
        self.disk.before_write(transaction)
        if transaction.schema_changes:
            assert not self.waiting, "a schema change does not stand alone"
        if transaction.part == 0 and not transaction.complete:
            assert not self.waiting, "a large transaction begins behind what is not committed"
        self.waiting.append(transaction)

    async def commit(self, checkpoint: Checkpoint) -> None:
        assert all(
            one.complete or at + 1 < len(self.waiting) for at, one in enumerate(self.waiting)
        ), "a commit inside a transaction"
        assert not checkpoint.position.inside_transaction
        await asyncio.sleep(self.disk.delay)
        self.disk.before_commit(self.waiting)
        lines = [change_to_json(change) for one in self.waiting for change in one.changes]
        self.disk.lines += lines
        self.disk.commits.append((len(lines), any(one.schema_changes for one in self.waiting)))
        self.disk.checkpoint = checkpoint if self.disk.holds else None
        self.waiting = []

    async def close(self) -> None:
        self.disk.is_open = False


def make(table: Mapping[str, object]) -> MemorySink:
    unknown = set(table) - {"disk", "password"}
    if unknown:
        raise SinkError(f"unknown {unknown}")
    return MemorySink(DISKS[str(table["disk"])])
