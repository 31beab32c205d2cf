"""What thousands of tables cost: to open a stream, to its first row, to save, to save after a DDL.

Used by scripts/proofs/tables (long) and by test_many_tables.py (short).
"""

from __future__ import annotations

import asyncio
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import replica_client as rc
from tests.servers.local import LocalServer

COLUMNS = ", ".join(
    f"c{number} VARCHAR(40) DEFAULT 'value {number}' COMMENT 'the column of number {number}'"
    for number in range(8)
)


@dataclass
class Costs:
    """Seconds, but for memory, which is in MiB.

    Attributes:
        tables: how many there are.
        opened: a stream of all tables at "latest" is open, and its start is saved.
        one_opened: the same of one wanted table.
        first_row: a row of a stream of all tables came, from the time it was written.
        save: of a position, at most of several.
        save_after_ddl: of each position behind a DDL.
        state_after_ddl: of these, what acknowledge() took.
        processor_after_ddl: what the processor did of these.
        reopened: a stream of all tables is open at the saved position.
        memory: of this process at most.
        size: bytes of the position's files.
    """

    tables: int
    opened: float = 0.0
    one_opened: float = 0.0
    first_row: float = 0.0
    save: float = 0.0
    save_after_ddl: list[float] = field(default_factory=list)
    state_after_ddl: list[float] = field(default_factory=list)
    processor_after_ddl: list[float] = field(default_factory=list)
    reopened: float = 0.0
    memory: float = 0.0
    size: int = 0

    def __str__(self) -> str:
        ddl, state = sorted(self.save_after_ddl), sorted(self.state_after_ddl)
        processor = sorted(self.processor_after_ddl)
        return (
            f"{self.tables} tables: open {self.opened:.2f} s, of one wanted table {self.one_opened:.2f} s, at a "
            f"saved position {self.reopened:.2f} s, first row {self.first_row * 1e3:.0f} ms, save "
            f"{self.save * 1e3:.1f} ms, save after a DDL {ddl[len(ddl) // 2] * 1e3:.1f} ms (most "
            f"{ddl[-1] * 1e3:.1f}), of which acknowledge() {state[len(state) // 2] * 1e3:.2f} ms "
            f"(most {state[-1] * 1e3:.2f}), and {processor[len(processor) // 2] * 1e3:.2f} ms of processor, "
            f"{self.memory:.0f} MiB; the position's files {self.size / 1024:.0f} KiB"
        )


def make_tables(
    server: LocalServer, database: str, first: int, last: int, engine: str, sessions: int = 1
) -> None:
    """Make tables ``t<number>``, in some sessions at once."""
    server.execute(f"CREATE DATABASE IF NOT EXISTS {database}")

    def make(begin: int) -> None:
        with server.connected() as connection, connection.cursor() as cursor:
            for number in range(begin, last, sessions):
                cursor.execute(
                    f"CREATE TABLE {database}.t{number} (id INT PRIMARY KEY, {COLUMNS}) ENGINE={engine}"
                )

    with ThreadPoolExecutor(sessions) as pool:
        list(pool.map(make, range(first, first + sessions)))


async def measure(server: LocalServer, database: str, count: int, directory: Path) -> Costs:
    """Measure with the tables that there are."""
    costs = Costs(count)
    url, store = server.url(), directory / f"{count}.position"
    begun = time.perf_counter()
    async with rc.connect(
        url, tables=[f"{database}.t7"], position_store=directory / f"{count}.one"
    ):
        costs.one_opened = time.perf_counter() - begun
    begun = time.perf_counter()
    async with rc.connect(url, tables=[f"{database}.*"], position_store=store) as stream:
        costs.opened = time.perf_counter() - begun
        transactions = stream.transactions()
        for step in range(20):
            begun = time.perf_counter()
            if step % 2:
                server.execute(f"ALTER TABLE {database}.t{step} ADD x{count} INT")
            else:
                server.execute(f"INSERT INTO {database}.t{step} (id) VALUES ({count})")
            while True:
                transaction = await anext(transactions)
                if transaction.rows or transaction.schema_changes:
                    break
            if not step:
                costs.first_row = time.perf_counter() - begun
            begun, processor = time.perf_counter(), time.process_time()
            await stream.acknowledge(transaction.position)
            state = time.perf_counter() - begun
            await stream.flush()
            spent = time.perf_counter() - begun
            if step % 2:
                costs.processor_after_ddl.append(time.process_time() - processor)
                costs.save_after_ddl.append(spent)
                costs.state_after_ddl.append(state)
            else:
                costs.save = max(costs.save, spent)
    begun = time.perf_counter()
    async with rc.connect(url, tables=[f"{database}.*"], position_store=store) as stream:
        costs.reopened = time.perf_counter() - begun
        assert len([one for one in stream.history.known_tables() if one[0] == database]) == count
    costs.size = _size(directory, store.name)
    costs.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return costs


def _size(directory: Path, name: str) -> int:
    return sum(one.stat().st_size for one in directory.glob(f"{name}*"))


async def acknowledge_while_tables_are_made(
    server: LocalServer, database: str, count: int, directory: Path, engine: str
) -> float:
    """Seconds of processor that following and acknowledging the making of tables takes."""
    server.execute(f"CREATE DATABASE {database}")
    start = rc.Position(*server.binlog_position())
    await asyncio.to_thread(make_tables, server, database, 0, count, engine)
    begun = time.process_time()
    options = {"start": start, "stop_at_end": True, "position_store": directory / "made"}
    async with rc.connect(server.url(), tables=[f"{database}.*"], **options) as stream:
        async for transaction in stream.transactions():
            await stream.acknowledge(transaction.position)
    return time.process_time() - begun
