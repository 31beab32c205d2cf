"""Sessions of a source whose statements are logged, and what SELECT shows after each that was in the binlog."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pymysql

from tests.integration.ddl_generator import q
from tests.integration.mix_values import Row, Rows, selected
from tests.servers.local import LocalServer

Table = tuple[str, str]

OBSERVER = -1
"""The session that sets global variables."""

ENCODINGS = {
    "utf8mb4": "utf-8",
    "utf8": "utf-8",
    "latin1": "cp1252",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "cp1251": "cp1251",
    "big5": "big5",
    "ujis": "euc_jp",
    "ascii": "ascii",
}
CLIENT_CHARSETS = tuple(ENCODINGS)
_UTF8 = re.compile(r"((?:CHARSET|CHARACTER SET)(?: ?= ?| ))utf8\b")
_QUOTED = re.compile("`[^`]+`")
_CLIENT_CHARSET = re.compile("SET (?:NAMES|CHARACTER SET) (\\w+)")
_ROW_WORDS = (
    *("INSERT", "UPDATE", "DELETE", "REPLACE", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT"),
    *("RELEASE", "XA", "SET", "FLUSH", "LOCK", "UNLOCK"),
)


@dataclass(frozen=True)
class Entry:
    """A statement of a session; an empty text is a new connection in its place.

    Attributes:
        session: its number; :data:`OBSERVER` for what is global.
        sql: the statement.
        charset: the client's character set, in which it goes to the server.
    """

    session: int
    sql: str
    charset: str = "utf8mb4"

    def __str__(self) -> str:
        return f"[{self.session} {self.charset}] {self.sql or '-- a new connection'}"


@dataclass(frozen=True)
class Snapshot:
    """What SELECT shows at a position.

    Attributes:
        position: of the source's binlog.
        entry: the number of the statement before it.
        tables: rows by table.
        seed: of the epoch.
    """

    position: tuple[str, int]
    entry: int
    tables: dict[Table, Rows]
    seed: int = 0


@dataclass
class Sessions:
    """Several connections that are used in turn.

    Attributes:
        any_case: chooses the letter cases of names, where the server takes them for one.
        log: what was run, in order.
        refused: numbers of entries that the server refused, and its words.
        snapshots: after each statement that moved the binlog's position.
        shape: counts the statements that may change what tables there are.
        unselected: how often a table could not be selected.
        paused: whether no SELECT is made, as tables are locked.
    """

    server: LocalServer
    count: int
    databases: tuple[str, str]
    setup: tuple[str, ...] = ()
    seed: int = 0
    any_case: random.Random | None = None
    log: list[Entry] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._observer = self.server.connect(conv={}, use_unicode=False)
        self._ask("SET time_zone = '+00:00'")
        self._connections: list[Any] = [None] * self.count
        self.charsets = ["utf8mb4"] * self.count
        self._columns: dict[Table, list[str]] | None = None
        self._casefolded: set[str] | None = None
        self.shape = 0
        self.unselected = 0
        self.paused = False
        self.position = self._position()
        self._last: dict[Table, Rows] = {}

    def close(self) -> None:
        for connection in (*self._connections, self._observer):
            if connection is not None and connection.open:
                connection.close()

    def run(self, session: int, sql: str) -> bool:
        """Run a statement; False when the server refuses it."""
        charset = "utf8mb4" if session == OBSERVER else self.charsets[session]
        if self.server.flavor == "mariadb":
            # What utf8 is its old_mode says, which no event tells: readers refuse labels that depend on it, and
            # take what is called utf8mb3 for that, too.
            sql = _UTF8.sub(r"\1utf8mb4", sql)
        if self.any_case is not None and session != OBSERVER:
            sql = self._in_any_case(sql, self.any_case)
        return self.replay(Entry(session, sql, charset))

    def _in_any_case(self, sql: str, rng: random.Random) -> str:
        """A statement with some names of databases and tables in another letter case."""
        if self._casefolded is None:
            self._casefolded = {name.lower() for table in self.tables() for name in table}

        def spelt(name: re.Match[str]) -> str:
            known = self._casefolded is not None and name[0][1:-1].lower() in self._casefolded
            if not known or rng.random() < 0.6:
                return name[0]
            return "".join(
                sign.swapcase() if sign.isascii() and rng.random() < 0.5 else sign
                for sign in name[0]
            )

        return _QUOTED.sub(spelt, sql)

    def replay(self, entry: Entry) -> bool:
        """Run a statement of a log."""
        number = len(self.log)
        self.log.append(entry)
        try:
            if not entry.sql:
                self._renew(entry.session)
                return True
            text = entry.sql.encode(ENCODINGS[entry.charset])
            self._query(self._connection(entry.session), text)
            if (words := _CLIENT_CHARSET.match(entry.sql)) is not None:
                self.charsets[entry.session] = words[1]
            return True
        except (pymysql.err.MySQLError, UnicodeError) as error:
            self.refused[number] = str(error)
            return False
        finally:
            self._observe(number, entry.sql)

    def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """The rows of a question that is not logged."""
        with self._observer.cursor() as cursor:
            cursor.execute(sql, args or None)
            return [tuple(row) for row in cursor.fetchall()]

    def finish_prepared(self) -> None:
        """Roll back what is prepared still."""
        for session in range(self.count):
            self.run(session, "")
        for _ in range(50):
            left = self.ask("XA RECOVER")
            if not left:
                return
            for format_id, gtrid, bqual, data in left:
                gtrid, bqual, raw = int(gtrid), int(bqual), data
                xid = (
                    f"X'{raw[:gtrid].hex()}',X'{raw[gtrid : gtrid + bqual].hex()}',{int(format_id)}"
                )
                self.run(0, f"XA ROLLBACK {xid}")

    def _ask(self, sql: str) -> None:
        self._query(self._observer, sql.encode())

    def _connection(self, session: int) -> Any:
        if session == OBSERVER:
            return self._observer
        if self._connections[session] is None:
            self._renew(session)
        return self._connections[session]

    def _renew(self, session: int) -> None:
        old = self._connections[session]
        if old is not None and old.open:
            number = old.thread_id()
            old.close()
            self._wait_for_end(number)
        connection = self.server.connect(conv={}, use_unicode=False)
        for sql in self.setup:
            self._query(connection, sql.encode())
        self._connections[session] = connection
        self.charsets[session] = "utf8mb4"

    def _wait_for_end(self, number: int) -> None:
        for _ in range(2000):
            if not self.ask(
                "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s", str(number)
            ):
                return

    @staticmethod
    def _query(connection: Any, text: bytes) -> None:
        connection.query(text)
        while connection._result.has_next:
            connection.next_result()

    def _position(self) -> tuple[str, int]:
        modern = self.server.flavor == "mysql" and self.server.version >= (8, 2)
        row = self.ask("SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")[0]
        return row[0].decode(), int(row[1])

    def _observe(self, number: int, sql: str) -> None:
        if changes_shape(sql):
            self._columns = self._casefolded = None
            self.shape += 1
        if sql.startswith("LOCK TABLES"):
            self.paused = number not in self.refused
        elif sql in ("UNLOCK TABLES", "BEGIN", ""):
            self.paused = False
        position = self._position()
        if self.paused or position == self.position:
            return
        self.position = position
        self.snapshots.append(Snapshot(position, number, self._select(), self.seed))

    def _select(self) -> dict[Table, Rows]:
        if self._columns is None:
            self._columns = {table: self._columns_of(table) for table in self.tables()}
        found = {}
        for table, names in self._columns.items():
            try:
                rows = self._rows(table, names)
            except pymysql.err.MySQLError:
                self.unselected += 1
                continue
            last = self._last.get(table)
            found[table] = last if last == rows else rows
        self._last = found
        return found

    def tables(self) -> list[Table]:
        """The base tables of the two databases."""
        return [
            (database.decode(), table.decode())
            for database, table in self.ask(
                "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA"
                " IN (%s, %s) AND TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2",
                *self.databases,
            )
        ]

    def _columns_of(self, table: Table) -> list[str]:
        return [
            name.decode()
            for (name,) in self.ask(
                "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND"
                " TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
                *table,
            )
        ]

    def _rows(self, table: Table, names: list[str]) -> Rows:
        with self._observer.cursor() as cursor:
            columns = ", ".join(map(q, names)).replace("%", "%%")
            cursor.execute(f"SELECT {columns} FROM {q(table[0])}.{q(table[1])}")
            fields = cursor._result.fields
            kinds = [(one.type_code, one.charsetnr, one.flags) for one in fields]
            return Rows(tuple(names), [_row(names, kinds, row) for row in cursor.fetchall()])


def _row(names: Iterable[str], kinds: Iterable[tuple[int, int, int]], values: Any) -> Row:
    return {
        name: selected(value, *kind) for name, kind, value in zip(names, kinds, values, strict=True)
    }


def changes_shape(sql: str) -> bool:
    """Whether a statement may change what tables and columns there are."""
    words = sql.lstrip().upper()
    # MariaDB's SET STATEMENT … FOR has any other statement behind it.
    return not words.startswith(_ROW_WORDS) or words.startswith("SET STATEMENT")
