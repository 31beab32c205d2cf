"""Types as definitions write them, and what the servers make of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.schema.ddl.statement_context import MODE_ORACLE, MODE_REAL_AS_FLOAT
from tests.unit.schema.tables import MARIADB, MYSQL, after


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INTEGER(11) ZEROFILL", "int unsigned"),
        ("INT8", "bigint"),
        ("BOOLEAN", "tinyint"),
        ("SERIAL", "bigint unsigned not null"),
        ("DEC", "decimal(10,0)"),
        ("NUMERIC(7)", "decimal(7,0)"),
        ("FIXED(7, 3) UNSIGNED", "decimal(7,3) unsigned"),
        ("FLOAT(24)", "float"),
        ("FLOAT(25)", "double"),
        ("FLOAT(30, 2)", "float"),
        ("REAL", "double"),
        ("DOUBLE PRECISION(9,2)", "double"),
        ("BIT", "bit(1)"),
        ("YEAR(4)", "year"),
        ("TIME(3)", "time(3)"),
        ("CHAR", "char(1) charset utf8mb4"),
        ("CHARACTER VARYING(9)", "varchar(9) charset utf8mb4"),
        ("NATIONAL CHARACTER VARYING(9)", "varchar(9) charset utf8mb3"),
        ("NCHAR VARCHAR(9)", "varchar(9) charset utf8mb3"),
        ("NVARCHAR(9)", "varchar(9) charset utf8mb3"),
        ("CHAR(9) BYTE", "binary(9)"),
        ("CHAR(9) CHARACTER SET binary", "binary(9)"),
        ("VARCHAR(9) CHARSET binary", "varbinary(9)"),
        ("TEXT CHARSET binary", "blob"),
        ("CHAR(9) ASCII", "char(9) charset latin1"),
        ("CHAR(9) UNICODE", "char(9) charset ucs2"),
        ("VARCHAR(9) COLLATE koi8r_bin", "varchar(9) charset koi8r"),
        ("VARCHAR(9) BINARY CHARACTER SET utf8", "varchar(9) charset utf8mb3"),
        ("VARCHAR(20000)", "mediumtext charset utf8mb4"),
        ("VARBINARY(65536)", "mediumblob"),
        ("TEXT(63)", "tinytext charset utf8mb4"),
        ("TEXT(64)", "text charset utf8mb4"),
        ("TEXT(16384)", "mediumtext charset utf8mb4"),
        ("BLOB(255)", "tinyblob"),
        ("BLOB(16777216)", "longblob"),
        ("LONG", "mediumtext charset utf8mb4"),
        ("LONG VARBINARY", "mediumblob"),
        ("JSON", "json"),
        ("GEOMETRYCOLLECTION SRID 4326", "geometry"),
        ("VECTOR(3)", "vector(3)"),
        ("ENUM('a ', 'b''c', 'd\\'e')", "enum('a','b''c','d''e') charset utf8mb4"),
        ("SET('a') CHARACTER SET latin1 NOT NULL", "set('a') charset latin1 not null"),
        ("ENUM('ä', 'ж') CHARACTER SET latin1", "enum('ä','?') charset latin1"),
        ("INT DEFAULT (1 + (2)) COMMENT 'NOT NULL' INVISIBLE", "int invisible"),
        ("INT DEFAULT NULL", "int"),
        ("INT REFERENCES x (y) ON DELETE SET NULL ON UPDATE NO ACTION NOT NULL", "int not null"),
        ("INT GENERATED ALWAYS AS (a + 1) STORED NOT NULL", "int not null"),
        ("INT CHECK (b > 0) NOT ENFORCED", "int"),
        ("VARCHAR(5) DEFAULT _latin1'x' NOT NULL", "varchar(5) charset utf8mb4 not null"),
        (
            "TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6) NULL",
            "timestamp(6)",
        ),
    ],
)
def test_types(sql: str, expected: str) -> None:
    assert after(f"CREATE TABLE t (c {sql})") == f"c {expected}"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("JSON", "longtext charset utf8mb4"),
        ("UUID", "uuid"),
        ("INET6 NOT NULL", "inet6 not null"),
        ("VARCHAR(9) COMPRESSED", "varchar(9) charset latin1"),
        ("VARCHAR(9) COLLATE uca1400_ai_ci", "varchar(9) charset latin1"),
        # COLLATE makes text of a binary type.
        ("BLOB COLLATE utf8mb4_bin", "text charset utf8mb4"),
        ("VARBINARY(5) COLLATE latin1_bin", "varchar(5) charset latin1"),
        ("BINARY(4) COLLATE utf8_bin", "char(4) charset utf8mb3"),
        ("BLOB COLLATE DEFAULT", "blob"),
        ("VARBINARY(5) COLLATE `binary`", "varbinary(5)"),
        ("VARCHAR(5) COLLATE `binary`", "varbinary(5)"),
        ("JSON COLLATE `binary`", "longblob"),
        ("JSON COLLATE latin1_bin", "longtext charset latin1"),
        ("JSON COLLATE uca1400_ai_ci", "longtext charset utf8mb4"),
        ("MARIADB_SCHEMA.DATE", "date"),
        ("ORACLE_SCHEMA.DATE", "datetime"),
        ("INT DEFAULT NEXT VALUE FOR s NOT NULL", "int not null"),
        (
            "VARCHAR(9) DEFAULT CONCAT('a', ', b INT') NOT NULL",
            "varchar(9) charset latin1 not null",
        ),
    ],
)
def test_types_of_mariadb(sql: str, expected: str) -> None:
    assert after(f"CREATE TABLE t (c {sql})", context=MARIADB) == f"c {expected}"


def test_sql_modes_change_types() -> None:
    real = replace(MYSQL, sql_mode=MODE_REAL_AS_FLOAT)
    assert after("CREATE TABLE t (c REAL)", context=real) == "c float"
    oracle = replace(MARIADB, sql_mode=MODE_ORACLE)
    sql = "CREATE TABLE t (a DATE, b NUMBER, c NUMBER(5), d VARCHAR2(5), e CLOB, f RAW(3), g BLOB)"
    assert after(sql, context=oracle) == (
        "a datetime, b double, c decimal(5,0), d varchar(5) charset latin1, e longtext charset latin1,"
        " f varbinary(3), g longblob"
    )
    # The servers list a BLOB as blob(65535) there.
    sized = (
        "CREATE TABLE t (a BLOB(10), b BLOB(256), c BLOB(65535), d BLOB(65536), e BLOB(16777216))"
    )
    assert after(sized, context=oracle) == ("a tinyblob, b blob, c blob, d mediumblob, e longblob")


@pytest.mark.parametrize(
    ("version", "expected"), [((5, 6, 24), "c enum('a','') charset utf8mb4"), ((9, 7, 0), None)]
)
def test_old_servers_end_labels_at_a_zero_byte(
    version: tuple[int, int, int], expected: str | None
) -> None:
    found = after(
        "CREATE TABLE t (c ENUM('a\\0b', '\\0'))", context=replace(MYSQL, version=version)
    )
    assert found == (expected or "c enum('a\0b','\0') charset utf8mb4")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("id INT AUTO_INCREMENT UNIQUE", "id int not null"),
        ("id INT NULL AUTO_INCREMENT UNIQUE", "id int not null"),
        ("id INT AUTO_INCREMENT NULL UNIQUE", "id int"),
        ("id INT SERIAL DEFAULT VALUE", "id int not null"),
    ],
)
def test_auto_increment_is_not_null(sql: str, expected: str) -> None:
    assert after(f"CREATE TABLE t ({sql})") == expected
