"""Random settings, tables and statements of several sessions, and what SELECT says at each moment.

A moment is a row of the table ``marker``: what stands before it in the binlog is in its SELECT.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pymysql

from tests.integration.truth_kinds import Kind, kinds, selected
from tests.integration.truth_tables import Column, Moment, State, Table, row_statement
from tests.servers.server import Server

MARKER = "marker"
_CHARSETS = {"utf8mb4": "utf-8", "cp1251": "cp1251", "utf8mb3": "utf-8", "utf8": "utf-8"}
_STORED = (
    "utf8mb4",
    "latin1",
    "cp1251",
    "utf16",
    "gbk",
    "ucs2",
    "swe7",
    "sjis",
    "cp850",
    "euckr",
    "utf8",
    "koi8r",
)
_MODES = (
    "",
    "",
    "ANSI_QUOTES",
    "NO_BACKSLASH_ESCAPES",
    "STRICT_ALL_TABLES",
    "PAD_CHAR_TO_FULL_LENGTH",
    "NO_AUTO_VALUE_ON_ZERO",
)
_OLD_MODES = ("ORACLE", "MSSQL", "NO_FIELD_OPTIONS", "ANSI")


class World:
    """Runs random statements on a database of its own.

    Attributes:
        moments: so far.
        done: how often each kind of step was done.
        refused: errors of statements, by number.
    """

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.seed, self.rng = server, seed, random.Random(seed)
        self.database = f"truth{seed}"
        self.mysql = server.flavor == "mysql"
        self.modern = self.mysql and server.version >= (8, 0)
        self.whole = self.rng.random() < 0.6
        self.moments: list[Moment] = []
        self.tables: dict[str, Table] = {}
        self.done: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()
        self._made: set[str] = set()
        self._altered: set[str] = set()
        self._log: list[str] = []
        self._number = 0
        self._prepared: list[tuple[str, Table]] = []
        self._always_whole = True
        known = {str(row[0]) for row in server.query("SHOW CHARACTER SET")}
        self._charsets = [one for one in _STORED if one in known]
        self._client_charset = ["utf8mb4", "utf8mb4"]
        self._mode = ["", ""]
        self.sessions = [self._connected(), self._connected()]
        self.observer = self._connected()
        self._global_settings()
        self.run(
            0, f"CREATE DATABASE {self.database} CHARACTER SET {self.rng.choice(self._charsets)}"
        )
        for number in (0, 1):
            self.run(number, f"USE {self.database}")
        self.observer.select_db(self.database)
        self.run(0, f"CREATE TABLE {MARKER} (id INT PRIMARY KEY)")
        for _ in range(3):
            self._create()
        self.moment()

    def close(self) -> None:
        """End what is prepared, drop the database and disconnect."""
        for one in (*self.sessions, self.observer):
            one.close()
        for row in self.server.query("XA RECOVER"):
            self.server.execute(f"XA ROLLBACK {quoted_xid(row)}")
        self.server.execute(f"DROP DATABASE IF EXISTS {self.database}")
        self.server.execute("SET GLOBAL binlog_row_image = FULL")

    def _connected(self) -> Any:
        connection = self.server.connect(autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute(
                "SET time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2, innodb_lock_wait_timeout = 1"
            )
            if not self.modern:
                cursor.execute("SET SESSION binlog_format = ROW")
            if not self.mysql:
                cursor.execute("SET system_versioning_alter_history = KEEP")
        return connection

    # Statements.

    def run(self, session: int, sql: str) -> bool:
        """Run a statement in a session; an error of the server is counted."""
        self._log.append(f"{session}: {sql}")
        encoding = _CHARSETS[self._client_charset[session]]
        connection = self.sessions[session]
        try:
            connection.query(sql.encode(encoding, "replace"))
            while connection._result.has_next:
                connection.next_result()
        except pymysql.err.MySQLError as error:
            self.refused[error.args[0]] += 1
            self._log[-1] += f"  -- {error.args[0]}"
            if not connection.open:
                raise
            return False
        return True

    def step(self) -> None:
        """Run a step, and look."""
        makers = {
            self._rows: 40, self._transaction: 14, self._two_sessions: 8, self._xa: 6, self._end_xa: 4,
            self._settings: 8, self._alter: 10, self._create: 5, self._drop: 2, self._truncate: 1, self._rename: 2,
            self._flush: 2, self._create_select: 2, self._create_like: 1, self._globals: 2,
        }  # fmt: skip
        step = self.rng.choices(list(makers), list(makers.values()))[0]
        step()
        self.done[step.__name__.lstrip("_")] += 1
        self.moment()

    def moment(self) -> None:
        """Write down what SELECT says, then write a marker."""
        tables, families, keys = {}, {}, {}
        for table in self.tables.values():
            tables[table.name] = self._selected(table)
            families[table.name] = {column.name: column.kind.family for column in table.columns}
            keys[table.name] = table.key
        number = len(self.moments)
        computed = {table.name: table.computed for table in self.tables.values()}
        self.moments.append(
            Moment(number, tables, families, keys, computed, self._made, self._altered, self.server.binlog_position(),
                   self._always_whole, {one.name for one in self.tables.values() if one.unproven},
                   self.mysql and not self.modern, self._log)
        )  # fmt: skip
        self._made, self._altered, self._log = set(), set(), []
        self._always_whole = self.whole
        with self.observer.cursor() as cursor:
            cursor.execute(f"INSERT INTO {MARKER} VALUES ({number})")

    def signal(self, number: int) -> None:
        """Write a marker that is no moment."""
        with self.observer.cursor() as cursor:
            cursor.execute(f"INSERT INTO {MARKER} VALUES ({number})")

    def _selected(self, table: Table) -> State:
        shown = ", ".join(column.kind.select.format(column.q) for column in table.columns)
        past = " FOR SYSTEM_TIME ALL" if table.special == "versioned" else ""
        with self.observer.cursor() as cursor:
            cursor.execute(f"SELECT {shown} FROM {table.q}{past}".replace("%", "%%"))
            found: State = {}
            for values in cursor.fetchall():
                row = {
                    column.name: selected(column.kind.family, _plain(value))
                    for column, value in zip(table.columns, values, strict=True)
                }
                found[tuple(row[name] for name in table.key)] = row
        return found

    # Settings.

    def _global_settings(self) -> None:
        image = "FULL" if self.whole else self.rng.choice(("MINIMAL", "NOBLOB", "FULL"))
        self.server.execute(f"SET GLOBAL binlog_row_image = {image}")
        self._globals()
        for number in (0, 1):
            self.run(number, f"SET SESSION binlog_row_image = {image}")

    def _globals(self) -> None:
        rng, server = self.rng, self.server
        if rng.random() < 0.3:
            server.execute(f"SET GLOBAL binlog_checksum = {rng.choice(('NONE', 'CRC32'))}")
        if self.modern:
            server.execute(f"SET GLOBAL binlog_row_metadata = {rng.choice(('FULL', 'MINIMAL'))}")
        elif not self.mysql:
            server.execute(
                f"SET GLOBAL binlog_row_metadata = {rng.choice(('FULL', 'MINIMAL', 'NO_LOG'))}"
            )
            server.execute(f"SET GLOBAL log_bin_compress = {rng.choice((0, 1))}")
            server.execute("SET GLOBAL log_bin_compress_min_len = 10")

    def _settings(self) -> None:
        rng, number = self.rng, self.rng.randrange(2)
        choices = ["names", "mode"]
        if not self.whole:
            choices += ["image"]
        if self.modern:
            choices += ["partial", "compression"]
        what = rng.choice(choices)
        if what == "names":
            charset = rng.choice(("utf8mb4", "cp1251", "utf8"))
            if self.run(number, f"SET NAMES {charset}"):
                self._client_charset[number] = charset
        elif what == "mode":
            modes = _MODES if self.modern else (*_MODES, *_OLD_MODES)
            mode = rng.choice(modes)
            if self.run(number, f"SET sql_mode = '{mode}'"):
                self._mode[number] = mode
        elif what == "image":
            images = ["FULL", "MINIMAL", "NOBLOB"]
            if not self.mysql and self.server.version >= (11, 4):
                images.append("FULL_NODUP")
            self.run(number, f"SET SESSION binlog_row_image = {rng.choice(images)}")
        elif what == "partial":
            self.run(number, f"SET binlog_row_value_options = '{rng.choice(('PARTIAL_JSON', ''))}'")
        else:
            self.run(
                number, f"SET SESSION binlog_transaction_compression = {rng.choice(('ON', 'OFF'))}"
            )

    def _flush(self) -> None:
        self.run(0, "FLUSH BINARY LOGS")

    # Definitions.

    def _kind(self) -> Kind:
        return self.rng.choice(
            kinds(self.rng, self.server.flavor, self.server.version, self._charsets)
        )

    def _new_name(self, letter: str) -> str:
        self._number += 1
        return f"{letter}{self._number}"

    def _column(self) -> Column:
        self._number += 1
        return Column(f"{self.rng.choice(('c', 'c', 'ю', 'a b'))}{self._number}", self._kind())

    def _create(self) -> None:
        rng, what = self.rng, self.rng.random()
        if what < 0.12 and not self.mysql:
            return self._sequence()
        if what < 0.24 and not self.mysql:
            return self._versioned()
        columns = [self._column() for _ in range(rng.randint(1, 6))]
        identity = Column("id", Kind("int", "INT", str, "CAST({} AS CHAR)"))  # type: ignore[arg-type]
        name, extra = self._new_name("t"), ""
        if rng.random() < 0.3 and (self.modern or not self.mysql):
            name = self._new_name("g")
            stored = rng.choice(("STORED", "VIRTUAL"))
            made = Column(
                f"made{self._number}", Kind("int", "BIGINT", str, "CAST({} AS CHAR)"), stored, False
            )  # type: ignore[arg-type]
            extra = f", {made.q} BIGINT GENERATED ALWAYS AS (id * 2 + 1) {stored}"
            columns.append(made)
        listed = [f"{one.q} {one.kind.sql}" for one in columns if not one.generated]
        engine = rng.choice(("InnoDB", "InnoDB", "MyISAM"))
        default = rng.choice(("", "", f" DEFAULT CHARACTER SET {rng.choice(self._charsets)}"))
        sql = f"CREATE TABLE `{name}` (id INT PRIMARY KEY, {', '.join(listed)}{extra}) ENGINE={engine}{default}"
        if self.run(rng.randrange(2), sql):
            self.tables[name] = Table(name, [identity, *columns])
            self._made.add(name)
        return None

    def _sequence(self) -> None:
        name = self._new_name("q")
        if not self.run(
            0,
            f"CREATE SEQUENCE {name} INCREMENT {self.rng.choice((1, 5))} CACHE {self.rng.choice((1, 3))}",
        ):
            return
        whole = Kind("int", "BIGINT", str, "CAST({} AS CHAR)")  # type: ignore[arg-type]
        names = (
            "next_not_cached_value",
            "minimum_value",
            "maximum_value",
            "start_value",
            "increment",
            "cache_size",
            "cycle_option",
            "cycle_count",
        )
        self.tables[name] = Table(
            name, [Column(one, whole, writable=False) for one in names], (), "sequence"
        )
        self._altered.add(name)

    def _versioned(self) -> None:
        name = self._new_name("v")
        column = self._column()
        sql = (
            f"CREATE TABLE {name} (id INT PRIMARY KEY, {column.q} {column.kind.sql}, "
            "b TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
            "e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (b, e)) WITH SYSTEM VERSIONING"
        )
        if self.run(0, sql):
            whole = Kind("int", "INT", str, "CAST({} AS CHAR)")  # type: ignore[arg-type]
            period = Kind("time", "", str, "CAST({} AS CHAR)")  # type: ignore[arg-type]
            bounds = [Column("b", period, writable=False), Column("e", period, writable=False)]
            self.tables[name] = Table(
                name, [Column("id", whole), column, *bounds], ("id", "e"), "versioned"
            )
            self._made.add(name)

    def _plain_table(self) -> Table | None:
        found = [one for one in self.tables.values() if not one.busy and one.special == ""]
        return self.rng.choice(found) if found else None

    def _alter(self) -> None:
        table, rng = self._plain_table(), self.rng
        if table is None:
            return
        plain = [one for one in table.columns[1:] if not one.generated]
        session, what = (
            rng.randrange(2),
            rng.choice(("add", "add", "rename", "drop", "modify", "convert", "move")),
        )
        one = rng.choice(plain) if plain else None
        columns = list(table.columns)
        if what == "add" or one is None:
            new = self._column()
            at = rng.randint(1, len(columns))
            place = f"AFTER {columns[at - 1].q}"
            clause = f"ADD COLUMN {new.q} {new.kind.sql} {place}"
            columns.insert(at, new)
        elif what == "rename":
            new = self._column()
            clause = f"CHANGE {one.q} {new.q} {one.kind.sql}"
            columns[columns.index(one)] = Column(new.name, one.kind)
        elif what == "drop":
            if len(plain) < 2:
                return
            clause = f"DROP COLUMN {one.q}"
            columns.remove(one)
        elif what == "modify":
            kind = self._kind()
            if "bytes" in (kind.family, one.kind.family) and kind.family != one.kind.family:
                return  # bytes would become what is no text
            if "BIT" in one.kind.sql and kind.family == "text":
                return
            clause = f"MODIFY {one.q} {kind.sql}"
            columns[columns.index(one)] = Column(one.name, kind)
        elif what == "convert" and not any(c.kind.sql.startswith(("ENUM", "SET")) for c in plain):
            # It leaves labels that are no text.
            clause = f"CONVERT TO CHARACTER SET {rng.choice(self._charsets)}"
        else:
            columns.remove(one)
            columns.insert(1, one)
            clause = f"MODIFY {one.q} {one.kind.sql} AFTER id"
        if self.run(session, f"ALTER TABLE {table.q} {clause}"):
            table.columns = columns
            texts = [column for column in columns if column.kind.family == "text"]
            changed = any(clause.removeprefix("CONVERT TO ") not in c.kind.sql for c in texts)
            if what == "convert" and self.mysql and not self.modern and not changed:
                # MySQL 5.6 keeps the table's character set, unless `old_alter_table` is set.
                table.unproven = True
            self._altered.add(table.name)

    def _drop(self) -> None:
        table = self._plain_table()
        if table is not None and len(self.tables) > 4 and self.run(0, f"DROP TABLE {table.q}"):
            del self.tables[table.name]

    def _truncate(self) -> None:
        table = self._plain_table()
        if table is not None and self.run(0, f"TRUNCATE TABLE {table.q}"):
            self._made.add(table.name)

    def _rename(self) -> None:
        table = self._plain_table()
        if table is None:
            return
        name = self._new_name(table.name[0])
        if self.run(self.rng.randrange(2), f"RENAME TABLE {table.q} TO `{name}`"):
            del self.tables[table.name]
            table.name = name
            self.tables[name] = table
            self._altered.add(name)

    def _create_select(self) -> None:
        table = self._plain_table()
        if table is None or table.computed:
            return
        name = self._new_name("t")
        session = self.rng.randrange(2)
        # GTIDs of MySQL 5.6 refuse it.
        if self.run(session, f"CREATE TABLE {name} (PRIMARY KEY (id)) SELECT * FROM {table.q}"):
            unproven = table.unproven or self._mode[session] in _OLD_MODES
            self.tables[name] = Table(
                name, list(table.columns), unproven=unproven, next_id=table.next_id
            )
            self._made.add(name)

    def _create_like(self) -> None:
        table = self._plain_table()
        if table is None:
            return
        name = self._new_name(table.name[0])
        if self.run(self.rng.randrange(2), f"CREATE TABLE {name} LIKE {table.q}"):
            self.tables[name] = Table(name, list(table.columns), unproven=table.unproven)
            self._made.add(name)

    # Rows.

    def _free(self) -> list[Table]:
        return [one for one in self.tables.values() if not one.busy]

    def _rows(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.run(self.rng.randrange(2), row_statement(self.rng, self.rng.choice(self._free())))

    def _changes(self, session: int, tables: Sequence[Table]) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.run(session, row_statement(self.rng, self.rng.choice(tables)))

    def _transaction(self) -> None:
        session, tables, rng = self.rng.randrange(2), self._free(), self.rng
        self.run(session, "BEGIN")
        self._changes(session, tables)
        if rng.random() < 0.6:
            self.run(session, "SAVEPOINT s1")
            self._changes(session, tables)
            if rng.random() < 0.6:
                self.run(session, "ROLLBACK TO SAVEPOINT s1")
            if rng.random() < 0.5:
                self._changes(session, tables)
        self.run(session, "ROLLBACK" if rng.random() < 0.15 else "COMMIT")

    def _two_sessions(self) -> None:
        tables = [one for one in self._free() if one.special != "sequence"]
        self.rng.shuffle(tables)
        halves = tables[::2], tables[1::2]
        if not all(halves):
            return
        for session in (0, 1):
            self.run(session, "START TRANSACTION")
        for _ in range(self.rng.randint(2, 5)):
            session = self.rng.randrange(2)
            self._changes(session, halves[session])
        for session in self.rng.sample((0, 1), 2):
            self.run(session, "COMMIT" if self.rng.random() < 0.9 else "ROLLBACK")

    def _xa(self) -> None:
        table = self._plain_table()
        if table is None or self._prepared:
            return
        self._number += 1
        xid = f"'x{self._number}'"
        if not self.run(1, f"XA START {xid}"):
            return
        self._changes(1, [table])
        self.run(1, f"XA END {xid}")
        what = self.rng.random()
        if what < 0.3:
            self.run(1, f"XA COMMIT {xid} ONE PHASE")
        elif what < 0.5 or not self.modern:
            self.run(1, f"XA PREPARE {xid}")
            self.run(1, f"XA {self.rng.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {xid}")
        elif self.run(1, f"XA PREPARE {xid}"):
            table.busy = True
            self._prepared.append((xid, table))

    def _end_xa(self) -> None:
        for xid, table in self._prepared:
            if self.run(
                self.rng.randrange(2), f"XA {self.rng.choice(('COMMIT', 'ROLLBACK'))} {xid}"
            ):
                table.busy = False
        self._prepared = [one for one in self._prepared if one[1].busy]


def quoted_xid(row: Sequence[Any]) -> str:
    """Return the identifier of a row of XA RECOVER as SQL."""
    _, size, more, data = row
    raw = data.encode() if isinstance(data, str) else bytes(data)
    return (
        f"x'{raw[: int(size)].hex()}', x'{raw[int(size) :].hex()}'"
        if int(more)
        else f"x'{raw.hex()}'"
    )


def _plain(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, float):
        return repr(value)
    return value.decode() if isinstance(value, bytes) else str(value)
