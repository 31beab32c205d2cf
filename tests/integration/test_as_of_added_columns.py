"""Columns that ALTER TABLE added, in rows of before, against the server's own SELECT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest

from replica_client.archive.archive import open_archive
from replica_client.archive.as_of.moments import moment_of
from replica_client.archive.as_of.table_course import course_before
from replica_client.errors import DataLossError
from tests.integration.as_of_instants import selected
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration

KNOWN = (
    *("INT", "INT DEFAULT NULL", "INT DEFAULT 7", "INT NOT NULL DEFAULT -7", "INT DEFAULT +3", "INT DEFAULT '7'"),
    *("BIGINT UNSIGNED DEFAULT 18446744073709551615", "TINYINT(1) DEFAULT TRUE", "INT NOT NULL", "BIT(3) NOT NULL"),
    *("DOUBLE DEFAULT 0.1", "DOUBLE DEFAULT -1e-7", "FLOAT DEFAULT 0.1", "DOUBLE NOT NULL", "BIT(9) DEFAULT 5"),
    *("DECIMAL(5,1) DEFAULT 1.26", "DECIMAL(40,10) DEFAULT '-1.5'", "DECIMAL(5,2) NOT NULL", "YEAR DEFAULT 2026"),
    *("VARCHAR(9) DEFAULT 'é😀'", "VARCHAR(9) CHARACTER SET latin1 DEFAULT 'é'", "VARCHAR(9) DEFAULT ''"),
    *("VARCHAR(9) CHARACTER SET utf16 DEFAULT 'é😀'", "CHAR(4) DEFAULT 'a  '", "VARCHAR(9) DEFAULT 'a  '"),
    *("CHAR(3) CHARACTER SET cp1251 DEFAULT 'я'", "VARCHAR(9) DEFAULT 'it''s \\\\'", "VARCHAR(9) NOT NULL"),
    *("CHAR(3) NOT NULL", "TEXT NOT NULL", "VARCHAR(9) DEFAULT \"two\"", "VARCHAR(9) DEFAULT 12", "YEAR NOT NULL"),
    *("BINARY(3) NOT NULL", "VARBINARY(3) NOT NULL", "BLOB NOT NULL", "VARBINARY(4) DEFAULT 'ab'"),
    *("DATE DEFAULT '2026-01-02'", "DATE NOT NULL", "DATETIME NOT NULL", "DATETIME(3) NOT NULL", "TIME(2) NOT NULL"),
    *("DATETIME(3) DEFAULT '2026-01-02 03:04:05.6'", "TIME DEFAULT '-10:11:12'", "TIME(6) DEFAULT '100:00:00.000001'"),
    *("ENUM('x','y') DEFAULT 'y'", "ENUM('x','y') NOT NULL", "ENUM('é','y') CHARACTER SET latin1 DEFAULT 'é'"),
    *("SET('x','y','z') DEFAULT 'z,x'", "SET('x','y') NOT NULL", "SET('x','y') DEFAULT ''", "INT DEFAULT 5 FIRST"),
    *("JSON", "TIMESTAMP NULL", "INT DEFAULT 3 COMMENT 'DEFAULT 4'", "INT DEFAULT 3 AFTER a"),
    *("DATE DEFAULT '0000-00-00'", "TIME(6) DEFAULT '00:00:00'"),
)  # fmt: skip
"""Columns whose value in rows of before is known."""

PERHAPS = (
    *("BIT(8) DEFAULT '5'", "BIT(4) DEFAULT b'101'", "BIT(4) DEFAULT 0x5", "INT DEFAULT 0x10", "INT DEFAULT x'10'"),
    *("INT DEFAULT 1.6", "INT DEFAULT '1.6'", "INT DEFAULT ' 7'", "INT DEFAULT (1 + 1)", "INT DEFAULT (3)"),
    *("ENUM('2','1') DEFAULT 1", "ENUM('2','1') DEFAULT '1'", "SET('2','1') DEFAULT 1", "ENUM('x','y') DEFAULT 'Y'"),
    *("ENUM('a ','b') DEFAULT 'a'", "VARCHAR(40) DEFAULT (UUID())", "DATE DEFAULT (CURRENT_DATE)"),
    *("DATETIME DEFAULT NOW()", "TIMESTAMP NULL DEFAULT NOW()", "TIMESTAMP DEFAULT '2026-01-02 03:04:05'"),
    *("TIMESTAMP NOT NULL", "TIMESTAMP", "DATE DEFAULT '2026-1-2'", "DATE DEFAULT 20260102", "DATE DEFAULT '26-01-02'"),
    *("DATETIME DEFAULT '2026-01-02 03:04:05.6'", "DATETIME DEFAULT '2026-01-02'", "TIME DEFAULT '10:11:12.6'"),
    *("TIME DEFAULT '1 10:11:12'", "TIME DEFAULT 101112", "YEAR DEFAULT 26", "YEAR DEFAULT '0'", "YEAR DEFAULT '26'"),
    *("VARBINARY(4) DEFAULT x'00FF'", "VARBINARY(4) DEFAULT 'é'", "BINARY(4) DEFAULT 'a'", "VARCHAR(4) DEFAULT x'41'"),
    *("VARCHAR(9) DEFAULT _latin1 x'E9'", "VARCHAR(9) DEFAULT N'é'", "VARCHAR(9) DEFAULT 'a' 'b'"),
    *("CHAR(9) DEFAULT 1e3", "CHAR(9) DEFAULT 1000000", "VARCHAR(9) DEFAULT 1.50", "VARCHAR(9) DEFAULT 007"),
    *("VARCHAR(9) DEFAULT TRUE", "DOUBLE DEFAULT '1e2'", "DOUBLE DEFAULT .5", "DECIMAL(5,1) DEFAULT 1e1"),
    *("DECIMAL(3,0) DEFAULT 2.5", "INT DEFAULT -0"),
    *("POINT NOT NULL", "SERIAL", "INT AS (a + 1) STORED", "INT AS (a + 1) VIRTUAL", "INT UNIQUE AUTO_INCREMENT"),
    *("UUID DEFAULT '123e4567-e89b-12d3-a456-426614174000'", "UUID NOT NULL", "INET6 NOT NULL", "DATETIME DEFAULT 0"),
    *("TINYINT DEFAULT FALSE", "BIT DEFAULT TRUE", "BOOLEAN NOT NULL", "DOUBLE DEFAULT TRUE"),
    *("TIME DEFAULT '-00:00:00'", "CHAR(9) DEFAULT 0x41"),
    *("DATE DEFAULT DATE'2026-01-02'", "DATETIME DEFAULT TIMESTAMP'2026-01-02 03:04:05'", "DOUBLE DEFAULT -0e0"),
    *("CHAR(4) CHARACTER SET binary DEFAULT 'ab'", "VARCHAR(4) CHARACTER SET ucs2 DEFAULT 'ab'", "TEXT DEFAULT 'é'"),
    *("FLOAT(7,2) DEFAULT 1.239", "DOUBLE(9,2) DEFAULT 1.239", "INT ZEROFILL DEFAULT 5", "FLOAT DEFAULT 16777217"),
    *("DOUBLE UNSIGNED DEFAULT 1.5", "VARCHAR(9) DEFAULT -5", "DECIMAL(5,1) DEFAULT TRUE", "ENUM('','x') DEFAULT ''"),
)  # fmt: skip
"""Columns whose value is that of the server, or which are refused; a server may not have them at all."""


def _added(
    server: LocalServer, database: str, directory: Path, definitions: tuple[str, ...], sql_mode: str
) -> tuple[list[str], list[str], list[str]]:
    """Add columns to a table with rows; return which were equal to the server's, refused and wrong."""
    server.rotate()
    first = server.binlog_position()[0]
    table = f"{database}.t"
    added: dict[str, str] = {}
    with server.connected(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute(f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT) CHARACTER SET utf8mb4")
        cursor.execute(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
        cursor.execute(f"DELETE FROM {table} WHERE a = 1")
        cursor.execute(f"SET sql_mode = '{sql_mode}'")
        for number, definition in enumerate(definitions):
            try:
                cursor.execute(f"ALTER TABLE {table} ADD COLUMN c{number} {definition}")
            except pymysql.err.MySQLError:
                continue  # the server has no such column
            added[f"c{number}"] = definition
            if number == len(definitions) // 2:
                cursor.execute(f"ALTER TABLE {table} CHANGE b d INT, ADD COLUMN e INT DEFAULT 1")
                cursor.execute(f"UPDATE {table} SET d = 5 WHERE a = 3")
        cursor.execute(f"DELETE FROM {table} WHERE a = 2")
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"INSERT INTO {table} (a) VALUES (4)")
    names = server.binlog_files()
    files = [server.binlog_path(name) for name in names[names.index(first) :]]
    archive = open_archive(files, index_directory=directory)
    course = course_before(archive, (database, "t"), None, moment_of(archive, "latest"))
    errors = {name: one.error for name, one in course.added.items() if one.error is not None}
    if errors:
        with pytest.raises(DataLossError, match="cannot be followed forward over the statement at"):
            archive.as_of(table, "latest")
    found = archive.as_of(table, "latest", without=list(errors)).read_all().sort_by("a")
    theirs = selected(server, table).sort_by("a")
    assert found["d"].to_pylist() == theirs["d"].to_pylist() == [5, None]
    lossless = [
        {key: dict(row or ()).get(key) for key in added if key not in errors}
        for row in found["_lossless"].to_pylist()
    ]
    expected = [
        {key: dict(row or ()).get(key) for key in added if key not in errors}
        for row in theirs["_lossless"].to_pylist()
    ]
    equal, wrong = [], []
    for name, definition in added.items():
        if name in errors:
            continue
        ours = found[name].to_pylist(), [row[name] for row in lossless]
        server_has = theirs[name].to_pylist(), [row[name] for row in expected]
        same = repr(ours) == repr(server_has) and found[name].type == theirs[name].type
        (equal if same else wrong).append(
            definition if same else f"{definition}: {ours}, not {server_has}"
        )
    return equal, [f"{added[name]}: {error}" for name, error in errors.items()], wrong


@pytest.mark.parametrize(
    ("name", "sql_mode"), [("mysql-9.7", ""), ("mariadb-11.8", "STRICT_TRANS_TABLES")]
)
@pytest.mark.parametrize("definitions", [KNOWN, PERHAPS], ids=["known", "perhaps"])
def test_rows_of_before_have_the_value_that_the_server_gave_them(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    name: str,
    sql_mode: str,
    definitions: tuple[str, ...],
) -> None:
    source = server(name)
    equal, refused, wrong = _added(source, new_database(source), tmp_path, definitions, sql_mode)
    assert not wrong, "\n".join(wrong)
    if definitions is KNOWN:
        assert not refused
        assert len(equal) > len(KNOWN) - 6
    else:
        assert any("is an expression" in one for one in refused)
