"""What an ALTER TABLE does to the rows that are there: for mirrors column by column, for the lake as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.schema.ddl.statement_context import MODE_STRICT
from replica_client.schema.ddl.statements import makes_cascade, read_statement
from replica_client.schema.ddl.steps import AlterTable
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.stream.tables.alterations import (
    Alteration,
    CannotFollowError,
    alteration,
    sources_of,
)
from replica_client.stream.tables.conversions import conversion
from tests.unit.schema.tables import MARIADB, MYSQL, history_of

CREATE = """CREATE TABLE t (
    id INT PRIMARY KEY, a INT, b INT, v VARCHAR(10), e ENUM('x','y'), d DECIMAL(6,2), k BLOB
) CHARSET utf8mb4"""
SAME = "id=id a=a b=b v=v e=e d=d k=k"


def definitions(clauses: str, create: str = CREATE) -> tuple[str, TableModel, TableModel]:
    statement = f"ALTER TABLE t {clauses}"
    before, after = (history_of(create, *more).table(("d", "t")) for more in ((), (statement,)))
    assert isinstance(before, TableModel)
    assert isinstance(after, TableModel)
    return statement, before, after


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ADD c INT", f"{SAME} c+"),
        ("ADD c INT FIRST", f"c+ {SAME}"),
        ("DROP a", "id=id b=b v=v e=e d=d k=k"),
        ("CHANGE a z INT", "id=id z=a b=b v=v e=e d=d k=k"),
        ("RENAME COLUMN a TO z", "id=id z=a b=b v=v e=e d=d k=k"),
        ("MODIFY a BIGINT AFTER b", "id=id b=b a=a v=v e=e d=d k=k"),
        # A name may mean another column afterwards.
        ("DROP a, ADD a INT DEFAULT 5 FIRST", "a+ id=id b=b v=v e=e d=d k=k"),
        ("ADD a INT DEFAULT 5 FIRST, DROP a", "a+ id=id b=b v=v e=e d=d k=k"),
        ("CHANGE a b INT, CHANGE b a INT", "id=id b=a a=b v=v e=e d=d k=k"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "id=id b=a a=b v=v e=e d=d k=k"),
        ("CHANGE a z INT, ADD a INT DEFAULT 7", "id=id z=a b=b v=v e=e d=d k=k a+"),
        ("DROP b, CHANGE a b INT", "id=id b=a v=v e=e d=d k=k"),
        ("CHANGE A Z INT, DROP COLUMN B", "id=id Z=a v=v e=e d=d k=k"),
    ],
)
def test_where_each_column_comes_from(clauses: str, expected: str) -> None:
    statement, before, after = definitions(clauses)
    meaning = read_statement(statement, MYSQL)
    assert isinstance(meaning, AlterTable)
    found = " ".join(
        f"{one.column.name}={one.old.name}" if one.old is not None else f"{one.column.name}+"
        for one in sources_of(meaning, before, after)
    )
    assert found == expected


def test_a_column_that_is_there_is_not_added_again() -> None:
    statement = "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT DEFAULT 5"
    history = history_of(CREATE, context=MARIADB)
    before = history.table(("d", "t"))
    assert isinstance(before, TableModel)
    meaning = read_statement(statement, MARIADB)
    assert isinstance(meaning, AlterTable)
    assert [one.old for one in sources_of(meaning, before, before)] == list(before.columns)


@pytest.mark.parametrize(
    ("clauses", "names"),
    [
        ("ADD c INT", SAME),
        ("ADD c INT DEFAULT NULL FIRST", SAME),
        ("DROP a", "id=id b=b v=v e=e d=d k=k"),
        ("DROP a, ADD a INT", "id=id b=b v=v e=e d=d k=k"),
        ("CHANGE a b INT, CHANGE b a INT", "id=id b=a a=b v=v e=e d=d k=k"),
        ("CHANGE a z INT, ADD a INT", "id=id z=a b=b v=v e=e d=d k=k"),
        ("MODIFY a BIGINT", SAME),
        ("MODIFY id BIGINT", SAME),
        ("MODIFY v VARCHAR(11)", SAME),
        ("MODIFY v LONGTEXT", SAME),
        ("MODIFY e ENUM('x','y','z')", SAME),
        ("MODIFY d DECIMAL(7,2)", SAME),
        ("MODIFY k LONGBLOB", SAME),
        ("MODIFY a INT NOT NULL", SAME),
        ("ALTER a SET INVISIBLE", SAME),
        ("DEFAULT CHARSET latin1", SAME),
        ("CHANGE id key_ INT", "key_=id a=a b=b v=v e=e d=d k=k"),
    ],
)
def test_rows_stay_as_they_are(clauses: str, names: str) -> None:
    statement, before, after = definitions(clauses)
    strict = replace(MYSQL, sql_mode=MODE_STRICT)
    found = alteration(statement, strict, before, after)
    assert isinstance(found, Alteration), found
    assert found.names == dict(pair.split("=") for pair in names.split())
    assert found.only_adds(before) == (names == SAME)


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("ADD c INT DEFAULT 5", "the new column c has values in old rows"),
        ("ADD c INT NOT NULL", "the new column c has values in old rows"),
        ("ADD c TIMESTAMP", "the new column c has values in old rows"),
        ("ADD c INT AS (a + 1)", "the new column c has values in old rows"),
        ("DROP a, ADD a INT DEFAULT 5", "the new column a has values in old rows"),
        ("MODIFY a INT AS (b + 1) STORED", "the source makes the values of column a"),
        ("MODIFY a SMALLINT", "values of column a changed with its type"),
        ("MODIFY a INT UNSIGNED", "values of column a changed with its type"),
        ("MODIFY a CHAR(10)", "values of column a changed with its type"),
        ("MODIFY v VARCHAR(9)", "values of column v changed with its type"),
        ("MODIFY v CHAR(10)", "values of column v changed with its type"),
        ("MODIFY v VARCHAR(10) CHARSET latin1", "values of column v changed with its type"),
        ("MODIFY e ENUM('y','x')", "values of column e changed with its type"),
        ("MODIFY e ENUM('x')", "values of column e changed with its type"),
        ("MODIFY d DECIMAL(6,1)", "values of column d changed with its type"),
        ("MODIFY d DECIMAL(5,2)", "values of column d changed with its type"),
        ("MODIFY k TINYBLOB", "values of column k changed with its type"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (a)", "the primary key changed"),
        ("DROP PRIMARY KEY", "the primary key changed"),
        (
            "MODIFY a INT NOT NULL",
            "column a: NULL may have become another value, as the session was not strict",
        ),
        ("TRUNCATE PARTITION p0", "it says TRUNCATE PARTITION, which changes rows"),
        (
            "ADD FOREIGN KEY (a) REFERENCES o (id) ON DELETE CASCADE",
            "a foreign key may change its rows",
        ),
        ("EXCHANGE PARTITION p WITH TABLE o", "it says EXCHANGE PARTITION, which changes rows"),
        (
            "CONVERT TO CHARACTER SET latin1",
            "the primary key, the character set or versioning changed",
        ),
    ],
)
def test_what_is_not_certain_says_why(clauses: str, reason: str) -> None:
    statement, before, after = definitions(clauses)
    assert alteration(statement, MYSQL, before, after) == reason


def test_columns_of_a_table_without_a_key() -> None:
    create = "CREATE TABLE t (a INT, b INT)"
    statement, before, after = definitions("DROP a", create)
    reason = "columns of a table without a primary key changed"
    assert alteration(statement, MYSQL, before, after) == reason
    statement, before, after = definitions("ADD INDEX (a)", create)
    assert isinstance(alteration(statement, MYSQL, before, after), Alteration)


def test_definitions_that_do_not_go_with_the_statement() -> None:
    statement, before, _ = definitions("ADD c INT")
    _, _, other = definitions("DROP a")
    expected = "it is not certain which column became which"
    assert alteration(statement, MYSQL, before, other) == expected
    _, _, more = definitions("ADD c INT, ADD f INT")
    assert alteration(statement, MYSQL, before, more) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL)", True),
        ("CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES p (id))", False),
        ("CREATE TABLE c (p INT DEFAULT 'REFERENCES ON')", False),
        ("CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE RESTRICT)", False),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON UPDATE CASCADE", True),
    ],
)
def test_foreign_keys_that_change_rows(statement: str, expected: bool) -> None:
    assert makes_cascade(statement, MYSQL) == makes_cascade(statement, MARIADB) == expected


def test_who_logs_what_foreign_keys_do() -> None:
    assert MYSQL.logs_cascades
    assert not replace(MYSQL, version=(9, 5, 0)).logs_cascades
    assert not MARIADB.logs_cascades


@pytest.mark.parametrize(
    "charset", ["latin1", "latin2", "cp1251", "sjis", "gbk", "swe7", "ascii", "utf16"]
)
def test_ascii_text_goes_into_another_character_set_as_the_server_has_it(charset: str) -> None:
    old = ColumnModel("c", "varchar", length=10, charset="koi8r")
    convert = conversion(old, replace(old, charset=charset))
    assert convert is not None
    for character in map(chr, range(32, 127)):
        # swe7 has letters at ten places of ASCII: the server puts ? there.
        if charset == "swe7" and character in "@[\\]^`{|}~":
            with pytest.raises(CannotFollowError, match="changes its character set"):
                convert(f"a{character}")
        else:
            assert convert(f"a{character}") == f"a{character}"
