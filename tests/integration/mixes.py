"""Epochs of mixed statements on a real server, read from its binlog files, and compared with SELECT.

Used by scripts/proofs/mixes (long) and by test_mixes.py (short).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replica_client import AssemblyOptions, Position, Selection, open_binlog
from replica_client.errors import ReplicaClientError
from replica_client.schema.history import STATE_KEY, SchemaHistory
from tests.integration.mix_generator import Mixer
from tests.integration.mix_sessions import OBSERVER, Entry, Sessions, Snapshot
from tests.integration.mix_settings import global_settings, session_settings, unsaid_replaces
from tests.integration.mix_state import Checker, Record
from tests.servers.local import LocalServer

PATTERN = "mix*.*"
_UNDECIDED = "the character set of its text is not known"
SIGNALS = "mixsignals"
"""A database that tells live readers how far they should be."""


@dataclass
class Epoch:
    """Some transactions in databases of their own.

    Attributes:
        seed: of its random numbers.
        start: before its first statement.
        log: its statements.
        refused: see :class:`~tests.integration.mix_sessions.Sessions`.
        snapshots: see there.
        done: how often each kind of statement was done.
        transactions: how many were ended.
        unselected: how often a table could not be selected, and is not compared.
    """

    seed: int
    databases: tuple[str, str]
    start: tuple[str, int]
    log: list[Entry]
    refused: dict[int, str]
    snapshots: list[Snapshot]
    done: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    unselected: int = 0

    @property
    def end(self) -> tuple[str, int]:
        return self.snapshots[-1].position if self.snapshots else self.start

    def around(self, entry: int, before: int = 12) -> str:
        """The statements before and at a number, as text."""
        lines = []
        for number in range(max(0, entry - before), min(entry + 2, len(self.log))):
            refusal = f"  -- {self.refused[number]}" if number in self.refused else ""
            lines.append(f"      {number}: {str(self.log[number])[:400]}{refusal[:160]}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Fault:
    """What was wrong with an epoch as one reader gave it.

    Attributes:
        reader: which.
        seed: of the epoch.
        entry: the number of its statement.
        kind: what is wrong, without where.
        text: what is wrong.
    """

    reader: str
    seed: int
    entry: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.reader}, statement {self.entry}: {self.kind}: {self.text}"


@dataclass
class Report:
    """What a proof saw.

    Attributes:
        unreadable: compared tables with labels that are no text.
        unselected: tables that SELECT refused, which are not compared.
        undecided: stops because nothing tells a character set, as is so: the definition takes it from a
            database whose default was changed meanwhile, neither the binlog nor the source has it.
    """

    epochs: int = 0
    transactions: int = 0
    statements: int = 0
    rows: int = 0
    compared: int = 0
    resumes: int = 0
    unreadable: int = 0
    unselected: int = 0
    done: Counter[str] = field(default_factory=Counter)
    differences: list[Fault] = field(default_factory=list)
    stops: list[Fault] = field(default_factory=list)
    undecided: list[Fault] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.epochs} epochs, {self.transactions} transactions of {self.statements} statements, "
            f"{self.rows} row changes taken, {self.compared} tables compared with SELECT, "
            f"{self.unreadable} of them with labels that are no text, {self.unselected} that SELECT refused, "
            f"{self.resumes} resumes, "
            f"{len(self.undecided)} stops where nothing tells a character set, "
            f"{len(self.differences)} differences, {len(self.stops)} needless stops"
        )

    def take(self, reader: str, checker: Checker, stop: Exception | None = None) -> None:
        """Count what a reader gave."""
        self.rows += checker.rows
        self.compared += checker.compared
        self.unreadable += checker.unreadable
        for one in checker.differences:
            self.differences.append(Fault(reader, one.seed, one.entry, one.kind, one.text))
        if stop is not None:
            self.stop(Fault(reader, *checker.position, type(stop).__name__, str(stop)))

    def stop(self, fault: Fault) -> None:
        """Count what ended a reader."""
        (self.undecided if _UNDECIDED in fault.text else self.stops).append(fault)


def casefolds(server: LocalServer) -> bool:
    """Whether the server's names of tables have no letter case."""
    return str(server.query("SELECT @@lower_case_table_names")[0][0]) != "0"


def beginning(casefold: bool) -> SchemaHistory:
    """What files do not tell: whether letter case tells tables apart."""
    return SchemaHistory(lower_case_names=casefold)


def write_epoch(
    server: LocalServer, seed: int, transactions: int, without: frozenset[str] = frozenset()
) -> Epoch:
    """Run random statements until that many transactions have ended."""
    rng = random.Random(seed)
    databases = (f"mix{seed}", f"mix{seed}b")
    any_case = random.Random(seed) if casefolds(server) and "more" not in without else None
    sessions = Sessions(server, 3, databases, session_settings(server), seed, any_case)
    try:
        for sql in global_settings(server, rng):
            sessions.run(OBSERVER, sql)
        without |= unsaid_replaces(server)
        start = sessions.position
        mixer = Mixer(sessions, rng, without)
        mixer.start()
        while mixer.transactions < transactions:
            mixer.step()
        mixer.end()
        return Epoch(
            seed, databases, start, sessions.log, sessions.refused, sessions.snapshots,
            mixer.done, mixer.transactions, sessions.unselected,
        )  # fmt: skip
    finally:
        sessions.close()
        drop_databases(server, databases)


def replay_epoch(server: LocalServer, epoch: Epoch, entries: Sequence[Entry]) -> Epoch:
    """Run statements of an epoch again."""
    drop_databases(server, epoch.databases)
    sessions = Sessions(server, 3, epoch.databases, session_settings(server), epoch.seed)
    try:
        start = sessions.position
        for entry in entries:
            sessions.replay(entry)
        sessions.finish_prepared()
        return Epoch(
            epoch.seed, epoch.databases, start, sessions.log, sessions.refused, sessions.snapshots
        )
    finally:
        sessions.close()


def drop_databases(server: LocalServer, databases: Sequence[str]) -> None:
    """Drop the databases of an epoch."""
    for database in databases:
        server.execute(f"DROP DATABASE IF EXISTS `{database}`")


def files_of(server: LocalServer, start: tuple[str, int], end: tuple[str, int]) -> list[Path]:
    """The binlog files between two positions."""
    files = server.binlog_files()
    return [server.binlog_path(n) for n in files[files.index(start[0]) : files.index(end[0]) + 1]]


def check_files(
    paths: Sequence[Path],
    epoch: Epoch,
    report: Report,
    *,
    resume: int | None = None,
    casefold: bool = False,
) -> None:
    """Read an epoch from files and compare; with a seed, in small parts and resumed again and again."""
    checker = Checker(epoch.snapshots, casefold)
    stop: Exception | None = None
    try:
        for record in _read(paths, epoch, report, resume, casefold):
            checker.feed(record)
        checker.finish()
    except ReplicaClientError as error:
        stop = error
    report.take("files" if resume is None else "files, resumed", checker, stop)


def _read(
    paths: Sequence[Path], epoch: Epoch, report: Report, seed: int | None, casefold: bool
) -> Iterator[Record]:
    rng = random.Random(seed)
    position, state = Position(*epoch.start), None
    while True:
        options = AssemblyOptions(
            Selection(PATTERN),
            on_unknown_table="error",
            **({} if seed is None else {"part_size": rng.choice((1, 300, 1 << 20))}),
        )
        reader = open_binlog(
            paths,
            start=position,
            stop=Position(*epoch.end),
            schema=beginning(casefold) if state is None else SchemaHistory.from_state(state),
            assembly=options,
        )
        count = rng.randint(1, 60) if seed is not None else 1 << 60
        for transaction in reader.transactions():
            yield Record.of(transaction)
            position, count = transaction.position, count - 1
            if not count:
                state = reader.state()[STATE_KEY]
                report.resumes += 1
                break
        else:
            return


def prove_files(
    server: LocalServer,
    seeds: Sequence[int],
    transactions: int,
    report: Report,
    without: frozenset[str] = frozenset(),
    begins: Callable[[], None] = lambda: None,
) -> list[Epoch]:
    """Write epochs, and read each from its files; ``begins`` is called before each."""
    epochs = []
    casefold = casefolds(server)
    for seed in seeds:
        begins()
        epoch = write_epoch(server, seed, transactions, without)
        epochs.append(epoch)
        report.epochs += 1
        report.transactions += epoch.transactions
        report.statements += len(epoch.log)
        report.unselected += epoch.unselected
        report.done.update(epoch.done)
        paths = files_of(server, epoch.start, epoch.end)
        check_files(paths, epoch, report, casefold=casefold)
        check_files(paths, epoch, report, resume=seed, casefold=casefold)
    return epochs
