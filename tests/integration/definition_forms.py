"""Forms of definitions and session settings, each made on a real server and compared with the server's own word.

Of each form three readings must agree: the DDL in a binlog file that is read from its beginning, the
definition that the live source tells, and what SELECT gives for probe rows, one for each ENUM and SET label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
import pytest

from replica_client.protocol.binlog.values.value_types import Geometry
from replica_client.protocol.codec.charsets import encode_text
from replica_client.schema.character_sets import representative_id
from tests.servers.server import Server


@dataclass(frozen=True)
class Form:
    """Statements that make tables, in a database of their own.

    Attributes:
        name: of the form, for messages.
        statements: what is run, in order; the session's character set encodes them. Those that the server
            must refuse begin with ``!``.
        flavor: the only flavour that has the form; ``""`` for both.
        since: the first version that has it.
        before: the first version that does not have it any more.
        charset: of the session (``SET NAMES``).
        mode: of the session (``sql_mode``).
        settings: other statements that a session begins with.
        in_files: whether a file alone must tell the definition; elsewhere it may refuse.
        in_listings: whether the live source must tell it; elsewhere it may refuse.
    """

    name: str
    statements: tuple[str, ...]
    flavor: str = ""
    since: tuple[int, int] = (0, 0)
    before: tuple[int, int] = (99, 0)
    charset: str = "utf8mb4"
    mode: str = ""
    settings: tuple[str, ...] = ()
    in_files: bool = True
    in_listings: bool = True

    def exists_on(self, server: Server) -> bool:
        """Whether a server has the form."""
        return self.flavor in ("", server.flavor) and self.since <= server.version[:2] < self.before


class Session:
    """A connection that sends bytes in the character set of the session."""

    def __init__(self, server: Server, database: str, form: Form) -> None:
        self._connection = server.connect(use_unicode=False, conv={})
        self._charset = "utf8mb4"
        self.run("SET time_zone = '+00:00'")
        self.run(f"USE `{database}`")
        self.run(f"SET sql_mode = '{form.mode}'")
        if server.flavor == "mariadb" or server.version < (8, 0, 0):
            self.run("SET binlog_format = ROW")
        self.run(f"SET NAMES {form.charset}")
        self._charset = form.charset
        for setting in form.settings:
            self.run(setting)

    def run(self, sql: str) -> None:
        """Run a statement, its text in the character set of the session."""
        charset = "utf8mb3" if self._charset == "utf8" else self._charset
        connection: Any = self._connection
        connection._execute_command(3, encode_text(sql, representative_id(charset)))
        connection._read_query_result()

    def close(self) -> None:
        """Close the connection: temporary tables go."""
        self._connection.close()


def make(server: Server, database: str, form: Form) -> None:
    """Make the tables of a form in a database that is there."""
    session = Session(server, database, form)
    try:
        for statement in form.statements:
            sql = statement.replace("{d}", database)
            if sql.startswith("!"):
                with pytest.raises(pymysql.err.MySQLError):
                    session.run(sql[1:])
            else:
                session.run(sql)
    finally:
        session.close()


def tables_of(server: Server, database: str) -> list[str]:
    """The tables of a database, no views."""
    rows = server.query(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
        " AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1",
        (database,),
    )
    return [str(name) for (name,) in rows]


@dataclass(frozen=True)
class Column:
    """A column as the server lists it."""

    name: str
    type: str
    generated: bool
    versioning: bool

    @property
    def is_temporal(self) -> bool:
        """Whether it can bound a period."""
        return self.type.startswith(("date", "timestamp"))


def columns_of(server: Server, database: str, table: str) -> list[Column]:
    """The columns of a table, as the server lists them."""
    generated = "'' "
    if server.flavor == "mariadb" or server.version >= (5, 7, 0):
        generated = "COALESCE(GENERATION_EXPRESSION, '')"
    rows = server.query(
        f"SELECT COLUMN_NAME, COLUMN_TYPE, {generated} FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (database, table),
    )
    found = [
        Column(str(a), str(b), bool(c), str(c).upper() in ("ROW START", "ROW END"))
        for a, b, c in rows
    ]
    kind = server.query(
        "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (database, table),
    )
    if kind == [("SYSTEM VERSIONED",)] and not any(column.versioning for column in found):
        found += [Column(name, "timestamp(6)", True, True) for name in ("row_start", "row_end")]
    return found


# Periods of application time must not be empty.
_BOUNDS = {"s": "'2001-01-01'", "e": "'2002-01-01'"}


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Probe:
    """A row of a table, and its columns as SELECT gives them."""

    table: str
    row: dict[str, Any]


def probes(server: Server, database: str, form: Form) -> list[Probe]:
    """Rows that are written: of each table, one for each label of its ENUM and SET columns, at least one."""
    found: list[Probe] = []
    with (
        server.connected(use_unicode=True, database=database) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET sql_mode = ''")
        cursor.execute("SET time_zone = '+00:00'")
        if server.flavor == "mariadb" or server.version < (8, 0, 0):
            cursor.execute("SET binlog_format = ROW")
        for table in tables_of(server, database):
            cursor.execute(f"DELETE FROM {quoted(table)}")
            columns = columns_of(server, database, table)
            labelled = [column for column in columns if column.type.startswith(("enum(", "set("))]
            count = max([column.type.count("','") + 1 for column in labelled] or [1])
            names = ", ".join(quoted(column.name) for column in columns)
            for number in range(count):
                values = [
                    str(1 << number if column.type.startswith("set(") else number + 1)
                    if number <= column.type.count("','")
                    else "1"
                    for column in labelled
                ]
                into = [quoted(column.name) for column in labelled]
                for column in columns:
                    if column.name in _BOUNDS and not column.generated and column.is_temporal:
                        into.append(quoted(column.name))
                        values.append(_BOUNDS[column.name])
                try:
                    cursor.execute(
                        f"INSERT IGNORE INTO {quoted(table)} ({', '.join(into)}) VALUES ({', '.join(values)})"
                    )
                except pymysql.err.MySQLError:
                    break  # a column that has no default: only definitions are compared
                cursor.execute(f"SELECT {names} FROM {quoted(table)}")
                rows = cursor.fetchall()
                if not rows:
                    break
                assert len(rows) == 1, (form.name, table, rows)
                found.append(
                    Probe(table, dict(zip([c.name for c in columns], rows[0], strict=True)))
                )
                cursor.execute(f"DELETE FROM {quoted(table)}")
    return found


@dataclass(frozen=True)
class Row:
    """A delivered row."""

    table: str
    values: dict[str, Any]


def compare(rows: Sequence[Row], wanted: Sequence[Probe]) -> list[str]:
    """What the last delivered rows have otherwise than the probes."""
    rows = rows[len(rows) - len(wanted) :]
    if [row.table for row in rows] != [probe.table for probe in wanted]:
        return [f"rows of {[row.table for row in rows]}, not of {[one.table for one in wanted]}"]
    found: list[str] = []
    for row, probe in zip(rows, wanted, strict=True):
        found += differences(row.values, probe)
    return list(dict.fromkeys(found))


def same(delivered: Any, selected: Any) -> bool:
    """Whether a delivered value is the one that SELECT gave."""
    if hasattr(delivered, "labels"):
        delivered = ",".join(delivered.labels)
    elif hasattr(delivered, "label"):
        delivered = delivered.label
    if isinstance(selected, bytes) and isinstance(delivered, int):
        return selected == delivered.to_bytes(len(selected), "big")  # BIT
    if isinstance(selected, bytes) and isinstance(delivered, str):
        return selected == delivered.encode()  # labels of bytes
    if isinstance(delivered, (Geometry, tuple)):
        return True  # of bytes that say nothing of the definition
    if isinstance(delivered, float) or hasattr(selected, "isoformat"):
        return True  # not what definitions change
    return bool(delivered == selected) or str(delivered) == str(selected)


def differences(row: dict[str, Any], probe: Probe) -> list[str]:
    """What a delivered row has otherwise than SELECT."""
    if list(row) != list(probe.row):
        return [f"{probe.table}: columns {list(row)}, SELECT has {list(probe.row)}"]
    return [
        f"{probe.table}.{name}: {row[name]!r}, SELECT gave {value!r}"
        for name, value in probe.row.items()
        if not same(row[name], value)
    ]


def forms_of(server: Server, forms: Sequence[Form]) -> list[Form]:
    """Those that a server has."""
    return [form for form in forms if form.exists_on(server)]
