"""A testing source that also lists its tables: SQLite holds information_schema, and answers what is asked of it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from replica_client.protocol.binlog.events import (
    GtidEvent,
    MariadbGtidEvent,
    RowsEvent,
    TableMapEvent,
    XidEvent,
)
from replica_client.protocol.constants.event_types import EventType
from replica_client.server.understood_sql import Rows
from tests.source.binlogs import SOURCE_UUID, BinlogMaker

_LONG = 3
_STANDALONE = 1
_LISTINGS = {
    "SCHEMATA": "SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME",
    "TABLES": "TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION",
    "COLUMNS": "TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, EXTRA, "
    "GENERATION_EXPRESSION, ORDINAL_POSITION, COLUMN_DEFAULT, COLUMN_COMMENT",
    "STATISTICS": "TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, SUB_PART, INDEX_NAME, SEQ_IN_INDEX",
}


class ListedSchema(Mapping[str, Rows]):
    """What a source answers (``BinlogSource.answers``): listings of tables, whose columns are INT.

    Attributes:
        asked: statements that were answered, in capital letters.
        meanwhile: is called behind an answer, with its statement.
    """

    def __init__(self, tables: Mapping[str, list[str]]) -> None:
        self._listings = sqlite3.connect(":memory:", check_same_thread=False)
        self._listings.execute("ATTACH ':memory:' AS information_schema")
        for name, columns in _LISTINGS.items():
            # What is asked comes in capital letters.
            typed = ", ".join(f"{one} COLLATE NOCASE" for one in columns.split(", "))
            self._listings.execute(f"CREATE TABLE information_schema.{name} ({typed})")
        self._listings.execute("INSERT INTO SCHEMATA VALUES ('shop', 'utf8mb4')")
        for table, names in tables.items():
            self.define(table, names)
        self.asked: list[str] = []
        self.meanwhile: Callable[[str], None] = lambda sql: None

    def define(self, table: str, columns: list[str]) -> None:
        """Let a table of ``shop`` have these columns."""
        self.forget(table)
        self._listings.execute(
            "INSERT INTO TABLES VALUES ('shop', ?, 'BASE TABLE', 'utf8mb4_bin')", [table]
        )
        self._listings.executemany(
            "INSERT INTO COLUMNS VALUES ('shop', ?, ?, 'int', NULL, 'YES', '', '', ?, NULL, '')",
            [(table, name, at) for at, name in enumerate(columns)],
        )

    def forget(self, table: str) -> None:
        """List a table no more."""
        for listing in ("TABLES", "COLUMNS"):
            self._listings.execute(f"DELETE FROM {listing} WHERE TABLE_NAME = ?", [table])

    def forget_columns(self, table: str) -> None:
        """List a table without its columns."""
        self._listings.execute("DELETE FROM COLUMNS WHERE TABLE_NAME = ?", [table])

    def close(self) -> None:
        """Give the listings up."""
        self._listings.close()

    def get(self, sql: str, default: object = None) -> Rows | None:  # type: ignore[override]
        """Rows of a statement about the listings; None for every other one."""
        if sql.startswith("SET SESSION LOCK_WAIT_TIMEOUT"):
            found: Rows | None = ((), [])
        elif sql.startswith(("SELECT 1 FROM `SHOP`", "SHOW CREATE DATABASE")):
            found = (("1",), [])
        elif "INFORMATION_SCHEMA" not in sql or not sql.startswith("SELECT"):
            return None
        else:
            text = re.sub(r"_UTF8MB4 X'([0-9A-F]*)'", r"CAST(X'\1' AS TEXT)", sql)
            cursor = self._listings.execute(text)
            names = [one[0] for one in cursor.description]
            found = (names, cursor.fetchall())
        self.asked.append(sql)
        self.meanwhile(sql)
        return found

    def __getitem__(self, sql: str) -> Rows:
        raise KeyError(sql)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def add_rows(
    maker: BinlogMaker, table: str, values: tuple[int, ...], *, anonymous: bool = False
) -> None:
    """Add a transaction with one row, of whose columns the binlog has no names."""
    number = _begin(maker, anonymous, 0)
    if not maker.mariadb:
        maker.query(b"BEGIN")
    count = len(values)
    bits = bytes([(1 << count) - 1])
    types = bytes([_LONG]) * count
    maker.add(
        EventType.TABLE_MAP_EVENT,
        TableMapEvent(7, 1, "shop", table, types, (0,) * count, bits, b""),
    )
    image = b"\0" + b"".join(value.to_bytes(4, "little") for value in values)
    written = int(EventType.WRITE_ROWS_EVENT)
    maker.add(written, RowsEvent("insert", written, 7, 1, b"", count, bits, None, image))
    maker.add(EventType.XID_EVENT, XidEvent(number))


def add_statement(maker: BinlogMaker, text: str, *, anonymous: bool = False) -> None:
    """Add a statement that is a transaction."""
    _begin(maker, anonymous, _STANDALONE)
    maker.query(text.encode())


def _begin(maker: BinlogMaker, anonymous: bool, flags: int) -> int:
    """Add the event that a transaction begins with, and give its number."""
    number = maker.next_number
    maker.next_number += 1
    if maker.mariadb:
        maker.add(EventType.GTID_EVENT, MariadbGtidEvent(number, 0, flags))
    elif anonymous:
        maker.add(EventType.ANONYMOUS_GTID_LOG_EVENT, GtidEvent(1, bytes(16), 0))
    else:
        maker.add(EventType.GTID_LOG_EVENT, GtidEvent(1, UUID(SOURCE_UUID).bytes, number))
    return number
