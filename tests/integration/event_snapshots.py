"""A daemon that copies tables into a sink of events while they change, killed in the middle; its events are replayed.

Used by scripts/proofs/event_snapshot (long) and by test_event_snapshots.py (short).
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.daemon_process import DaemonProcess
from tests.integration.first_copies import DATABASE, CopyWorkload, fill
from tests.servers.local import LocalServer

_LONGEST_LAG = 2.0
Table = dict[Any, dict[str, Any]]


@dataclass
class Replayed:
    """What a consumer has that applies the lines of the native format in order.

    Attributes:
        tables: rows by table and key; those of a table without key are numbered.
        snapshot_rows: lines of rows of snapshots.
        changes: lines of changes of the stream.
        again: lines that came before.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    snapshot_rows: int = 0
    changes: int = 0
    again: int = 0

    def take(self, lines: Iterable[str]) -> None:
        """Apply lines.

        Raises:
            AssertionError: a row goes back: a snapshot has it where the stream had something newer.
        """
        seen: set[tuple[Any, ...]] = set()
        positions: dict[tuple[str, Any], tuple[str, int]] = {}
        for line in lines:
            one = json.loads(line)
            kind, table = one["kind"], one["table"]
            at = (one["file"], one["position"], one["event_index"], one["row_index"], kind, table)
            if kind != "snapshot":
                if at in seen:
                    self.again += 1
                    continue
                seen.add(at)
            rows = self.tables.setdefault(table, {})
            if kind in ("insert", "update", "delete", "snapshot"):
                self._row(one, rows, kind)
                key = (table, _key(table, one["before"] if kind == "delete" else one["after"], 0))
                place = (one["file"], one["position"])
                if kind == "snapshot":
                    # Everything before this place is in the row.
                    assert place >= positions.get(key, ("", 0)), f"{key} goes back: {line}"
                positions[key] = place
            elif kind in ("truncate_table", "drop_table", "create_table"):
                self.tables[table] = {}
            elif "new_table" in one:
                self.tables[one["new_table"]] = self.tables.pop(table)
                positions.clear()

    def _row(self, one: dict[str, Any], rows: Table, kind: str) -> None:
        before, after, table = one["before"], one["after"], one["table"]
        if kind == "snapshot":
            self.snapshot_rows += 1
        else:
            self.changes += 1
        if before is not None:
            rows.pop(_key(table, before, 0), None)
        if after is not None:
            rows[_key(table, after, len(rows))] = after


def _key(table: str, row: dict[str, Any], number: int) -> Any:
    return number if table == "keyless" else row["id"]


def compare(replayed: Replayed, source: LocalServer) -> int:
    """Compare what a consumer has with the source; how many rows that is.

    Raises:
        AssertionError: they differ.
    """
    count = 0
    names = [row[0] for row in source.query(f"SHOW TABLES FROM {DATABASE}")]
    for name in names:
        columns = ["n", "t"] if name == "keyless" else ["id", "n", "t"]
        there = {row[0] for row in source.query(f"SHOW COLUMNS FROM {DATABASE}.{name}")}
        columns = [one for one in columns if one in there]
        found = source.query(f"SELECT {', '.join(columns)} FROM {DATABASE}.{name}")
        wanted = Counter(map(tuple, found))
        given = Counter(
            tuple(row[column] for column in columns)
            for row in replayed.tables.get(name, {}).values()
        )
        lacking, more = list((wanted - given).items()), list((given - wanted).items())
        assert wanted == given, f"{name}: lacks {len(lacking)} {lacking[:3]}, has {more[:3]} more"
        count += len(found)
    return count


@dataclass
class SnapshotReport:
    """What a proof saw.

    Attributes:
        kills: of the daemon.
        while_copying: those of them that fell into the snapshot.
        rows: that the source has at the end.
        copied: lines of rows of snapshots.
        again: lines of the stream that came twice.
    """

    kills: int = 0
    while_copying: int = 0
    transactions: int = 0
    rows: int = 0
    copied: int = 0
    again: int = 0


def prove_snapshot(
    source: LocalServer,
    directory: Path,
    options: dict[str, Any],
    read: Callable[[], Iterable[str]],
    *,
    kills: int,
    seed: int,
    rows: int,
    pause: float = 0.005,
    sessions: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> SnapshotReport:
    """Copy under load, kill the daemon again and again, replay the events, and compare with the source.

    Args:
        source: where the tables are made.
        directory: of the daemon.
        options: of the sink.
        read: the lines of the native format that the sink holds, in order.
        kills: how many.
        seed: of workload and kills.
        rows: half as many are in each table at first.
        pause: mean seconds between two transactions of a session.
        sessions: that write at the same time.
        say: takes a line about what was done.

    Raises:
        AssertionError: a consumer of the events has not what the source has.
    """
    chance, begun, report = random.Random(seed), time.monotonic(), SnapshotReport()
    fill(source, rows, has_small=sessions > 1)
    sink = {
        "name": "events",
        "snapshot": True,
        "snapshot_rows": max(50, rows // 40),
        "batch_seconds": 0.05,
        "retry_seconds": 1.0,
        **options,
    }
    settings = {
        "url": source.url(),
        "tables": [f"{DATABASE}.*"],
        "heartbeat": 1.0,
        "part_size": "64k",
    }
    daemon = DaemonProcess(directory, settings, [sink])
    workload = CopyWorkload(source, seed, rows, pause=pause, sessions=sessions)

    def paced(condition: Callable[[DaemonProcess], bool]) -> Callable[[DaemonProcess], bool]:
        """Let the source rest where it writes faster than the sink takes it: no chunk is written before it is level."""

        def look(one: DaemonProcess) -> bool:
            lag = one.route("events")["lag_seconds"] or 0.0
            if lag > _LONGEST_LAG:
                workload.rests.set()
            elif lag < _LONGEST_LAG / 4:
                workload.rests.clear()
            return condition(one)

        return look

    with daemon:
        workload.start()
        try:
            for number in range(kills):
                daemon.until(lambda one: bool(one.status()["routes"]), 120)
                if number % 2 == 0:
                    daemon.until(paced(_copies_or_is_done), 120)
                time.sleep(chance.random() * chance.choice((0.1, 0.4, 1.5)))
                report.while_copying += bool(daemon.route("events")["copying"])
                daemon.kill()
                daemon.start()
                report.kills += 1
                assert workload.error is None, workload.error
            daemon.until(paced(is_done), 180)
        finally:
            workload.halt.set()
            workload.join(60)
        assert workload.error is None, workload.error
        source.execute(f"INSERT INTO {DATABASE}.keyless VALUES (99, 'end')")
        daemon.until_level(180)
        daemon.until(is_done, 180)
        assert daemon.stop() == 0, daemon.tail()
    replayed = Replayed()
    replayed.take(read())
    report.rows = compare(replayed, source)
    report.transactions, report.copied = workload.transactions, replayed.snapshot_rows
    report.again = replayed.again
    say(
        f"{options['type']} from {source.name}: {report.kills} kills, {report.while_copying} of them while it "
        f"copied, {report.transactions} transactions, {report.copied} rows of snapshots and {replayed.changes} "
        f"changes, {report.again} again, replayed to {report.rows} rows equal to the source, "
        f"{time.monotonic() - begun:.0f} s, seed {seed}"
    )
    return report


def is_done(daemon: DaemonProcess) -> bool:
    """Whether the snapshot is written."""
    route = daemon.route("events")
    assert route["state"] != "failed", route["error"]
    return bool(route["state"] == "streaming" and route["snapshot_tables"] == 0)


def _copies_or_is_done(daemon: DaemonProcess) -> bool:
    route = daemon.route("events")
    return bool(route["copying"]) or route["snapshot_tables"] == 0
