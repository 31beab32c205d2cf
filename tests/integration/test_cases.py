"""Inputs that once gave wrong values or a needless stop, with their neighbours: every entry against SELECT.

Each case is a database of its own; all cases of a server are one binlog, which is read from the files, as Arrow, from
the end, from the beginning, and with a connection for each transaction.
"""

# ruff: noqa: E501

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

pytest.importorskip("pyarrow")

import replica_client as rc
from replica_client.stream.position.stores.base import MemoryPositionStore
from tests.servers.local import LocalServer
from tests.servers.server import Server

MYSQL, MARIA = ("mysql-9.7", "mysql-5.6"), ("mariadb-10.11", "mariadb-11.8")
ALL = (*MYSQL, *MARIA)
OLD = ALL[1:]
"""Servers that take a column name with its table."""
METADATA = {"mysql-9.7": "MINIMAL", "mariadb-10.11": "NO_LOG", "mariadb-11.8": "MINIMAL"}


@dataclass(frozen=True)
class Case:
    """Statements in an empty database, of which one changes rows of the table ``t``.

    Attributes:
        row: of the table of cases that it stands for.
        sql: statements; ``;`` separates them, ``#`` stands for the database.
        servers: that take them.
        charset: of the database.
    """

    row: str
    sql: str
    servers: tuple[str, ...] = ALL
    charset: str = "latin1"


CASES = (
    # A1: types that the table map does not name.
    Case("A1", "CREATE TABLE t (id INT, u UUID, a INET6); INSERT t VALUES (1,'123e4567-e89b-12d3-a456-426655440000','::1')", MARIA),
    Case("A1", "CREATE TABLE t (id INT, b INET4, v VECTOR(2)); INSERT t VALUES (1,'1.2.3.4', VEC_FromText('[1,-2.5]'))", MARIA[1:]),
    Case("A1", "CREATE TABLE t (id INT, u UUID); ALTER TABLE t MODIFY u BINARY(16); INSERT t VALUES (1,'0123456789abcdef')", MARIA),
    Case("A1", "CREATE TABLE s (id INT, u UUID); CREATE TABLE t LIKE s; INSERT t VALUES (1, UUID())", MARIA),
    Case("A1", "CREATE TABLE s (u UUID, a INET6); INSERT s VALUES (UUID(),'::2'); CREATE TABLE t SELECT * FROM s", MARIA),
    # A4: sql_modes that leave table options out.
    *(
        Case("A4", "CREATE TABLE q (t TEXT CHARSET utf8mb4); INSERT q VALUES ('жя'); "
                   f"SET sql_mode='{mode}'; CREATE TABLE t (t TEXT, e ENUM('ж','q')) CHARSET cp1251 SELECT t, 'ж' AS e FROM q", servers)
        for mode, servers in (("ORACLE", MARIA), ("ANSI", (*MARIA, MYSQL[0])), ("MSSQL", MARIA), ("NO_TABLE_OPTIONS", MARIA))
    ),
    # A7: characters that a set of one byte lacks.
    Case("A7", "CREATE TABLE t (a ENUM('b\\\\s','{') CHARSET swe7); INSERT t VALUES (1),(2)"),
    Case("A7", "CREATE TABLE t (a SET('x~','[','Å','|y') CHARSET swe7, b VARCHAR(9) CHARSET swe7); INSERT t VALUES (15,'Åäö@')"),
    Case("A7", "CREATE TABLE t (a ENUM('я','é') CHARSET latin1, b ENUM('я','é') CHARSET koi8r, c ENUM('é','я') CHARSET ascii); INSERT t VALUES (1,1,2),(2,2,1)"),
    # A8: COLLATE on binary types.
    Case("A8", "CREATE TABLE t (a BLOB COLLATE utf8_bin, b VARBINARY(5) COLLATE latin1_bin); INSERT t VALUES ('é','x')", MARIA),
    Case("A8", "CREATE TABLE t (a BINARY(4) COLLATE utf8_bin, b TINYBLOB COLLATE koi8r_bin); INSERT t VALUES ('é','я')", MARIA),
    Case("A8", "CREATE TABLE t (a LONGBLOB COLLATE utf8mb4_bin, b VARBINARY(9) COLLATE ucs2_bin); ALTER TABLE t ADD c MEDIUMBLOB COLLATE cp1251_bin; INSERT t VALUES ('é','я','ж')", MARIA),
    # A9: labels in the binary character set keep their spaces.
    Case("A9", "CREATE TABLE t (e ENUM('a','a ') CHARACTER SET binary); INSERT t VALUES (1),(2)"),
    Case("A9", "CREATE TABLE t (e SET('a','b ','c  ') CHARACTER SET binary, f ENUM('q ','r ') CHARACTER SET utf8); INSERT t VALUES (7,1),(2,2)"),
    # D: statements that were not understood.
    Case("D", "CREATE TABLE t (a DECIMAL(10.2), b VARCHAR(5.9), c BIT(3.7)); INSERT t VALUES (12,'abcde',5)"),
    Case("D", "CREATE TABLE t (id SERIAL NULL, a INT); INSERT t (a) VALUES (1)", MYSQL),
    Case("D", "CREATE TABLE t (a ENUM('b',0x63), b ENUM(x'62','c'), c SET(b'01100001','z')); INSERT t VALUES (2,1,3)"),
    Case("D", "CREATE TABLE t (a INT, b INT, c INT); ALTER TABLE t ADD d INT AFTER b, MODIFY b INT AFTER a; INSERT t VALUES (1,2,3,4)"),
    Case("D", "CREATE TABLE t (a INT, b INT, c INT); ALTER TABLE t MODIFY c INT FIRST, MODIFY b INT AFTER c, ADD e INT AFTER a; INSERT t VALUES (1,2,3,4)"),
    Case("D", "CREATE TABLE t (z INT); CREATE TABLE u (a INT, b VARCHAR(3)); CREATE OR REPLACE TABLE t LIKE u; INSERT t VALUES (1,'x')", MARIA),
    Case("D", "CREATE TABLE t (a INT, b INT); ALTER TABLE t CHANGE t.a t.aa INT; ALTER TABLE t MODIFY t.b BIGINT; INSERT t VALUES (1,2)", OLD),
    Case("D", "CREATE TABLE t (a INT); ALTER TABLE #.t CHANGE #.t.a b INT UNSIGNED; INSERT t VALUES (4000000000)", OLD),
    Case("D", "CREATE SEQUENCE s AS INT; DO NEXTVAL(s); CREATE TABLE t (a INT DEFAULT NEXTVAL(s), b INT); INSERT t (b) VALUES (1)", MARIA[1:]),
    Case("D", "CREATE TABLE t (id INT, b TEXT); ALTER TABLE t MODIFY b TEXT NOT NULL, CONVERT TO CHARACTER SET utf8mb4; INSERT t VALUES (1,'aж')"),
    Case("D", "CREATE TABLE t (id INT, b TINYTEXT, c VARCHAR(9)); ALTER TABLE t CONVERT TO CHARACTER SET utf8, ADD d CHAR(3), MODIFY c VARCHAR(12); INSERT t VALUES (1,'ж','é','z')"),
    Case("D", "CREATE TABLE o (a INT, `x y` VARCHAR(3)); CREATE TABLE t LIKE o; INSERT t VALUES (1,'p')"),
    Case("D", "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT GENERATED ALWAYS AS (a*2) STORED); INSERT t (id,a) VALUES (1,2)", ("mysql-9.7", *MARIA)),
    Case("D", "CREATE TABLE t (a INT, v VECTOR(3)); INSERT t VALUES (1, STRING_TO_VECTOR('[1,2,-3.5]'))", MYSQL[:1]),
)  # fmt: skip


def _shown(value: Any) -> Any:
    """A value of a reader or of SELECT as text: numbers, bytes as digits, vectors as numbers."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, list | tuple):
        return [float(one) for one in value]
    return None if value is None else str(value)


def _selected(server: Server, database: str) -> list[list[Any]]:
    columns = server.query(
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 't' "
        "ORDER BY ORDINAL_POSITION",
        (database,),
    )
    parts = []
    for name, kind in columns:
        if kind in ("bit", "blob", "binary", "varbinary", "tinyblob", "mediumblob", "longblob"):
            parts.append(
                f"LOWER(HEX(`{name}`))" if kind != "bit" else f"CAST(`{name}` + 0 AS CHAR)"
            )
        elif kind == "vector":
            text = "VECTOR_TO_STRING" if server.flavor == "mysql" else "VEC_ToText"
            parts.append(f"{text}(`{name}`)")
        else:
            parts.append(
                f"CAST(`{name}` AS CHAR)" if kind in ("uuid", "inet6", "inet4") else f"`{name}`"
            )
    found = server.query(f"SELECT {', '.join(parts)} FROM {database}.t")
    kinds = [one[1] for one in columns]
    return [
        [
            [float(one) for one in _text(value)[1:-1].split(",")] if kind == "vector"
            else _text(value) if kind in ("enum", "set") else _shown(value)
            for kind, value in zip(kinds, row, strict=True)
        ]
        for row in found
    ]  # fmt: skip


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _rows(changes: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    for change in changes:
        if change.table == "t":
            yield change.database, [_shown(value) for value in change.after]


def _files(server: LocalServer, _: Any) -> Iterator[tuple[str, list[Any]]]:
    found = [Path(server.datadir) / one for one in server.binlog_files()]
    yield from _rows(rc.open_binlog(found, tables="*.t").changes())


def _batches(server: LocalServer, _: Any) -> Iterator[tuple[str, list[Any]]]:
    found = [Path(server.datadir) / one for one in server.binlog_files()]
    for batch in rc.open_binlog(found, tables="*.t").batches():
        database = batch.schema.metadata[b"database"].decode()
        for row in batch.to_pylist():
            yield database, [_shown(v) for k, v in row.items() if not k.startswith("_")]


def _earliest(server: LocalServer, _: Any) -> Iterator[tuple[str, list[Any]]]:
    with rc.follow(server.url(), tables="*.t", start="earliest", stop_at_end=True) as stream:
        yield from _rows(stream.changes())


def _resumed(server: LocalServer, _: Any) -> Iterator[tuple[str, list[Any]]]:
    store = MemoryPositionStore()
    while True:
        with rc.follow(
            server.url(), tables="*.t", start="earliest", stop_at_end=True, position_store=store,
            allow_empty=True,
        ) as stream:  # fmt: skip
            for transaction in stream.transactions():
                yield from _rows(transaction.changes)
                stream.acknowledge(transaction.position)
                if transaction.changes:
                    break
            else:
                return


WAYS: dict[str, Callable[[LocalServer, Any], Iterator[tuple[str, list[Any]]]]] = {
    "files": _files,
    "batches": _batches,
    "earliest": _earliest,
    "resumed": _resumed,
}


@pytest.mark.integration
@pytest.mark.timeout(400)
@pytest.mark.parametrize("full", [False, True], ids=["", "full"])
@pytest.mark.parametrize("name", ALL)
def test_every_entry_gives_what_select_gives(
    fresh_server: Callable[..., LocalServer], name: str, full: bool
) -> None:
    if full and name not in METADATA:
        pytest.skip("MySQL 5.6 has no metadata")
    metadata = "FULL" if full else METADATA.get(name)
    options = ["sync-binlog=0"] + ([f"binlog-row-metadata={metadata}"] if metadata else [])
    server = fresh_server(name, options)
    server.reset_binlog()
    cases = {f"c{at}": one for at, one in enumerate(CASES) if name in one.servers}
    found: dict[str, dict[str, list[list[Any]]]] = defaultdict(lambda: defaultdict(list))
    with rc.follow(server.url(), tables="*.t", start="latest", allow_empty=True) as stream:
        changes = stream.changes(timeout=20)
        server.execute("CREATE DATABASE begin")
        server.execute("CREATE TABLE begin.t (id INT)")
        server.execute("INSERT begin.t VALUES (1)")
        assert next(changes).database == "begin"
        refused = [case for database, case in cases.items() if not _written(server, database, case)]
        assert not refused, "\n".join(map(repr, refused))
        server.execute("INSERT begin.t VALUES (2)")
        for change in changes:
            assert change is not None
            if change.database == "begin":
                break
            for at, row in _rows([change]):
                found["latest"][at].append(row)
    for way, read in WAYS.items():
        for database, row in read(server, None):
            if database != "begin":
                found[way][database].append(row)
    wrong = []
    for database, case in cases.items():
        expected = _selected(server, database)
        for way in ("latest", *WAYS):
            rows = found[way][database]
            if rows != expected and not _is_unproven(case, way, rows, expected):
                wrong.append((case.row, way, case.sql, rows, expected))
    assert not wrong, "\n".join(map(repr, wrong))


def _written(server: LocalServer, database: str, case: Case) -> bool:
    with server.connected(charset="utf8mb4") as session:
        session.query(f"CREATE DATABASE {database} CHARACTER SET {case.charset}")
        session.select_db(database)
        session.query("SET sql_mode = ''")
        for sql in case.sql.split(";"):
            try:
                session.query(sql.replace("#", database).strip())
            except pymysql.err.MySQLError:
                return False
    return True


def _is_unproven(case: Case, way: str, rows: list[list[Any]], expected: list[list[Any]]) -> bool:
    """Files cannot say the character set of a text that a mode left out: its bytes are given, never another text."""
    if case.row != "A4" or way not in ("files", "batches"):
        return False
    return len(rows) == len(expected) and all(
        one in (wanted, wanted.encode("cp1251").hex())
        for row, known in zip(rows, expected, strict=True)
        for one, wanted in zip(row, known, strict=True)
    )
