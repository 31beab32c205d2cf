"""Random histories of statements and rows on a real server, decoded from the binlog and its history.

Every row that is written is selected before and after; later the binlog alone must give the same
names and values, whatever the tables look like by then. Used by scripts/proofs/ddl (long) and by
test_schema_histories.py (short).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql

from replica_client import open_binlog
from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.values.value_types import EnumValue, SetValue
from replica_client.protocol.codec.charsets import encode_text
from replica_client.protocol.constants.client_server import CHARSET_BY_COLLATION_ID
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import Unverified
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.transaction import Transaction
from tests.integration.ddl_generator import Col, Ddl, q
from tests.servers.local import LocalServer

_NUMBERS = {
    "tinyint": 100,
    "smallint": 30000,
    "mediumint": 8000000,
    "int": 2 * 10**9,
    "bigint": 9 * 10**18,
}


@dataclass
class Expected:
    """A statement that changed one row: what SELECT gave before and after."""

    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    loose: bool = False
    """A table with system versioning writes more rows: only the first is compared."""


@dataclass
class History:
    """One random history, and where it is in the binlog."""

    seed: int
    databases: tuple[str, str]
    start: tuple[str, int]
    end: tuple[str, int]
    expected: list[Expected]
    done: dict[str, int]


@dataclass
class Report:
    """What a proof saw."""

    histories: int = 0
    rows: int = 0
    statements: int = 0
    resumes: int = 0
    unreadable: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    """Statements that were not understood, and table maps that contradicted the history."""

    def __str__(self) -> str:
        return (
            f"{self.histories} histories, {len(self.kinds)} kinds of DDL, {self.statements} DDL "
            f"statements, {self.rows} row changes compared, {self.resumes} resumes, "
            f"{self.unreadable} values of labels that are no text, {len(self.differences)} differences, "
            f"{len(self.stops)} stops, {len(self.unverified)} definitions to be verified"
        )


class Writer:
    """Writes one history."""

    def __init__(self, server: LocalServer, seed: int) -> None:
        self.server, self.seed = server, seed
        self.rng = random.Random(seed)
        self.connection = server.connect(conv={}, use_unicode=False)
        self.expected: list[Expected] = []
        self.ddl = Ddl(server, self.connection, f"h{seed}", self.rng)
        self.ddl.run("SET time_zone = '+00:00'")
        self.ddl.run("SET sql_mode = ''")
        self.ddl.run("SET SESSION foreign_key_checks = 0")
        if server.flavor == "mariadb" or server.version < (8, 0):
            self.ddl.run("SET SESSION binlog_format = ROW")
        if server.flavor == "mariadb":
            self.ddl.run("SET system_versioning_alter_history = KEEP")

    def write(self, steps: int) -> History:
        start = self.server.binlog_position()
        self.ddl.start()
        for _ in range(steps):
            known = set(self.ddl.tables())
            self.ddl.step()
            self._new_tables(known)
            for _ in range(self.rng.randint(1, 3)):
                self._change()
        end = self.server.binlog_position()
        databases = (self.ddl.database, self.ddl.other)
        for database in databases:
            self.ddl.run(f"DROP DATABASE IF EXISTS {database}")
        self.connection.close()
        return History(self.seed, databases, start, end, self.expected, self.ddl.done)

    def _new_tables(self, known: set[tuple[str, str]]) -> None:
        """CREATE TABLE … SELECT writes the rows of the new table."""
        if self.ddl.done == getattr(self, "_seen", None):
            return
        count = self.ddl.done.get("ddl_create_select", 0)
        if count == getattr(self, "_selects", 0):
            return
        self._selects = count
        for table in set(self.ddl.tables()) - known:
            row = self._row(table)
            if row is not None:
                self.expected.append(Expected(".".join(table), None, row))

    def _columns(self, table: tuple[str, str]) -> list[str]:
        names = [column.name for column in self.ddl.columns(table)]
        if self._is_versioned(table) and not {"s", "e"} <= set(names):
            names += ["row_start", "row_end"]
        return names

    def _is_versioned(self, table: tuple[str, str]) -> bool:
        return self.ddl.ask(
            "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            *table,
        ) == [("SYSTEM VERSIONED",)]

    def _row(self, table: tuple[str, str]) -> dict[str, Any] | None:
        names = self._columns(table)
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {', '.join(map(q, names))} FROM {q(table[0])}.{q(table[1])} LIMIT 2"
            )
            rows = cursor.fetchall()
            kinds = [(one.type_code, one.charsetnr) for one in cursor._result.fields]
        if len(rows) > 1:
            raise AssertionError("a table has two rows")
        if not rows:
            return None
        return {
            name: _selected(value, *kind)
            for name, value, kind in zip(names, rows[0], kinds, strict=True)
        }

    def _change(self) -> None:
        tables = self.ddl.tables()
        if not tables:
            return
        table = self.rng.choice(tables)
        columns = [column for column in self.ddl.columns(table) if not column.generated]
        path = f"{q(table[0])}.{q(table[1])}"
        loose = self._is_versioned(table)
        try:
            before = self._row(table)
        except pymysql.err.MySQLError:
            return
        if before is None:
            chosen = [c for c in columns if c.name not in ("my_row_id", "s", "e")]
            values = ", ".join(literal(self.rng, column) for column in chosen)
            sql = f"INSERT IGNORE INTO {path} ({', '.join(q(c.name) for c in chosen)}) VALUES ({values})"
        elif self.rng.random() < 0.3:
            sql = f"DELETE FROM {path}"
        else:
            chosen = self.rng.sample(columns, min(len(columns), 2))
            chosen = [c for c in chosen if c.name not in ("my_row_id", "s", "e")]
            if not chosen:
                return
            sets = ", ".join(f"{q(c.name)} = {literal(self.rng, c)}" for c in chosen)
            sql = f"UPDATE IGNORE {path} SET {sets}"
        if not self.ddl.run(sql):
            return
        after = self._row(table)
        if before != after:
            self.expected.append(Expected(".".join(table), before, after, loose))


def literal(rng: random.Random, column: Col) -> str:
    """A value of a column, as SQL."""
    base = column.base
    if column.nullable and rng.random() < 0.15:
        return "NULL"
    if base in _NUMBERS:
        top = _NUMBERS[base] * (2 if "unsigned" in column.type and base != "bigint" else 1)
        if "unsigned" in column.type:
            return str(rng.randrange(top // 2, top + 1) + (9 * 10**18 if base == "bigint" else 0))
        return str(rng.randrange(-_NUMBERS[base], _NUMBERS[base]))
    if base in ("decimal", "double", "float"):
        return f"{rng.randrange(-99, 999)}.{rng.choice((0, 25, 5))}"
    if base == "bit":
        return str(rng.randrange(2))
    if base in ("date", "datetime", "timestamp"):
        return f"'20{rng.randrange(10, 30)}-0{rng.randint(1, 9)}-11 10:11:12.345678'"
    if base == "time":
        return f"'{rng.randrange(-800, 800)}:11:12.345678'"
    if base == "year":
        return str(rng.randrange(1950, 2100))
    if base in ("enum", "set"):
        count = column.type.count("','") + 1
        return str(rng.randint(1, count))
    if base == "json":
        return f'\'[{rng.randrange(99)}, {{"k": "ä"}}]\''
    if base == "uuid":
        return f"'123e4567-e89b-12d3-a456-4266141740{rng.randrange(10, 99)}'"
    if base == "inet6":
        return f"'2001:db8::{rng.randrange(1, 99)}'"
    if column.charset is None:
        return f"x'{rng.randrange(256):02x}00ff{rng.randrange(256):02x}'"
    texts = ("a", "Text", "äöü é", "жук", "x%y", "日本", "")
    if column.charset in ("ascii", "latin1", "cp1251", "gbk") or base == "longtext":
        texts = ("a", "Text", "ab c", "{}")
    text = rng.choice(texts) + ("" if base == "longtext" else str(rng.randrange(100)))
    if base == "longtext":
        text = f"[{rng.randrange(1000)}]"
    return (
        "'" + text[:3] + "'" if column.type.startswith(("char(1)", "varchar(3)")) else f"'{text}'"
    )


def _selected(value: Any, type_code: int, collation: int) -> Any:
    """A value of SELECT: bytes of binary columns, text of others."""
    if value is None:
        return None
    if type_code == 16:
        return int.from_bytes(value, "big") if isinstance(value, bytes) else value
    if isinstance(value, bytes):
        binary = collation == 63 and type_code in (249, 250, 251, 252, 253, 254)
        return value if binary else value.decode(errors="surrogateescape")
    return value


def _delivered(value: Any, wanted: Any, charset: str | None) -> Any:
    """A delivered value in the form of the selected one."""
    if value is None:
        return None
    if isinstance(value, EnumValue):
        text = value.label or ""
        return text.encode() if isinstance(wanted, bytes) else text
    if isinstance(value, SetValue):
        text = ",".join(value.labels) if hasattr(value, "labels") else str(value)
        return text.encode() if isinstance(wanted, bytes) else text
    if isinstance(wanted, int):
        return int(value)
    if isinstance(value, float) and isinstance(wanted, str):
        return wanted if abs(float(wanted) - value) <= 1e-5 * max(1.0, abs(value)) else repr(value)
    if isinstance(value, int) and isinstance(wanted, str):
        return wanted if int(wanted) == int(value) else str(value)
    if isinstance(value, Decimal):
        return wanted if Decimal(wanted) == value else str(value)
    if isinstance(wanted, bytes):
        return bytes(value) if isinstance(value, (bytes, bytearray)) else value
    return value if isinstance(value, str) else str(value)


def check(
    paths: list[Path],
    histories: list[History],
    report: Report,
    *,
    start: tuple[str, int],
    stop: tuple[str, int],
    resume_seed: int | None = None,
) -> None:
    """Decode the binlog from a position, with the history it makes, and compare every row."""
    tables = [f"{name}.*" for history in histories for name in history.databases]
    expected = iter([one for history in histories for one in history.expected])
    stream = _resumed(paths, tables, start, stop, report, resume_seed)
    try:
        for transaction in stream:
            changes = list(transaction.changes)
            if not changes:
                continue
            one = next(expected, None)
            if one is None:
                report.differences.append(f"{changes[0]}: nothing was expected")
                return
            if len(changes) != 1 and not one.loose:
                report.differences.append(f"{len(changes)} changes for {one}")
            report.rows += 1
            _compare(changes[0], one, report)
            if len(report.differences) > 5:
                return
    except ReplicaClientError as error:
        report.stops.append(f"{type(error).__name__}: {error}")
        return
    left = list(expected)
    if left:
        report.differences.append(f"{len(left)} changes are missing, the first: {left[0]}")


def _resumed(
    paths: list[Path],
    tables: list[str],
    start: tuple[str, int],
    stop: tuple[str, int],
    report: Report,
    seed: int | None,
) -> Iterator[Transaction]:
    rng = random.Random(seed)
    position, state = Position(*start), None
    while True:
        history = None if state is None else SchemaHistory.from_state(state)
        reader = open_binlog(
            paths,
            start=position,
            stop=Position(*stop),
            schema=history,
            assembly=AssemblyOptions(Selection(tables), on_unknown_table="error"),
        )
        count = rng.randint(1, 60) if seed is not None else 1 << 60
        for transaction in reader.transactions():
            yield transaction
            position, count = transaction.position, count - 1
            if not count:
                # The client dies here: what it knows is what it saved.
                if rng.random() < 0.5:
                    reader.history.prune(position.file, position.offset, keep=1)
                state = reader.state()[STATE_KEY]
                report.resumes += 1
                break
        else:
            if seed is None:
                report.unverified.extend(_unverified(reader.history))
            return


def _unverified(history: SchemaHistory) -> Iterator[str]:
    for name in history.tables():
        for version in history.versions(name):
            # A CREATE OR REPLACE that failed has dropped the old table, and is logged with its error.
            failed = (
                isinstance(version.state, Unverified) and "ended with error" in version.state.reason
            )
            if isinstance(version.state, Unverified) and not failed:
                yield f"{'.'.join(name)} at {version.since}: {version.state.reason}"


def _compare(change: Any, one: Expected, report: Report) -> None:
    where = f"{change.file}:{change.offset} {change.database}.{change.table}"
    if f"{change.database}.{change.table}" != one.table:
        report.differences.append(f"{where} is not {one.table}")
        return
    pairs = [(change.before, one.before), (change.after, one.after)]
    if one.loose:
        pairs = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
    for row, wanted in pairs:
        if row is None or wanted is None:
            if row is not wanted:
                report.differences.append(f"{where}: {row} is not {wanted}")
            continue
        # No SELECT gives MariaDB's hidden columns.
        names = tuple(name for name in row.columns if not name.startswith("DB_ROW_HASH_"))
        if names != tuple(wanted):
            report.differences.append(f"{where}: names {names}, expected {tuple(wanted)}")
            continue
        for at, (name, value) in enumerate(wanted.items()):
            shape = change.shape.columns[at]
            if shape.type_code in (247, 248) and shape.labels is None:
                # CONVERT TO left labels that are no text; there is a number only.
                report.unreadable += 1
                continue
            charset = CHARSET_BY_COLLATION_ID.get(shape.collation_id or 0)
            got = _delivered(row[at], value, charset)
            if isinstance(value, bytes) and isinstance(got, str) and shape.collation_id:
                got = encode_text(got, shape.collation_id)
            if got != value:
                report.differences.append(
                    f"{where}: {name} is {got!r}, SELECT gave {value!r} ({shape})"
                )


def prove(
    server: LocalServer, seeds: range, steps: int, *, progress: Any = None
) -> tuple[Report, list[History]]:
    """Write histories, check each alone and resumed, and all together from the first one on."""
    report = Report()
    histories: list[History] = []
    for seed in seeds:
        history = Writer(server, seed).write(steps)
        histories.append(history)
        report.histories += 1
        for kind, count in history.done.items():
            report.kinds[kind] = report.kinds.get(kind, 0) + count
            report.statements += count
        files = server.binlog_files()
        used = files[files.index(history.start[0]) : files.index(history.end[0]) + 1]
        paths = [server.binlog_path(name) for name in used]
        found, stopped = len(report.differences), len(report.stops)
        check(paths, [history], report, start=history.start, stop=history.end)
        if len(report.differences) == found and len(report.stops) == stopped:
            check(paths, [history], report, start=history.start, stop=history.end, resume_seed=seed)
        report.differences[found:] = [f"seed {seed}: {t}" for t in report.differences[found:]]
        report.stops[stopped:] = [f"seed {seed}: {t}" for t in report.stops[stopped:]]
        if progress is not None:
            progress(report)
    files = server.binlog_files()
    used = files[files.index(histories[0].start[0]) :]
    check(
        [server.binlog_path(name) for name in used],
        histories,
        report,
        start=histories[0].start,
        stop=histories[-1].end,
    )
    return report, histories
