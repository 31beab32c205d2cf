"""What readers deliver of random XA transactions must be what was committed, in that order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replica_client import (
    AssemblyOptions,
    Change,
    Position,
    Selection,
    Transaction,
    connect,
    open_binlog,
)
from replica_client.errors import ReplicaClientError
from tests.integration.mix_kills import Killer
from tests.integration.xa_workload import DATABASE, Mark, Step, XaWorkload
from tests.servers.local import LocalServer

PATTERN = f"{DATABASE}.*"


@dataclass
class XaReport:
    """What a proof saw.

    Attributes:
        readings: how often everything behind some position was read.
        rows: row changes that were compared.
        faults: what was wrong.
    """

    readings: int = 0
    rows: int = 0
    kills: int = 0
    faults: list[str] = field(default_factory=list)

    def compare(
        self, reader: str, found: Sequence[list[Step]], wanted: Sequence[list[Step]]
    ) -> None:
        """Compare delivered transactions with committed ones."""
        self.readings += 1
        self.rows += sum(map(len, found))
        for at, (one, other) in enumerate(zip(found, wanted, strict=False)):
            if one != other:
                self.faults.append(
                    f"{reader}: transaction {at}: {str(one)[:500]}, committed {str(other)[:500]}"
                )
                return
        if len(found) != len(wanted):
            longer = (found if len(found) > len(wanted) else wanted)[min(len(found), len(wanted))]
            self.faults.append(
                f"{reader}: {len(found)} delivered, {len(wanted)} committed; then {str(longer)[:500]}"
            )


def step_of(change: Change) -> Step:
    """A delivered change as the workload writes it down."""
    rows = [
        None if row is None else (row["id"], row["n"], row["t"])
        for row in (change.before, change.after)
    ]
    return (change.kind, change.table, *rows)  # type: ignore[return-value]


def grouped(transactions: Iterable[Transaction]) -> list[list[Step]]:
    """The changes of each transaction that has any, parts put together."""
    found: list[list[Step]] = []
    begun = False
    for transaction in transactions:
        steps = [step_of(change) for change in transaction.changes]
        if begun:
            found[-1] += steps
        elif steps:
            found.append(steps)
        begun = not transaction.complete and bool(steps or begun)
    return found


def read_files(paths: Sequence[Path], start: tuple[str, int], seed: int | None) -> list[list[Step]]:
    """Read files from a position on; with a seed, in small parts, stopped and resumed."""
    return grouped(_transactions(paths, Position(*start), seed))


def _transactions(
    paths: Sequence[Path], position: Position, seed: int | None
) -> Iterator[Transaction]:
    rng = random.Random(seed)
    while True:
        size = {} if seed is None else {"part_size": rng.choice((1, 200, 1 << 20))}
        reader = open_binlog(
            paths, start=position, assembly=AssemblyOptions(Selection(PATTERN), **size)
        )
        count = 1 << 60 if seed is None else rng.randint(1, 80)
        for transaction in reader.transactions():
            yield transaction
            position, count = transaction.position, count - 1
            if not count:
                break
        else:
            return


async def read_live(server: LocalServer, start: tuple[str, int]) -> list[list[Step]]:
    """Read the source from a position to its end."""
    found = []
    async with connect(
        server.url(), tables=PATTERN, start=Position(*start), stop_at_end=True
    ) as stream:
        async for transaction in stream.transactions():
            found.append(transaction)
    return grouped(found)


def prove_xa(
    server: LocalServer, directory: Path, seed: int, count: int, *, kills: int = 0
) -> tuple[XaReport, XaWorkload]:
    """Run XA transactions; read files, the source, and with clients that are killed meanwhile."""
    report = XaReport()
    work = XaWorkload(server, seed)
    work.start()
    killer = Killer(server, directory, kills, seed, PATTERN) if kills else None
    if killer is not None:
        killer.start()
    try:
        while work.ended < count:
            work.step()
        work.finish()
    finally:
        if killer is not None:
            killer.finish()
    first = work.marks[0]
    paths = [server.binlog_path(name) for name in server.binlog_files()]
    for mark in _chosen(work.marks):
        wanted = work.committed[mark.committed :]
        where = f"from {mark.position} with {mark.prepared} prepared before"
        for reader, resume in (("files", None), ("files, resumed", seed)):
            try:
                found = read_files(paths, mark.position, resume)
            except ReplicaClientError as error:
                report.faults.append(f"{reader} {where}: {type(error).__name__}: {error}")
            else:
                report.compare(f"{reader} {where}", found, wanted)
        try:
            report.compare(f"live {where}", asyncio.run(read_live(server, mark.position)), wanted)
        except ReplicaClientError as error:
            report.faults.append(f"live {where}: {type(error).__name__}: {error}")
    if killer is not None:
        report.kills = killer.kills
        _check_killed(killer, paths, first, report)
    for table, rows in work.tables.items():
        there = server.query(f"SELECT id, n, t FROM {DATABASE}.{table}")
        assert {one[0]: one for one in there} == rows, f"the workload is wrong about {table}"
    return report, work


def _chosen(marks: list[Mark], most: int = 12) -> list[Mark]:
    return [marks[at * len(marks) // most] for at in range(most)] if len(marks) > most else marks


def _check_killed(killer: Killer, paths: Sequence[Path], first: Mark, report: XaReport) -> None:
    from replica_client.rows.json_values import change_to_json

    reader = open_binlog(paths, start=Position(*first.position), tables=PATTERN)
    try:
        truth = [change_to_json(change) for change in reader.changes()]
    except ReplicaClientError as error:
        report.faults.append(f"kills: {type(error).__name__}: {error}")
        return
    faults = killer.compare(truth)
    report.faults.extend(f"kills: {fault}" for fault in faults)
