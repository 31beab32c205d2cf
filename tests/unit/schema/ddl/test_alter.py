"""ALTER TABLE, clause by clause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.schema.catalog import Unverified
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import AlterTable
from replica_client.schema.model import TableModel
from tests.unit.schema.tables import MARIADB, MYSQL, after, columns, history_of

CREATE = "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (b, c)) CHARSET latin1"
BASE = "a int, b int not null, c int not null"


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ADD d INT", f"{BASE}, d int"),
        ("ADD COLUMN d INT FIRST", f"d int, {BASE}"),
        ("ADD d INT AFTER a", "a int, d int, b int not null, c int not null"),
        ("ADD (d INT, e CHAR(2), KEY (d))", f"{BASE}, d int, e char(2) charset latin1"),
        ("ADD d INT FIRST, ADD e INT AFTER d", f"d int, e int, {BASE}"),
        ("DROP a", "b int not null, c int not null"),
        ("DROP COLUMN a, DROP b RESTRICT", "c int not null"),
        (
            "MODIFY a BIGINT UNSIGNED NOT NULL",
            "a bigint unsigned not null, b int not null, c int not null",
        ),
        ("MODIFY a INT AFTER c", "b int not null, c int not null, a int"),
        ("MODIFY c INT FIRST", "c int not null, a int, b int not null"),
        ("CHANGE a z CHAR(3) AFTER b", "b int not null, z char(3) charset latin1, c int not null"),
        ("CHANGE a b INT, CHANGE b a INT", "b int, a int not null, c int not null"),
        ("RENAME COLUMN a TO c, RENAME COLUMN c TO a", "c int, b int not null, a int not null"),
        ("CHANGE a z INT, ADD y INT AFTER z", "z int, y int, b int not null, c int not null"),
        ("DROP a, ADD a CHAR(1) FIRST", "a char(1) charset latin1, b int not null, c int not null"),
        (
            "DROP PRIMARY KEY, MODIFY b INT, ADD PRIMARY KEY (a)",
            "a int not null, b int, c int not null",
        ),
        ("ALTER a SET INVISIBLE", "a int invisible, b int not null, c int not null"),
        ("DEFAULT CHARSET utf8mb4, ADD d CHAR(1)", f"{BASE}, d char(1) charset utf8mb4"),
        ("CONVERT TO CHARACTER SET utf8mb4, ADD d CHAR(1)", f"{BASE}, d char(1) charset utf8mb4"),
        ("ADD d INT PARTITION BY HASH (d) PARTITIONS 4", f"{BASE}, d int"),
        ("ADD d INT, ALGORITHM=INPLACE, LOCK=NONE", f"{BASE}, d int"),
    ],
)
def test_clauses(clauses: str, expected: str) -> None:
    assert after(CREATE, f"ALTER TABLE t {clauses}") == expected


@pytest.mark.parametrize(
    "clauses",
    [
        "",
        "ENGINE=InnoDB",
        "ENGINE InnoDB ROW_FORMAT=DYNAMIC, COMMENT 'ADD COLUMN x INT, DROP a'",
        "ADD INDEX i (a)",
        "ADD UNIQUE KEY (a), ADD FULLTEXT (a), ADD SPATIAL INDEX (b)",
        "ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES o (a) ON DELETE SET NULL",
        "ADD CHECK (a > 1), DROP CHECK k, DROP CONSTRAINT k, ALTER CHECK k NOT ENFORCED",
        "DROP INDEX i, DROP KEY j, DROP FOREIGN KEY f",
        "RENAME INDEX i TO j",
        "ALTER INDEX i INVISIBLE",
        "ALTER a SET DEFAULT 5, ALTER COLUMN b DROP DEFAULT",
        "ORDER BY a, b DESC",
        "FORCE",
        "DISABLE KEYS",
        "AUTO_INCREMENT = 5",
        "DEFAULT COLLATE = utf8mb4_bin",
        "ADD PARTITION (PARTITION p VALUES LESS THAN (5))",
        "DROP PARTITION p, q",
        "REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9), PARTITION s VALUES IN (1))",
        "EXCHANGE PARTITION p WITH TABLE o WITHOUT VALIDATION",
        "REMOVE PARTITIONING",
        "PARTITION BY RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1, 2))",
        "IMPORT TABLESPACE",
        "SECONDARY_LOAD",
        "UNION = (x, y), INSERT_METHOD LAST",
    ],
)
def test_clauses_that_change_no_shape(clauses: str) -> None:
    assert after(CREATE, f"ALTER TABLE t {clauses}") == BASE


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("DROP PARTITION p, q", "DROP PARTITION"),
        ("TRUNCATE PARTITION ALL", "TRUNCATE PARTITION"),
        ("EXCHANGE PARTITION p WITH TABLE e.o WITHOUT VALIDATION", "EXCHANGE PARTITION"),
        ("CONVERT PARTITION p TO TABLE n", "CONVERT PARTITION"),
        ("CONVERT TABLE n TO PARTITION p VALUES LESS THAN (5)", "CONVERT TABLE"),
        ("REPAIR PARTITION p", "REPAIR PARTITION"),
        ("DISCARD TABLESPACE", "DISCARD TABLESPACE"),
        ("IMPORT PARTITION p TABLESPACE", "IMPORT TABLESPACE"),
        ("ROW_FORMAT=DYNAMIC ENGINE = BlackHole", "ENGINE BLACKHOLE"),
        ("UNION = (x, y)", "UNION"),
        ("ENGINE=InnoDB", ""),
        ("ADD PARTITION (PARTITION p VALUES LESS THAN (5))", ""),
        ("REORGANIZE PARTITION p INTO (PARTITION r VALUES LESS THAN (9))", ""),
        ("PARTITION BY HASH (a) PARTITIONS 4", ""),
        ("COALESCE PARTITION 2", ""),
        ("TABLESPACE = s", ""),
    ],
)
def test_clauses_that_change_which_rows_there_are(clauses: str, expected: str) -> None:
    for ignore in ("", "IGNORE "):
        meaning = read_statement(f"ALTER {ignore}TABLE t {clauses}", MARIADB)
        assert isinstance(meaning, AlterTable)
        wanted = [word for word in (ignore.strip(), expected) if word]
        assert list(meaning.row_clauses) == wanted


def test_tables_that_an_alteration_changes_too() -> None:
    history = history_of(CREATE, "CREATE TABLE o (a INT)")
    changes = history.run("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE o", MYSQL)
    assert [(one.kind, one.table) for one in changes] == [
        ("alter_table", ("d", "t")),
        ("alter_table", ("d", "o")),
    ]
    assert changes[1].before is changes[1].after is not None
    changes = history.run("ALTER TABLE t CONVERT TABLE o TO PARTITION p VALUES IN (1)", MARIADB)
    assert [(one.kind, one.table) for one in changes] == [
        ("alter_table", ("d", "t")),
        ("drop_table", ("d", "o")),
    ]


def test_primary_key_follows_its_columns() -> None:
    history = history_of(CREATE, "ALTER TABLE t CHANGE b x INT, DROP c")
    model = history.table(("d", "t"))
    assert isinstance(model, TableModel)
    assert model.primary_key == (("x", 0),)
    history = history_of(CREATE, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (A (5))")
    model = history.table(("d", "t"))
    assert isinstance(model, TableModel)
    assert model.primary_key == (("a", 5),)


def test_conversion_makes_room_for_as_many_characters() -> None:
    create = (
        "CREATE TABLE t (a TEXT, b TINYTEXT, c VARCHAR(20000), d BLOB, e ENUM('x')) CHARSET latin1"
    )
    assert after(create, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4") == (
        "a mediumtext charset utf8mb4, b text charset utf8mb4, c mediumtext charset utf8mb4, d blob, "
        "e enum('x') charset utf8mb4"
    )


@pytest.mark.parametrize(
    ("clause", "charset"),
    [
        ("CHARSET utf8mb4", "utf8mb4"),
        ("CHAR SET = utf8mb4", "utf8mb4"),
        ("CHARACTER SET 'utf8mb4'", "utf8mb4"),
        ("CHARACTER SET DEFAULT", "utf8mb4"),
        ("CHARACTER SET latin2 COLLATE latin2_bin", "latin2"),
        ("CHARACTER SET DEFAULT COLLATE latin2_bin", "latin2"),
        ("CHARACTER SET latin2 COLLATE DEFAULT", "latin2"),
    ],
)
def test_how_conversions_name_the_character_set(clause: str, charset: str) -> None:
    create = "CREATE TABLE t (a CHAR(3)) CHARSET latin1"
    assert after(create, f"ALTER TABLE t CONVERT TO {clause}") == f"a char(3) charset {charset}"


def test_conversion_keeps_the_bytes_of_labels() -> None:
    # As all servers do: SHOW CREATE TABLE says the same.
    create = "CREATE TABLE t (a ENUM('a1', 'é', 'ж')) CHARSET utf8mb4"
    alter = "ALTER TABLE t CONVERT TO CHARACTER SET "
    assert after(create, f"{alter} latin1") == "a enum('a1','Ã©','Ð¶') charset latin1"
    assert after(create, f"{alter} ucs2") == "a enum('愱','쎩','킶') charset ucs2"
    unreadable = history_of(create.replace("utf8mb4", "latin1"), f"{alter} utf8mb4")
    model = unreadable.table(("d", "t"))
    assert isinstance(model, TableModel)
    assert model.columns[0].labels is None


def test_old_servers_lose_wide_labels() -> None:
    create, alter = "CREATE TABLE t (a ENUM('ä')) CHARSET ucs2", "ALTER TABLE t ADD b INT"
    assert after(create, alter) == "a enum('ä') charset ucs2, b int"
    old = replace(MYSQL, version=(5, 6, 24))
    assert after(create, context=old) == "a enum('ä') charset ucs2"
    assert after(create, alter, context=old) == "a enum charset ucs2, b int"


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ADD COLUMN IF NOT EXISTS a CHAR(1)", BASE),
        ("ADD IF NOT EXISTS d INT", f"{BASE}, d int"),
        ("DROP COLUMN IF EXISTS x, DROP IF EXISTS a", "b int not null, c int not null"),
        ("MODIFY IF EXISTS x INT, CHANGE IF EXISTS y z INT", BASE),
        ("RENAME COLUMN IF EXISTS x TO y", BASE),
        ("DROP INDEX IF EXISTS i, ADD INDEX IF NOT EXISTS i (a)", BASE),
        (
            "ADD SYSTEM VERSIONING",
            f"{BASE}, row_start timestamp(6) not null invisible, row_end timestamp(6) not null invisible",
        ),
        ("ADD PERIOD FOR p (a, b)", "a int not null, b int not null, c int not null"),
    ],
)
def test_clauses_of_mariadb(clauses: str, expected: str) -> None:
    assert after(CREATE, f"ALTER TABLE IF EXISTS t {clauses}", context=MARIADB) == expected


def test_versioned_tables() -> None:
    create = "CREATE TABLE t (a INT) WITH SYSTEM VERSIONING"
    period = "row_start timestamp(6) not null invisible, row_end timestamp(6) not null invisible"
    assert after(create, context=MARIADB) == f"a int, {period}"
    assert after(create, "ALTER TABLE t ADD b INT", context=MARIADB) == f"a int, b int, {period}"
    assert after(create, "ALTER TABLE t DROP SYSTEM VERSIONING", context=MARIADB) == "a int"
    own = (
        "CREATE TABLE t (s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) AS ROW END, "
        "PERIOD FOR SYSTEM_TIME (s, e), a INT) WITH SYSTEM VERSIONING"
    )
    assert after(own, context=MARIADB) == (
        "s timestamp(6) not null, e timestamp(6) not null, a int"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t FROBNICATE a",
        "ALTER TABLE t ADD COLUMN d HYPERINT",
        "ALTER TABLE t DROP COLUMN nothing",
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t ADD d INT AFTER nothing",
        "ALTER TABLE t ADD d CHAR(3) CHARACTER SET klingon",
        "ALTER TABLE t CONVERT TO CHARACTER SET klingon",
        "ALTER TABLE t ADD (d INT",
        "ALTER TABLE t ALTER a FROB",
    ],
)
def test_what_is_not_understood_is_to_be_verified(statement: str) -> None:
    history = history_of(CREATE, "CREATE TABLE other (a INT)", statement)
    assert isinstance(history.table(("d", "t")), Unverified)
    assert columns(history, "other") == "a int"


def test_partitions_become_tables_and_back() -> None:
    history = history_of(
        CREATE,
        "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
        "ALTER TABLE t CONVERT TABLE u TO PARTITION q VALUES LESS THAN (5)",
        context=MARIADB,
    )
    assert [version.state is not None for version in history.versions(("d", "u"))] == [True, True]
    assert history.known_tables("d") == [("d", "t")]


def test_a_generated_primary_key_stays_first() -> None:
    create = (
        "CREATE TABLE t (my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */, a INT, "
        "PRIMARY KEY (my_row_id))"
    )
    key = "my_row_id bigint unsigned not null invisible"
    assert after(create, "ALTER TABLE t ADD b INT FIRST") == f"{key}, b int, a int"
    # Not that of a MyISAM table. Where nothing else would tell, the order is not known.
    same = history_of(create, "ALTER TABLE t ADD b BIGINT UNSIGNED NOT NULL FIRST")
    assert isinstance(same.table(("d", "t")), Unverified)
    assert after(create, "ALTER TABLE t ADD b BIGINT UNSIGNED NOT NULL FIRST, DROP my_row_id") == (
        "b bigint unsigned not null, a int"
    )
    own = create.replace("/*!80023 INVISIBLE */", "")
    assert after(own, "ALTER TABLE t ADD b INT FIRST").startswith("b int")


def test_a_name_that_occurs_twice_is_not_understood() -> None:
    history = history_of(CREATE, "ALTER TABLE t RENAME COLUMN a TO b")
    assert isinstance(history.table(("d", "t")), Unverified)


@pytest.mark.parametrize(
    ("statement", "is_gone"),
    [
        ("ALTER TABLE t DROP PRIMARY KEY", True),
        ("ALTER TABLE t DROP INDEX `PRIMARY`", True),
        ("ALTER TABLE t DROP KEY IF EXISTS `primary`", True),
        ("ALTER TABLE t DROP CONSTRAINT `PRIMARY`", True),
        ("DROP INDEX `primary` ON t", True),
        ("DROP INDEX IF EXISTS `Primary` ON d.t", True),
        ("DROP ONLINE INDEX `PRIMARY` ON t", True),
        ("ALTER TABLE t DROP INDEX `primary2`", False),
        ("DROP INDEX i ON t", False),
        ("DROP INDEX `PRIMARY` ON u", False),
        ("ALTER TABLE t DROP FOREIGN KEY `PRIMARY`", False),
    ],
)
def test_the_primary_key_is_dropped_by_the_name_of_its_index(statement: str, is_gone: bool) -> None:
    """So does the schema migration of TiDB's tests: DROP INDEX `primary`."""
    history = history_of("CREATE TABLE t (a INT PRIMARY KEY, b INT)", statement)
    assert history.table(("d", "t")).primary_key == (() if is_gone else (("a", 0),))


FISH = "ENUM('🐟', 'a')"
NO_MODEL = "CREATE TABLE x.t (a TEXT, b DECIMAL(9,2))"


@pytest.mark.parametrize(
    ("create", "clauses", "expected"),
    [
        # Without CONVERT TO a new TEXT has the size that is written.
        ("a VARCHAR(10)", "MODIFY a TEXT", "a text charset latin1"),
        ("a VARCHAR(10)", "MODIFY a TEXT, CONVERT TO CHARACTER SET utf8mb4", "a tinytext charset utf8mb4"),
        ("a TEXT", "MODIFY a TEXT, CONVERT TO CHARACTER SET utf8mb4", "a mediumtext charset utf8mb4"),
        ("a TEXT", "MODIFY a TEXT(9), CONVERT TO CHARACTER SET utf8mb4", "a tinytext charset utf8mb4"),
        ("a INT", "MODIFY a TEXT, CONVERT TO CHARACTER SET utf8mb4", "a tinytext charset utf8mb4"),
        # Its character set is that of all text but the binary one, whatever a definition says.
        (
            "a INT",
            "CONVERT TO CHARACTER SET utf8mb4, ADD d CHAR(1) CHARACTER SET greek, ADD e CHAR(3) CHARACTER SET binary",
            "a int, d char(1) charset utf8mb4, e binary(3)",
        ),
    ],
)  # fmt: skip
def test_conversion_with_other_clauses(create: str, clauses: str, expected: str) -> None:
    """As MySQL 9.7 does; older servers and MariaDB keep the size that is written."""
    statements = (f"CREATE TABLE t ({create}) CHARSET latin1", f"ALTER TABLE t {clauses}")
    assert after(*statements) == expected
    for context in (replace(MYSQL, version=(5, 6, 24)), MARIADB):
        written = expected
        if "MODIFY a TEXT," in clauses:
            written = "a text charset utf8mb4"
        assert after(*statements, context=context) == written


@pytest.mark.parametrize(
    "clauses",
    [
        "CONVERT TO CHARACTER SET utf8mb4",
        "MODIFY a TEXT, CONVERT TO CHARACTER SET utf8mb4",
        "DROP a, MODIFY b TEXT, CONVERT TO CHARACTER SET utf8mb4",
    ],
)
def test_conversion_from_what_is_not_known(clauses: str) -> None:
    """The size depends on a character set, or on a type's number of characters, that is not known."""
    history = history_of(NO_MODEL, f"ALTER TABLE x.t {clauses}")
    assert isinstance(history.table(("x", "t")), Unverified)


def test_labels_that_are_not_known_stay_so_in_a_conversion() -> None:
    """MariaDB's utf8 may be utf8mb4: then the first label is no question mark."""
    create = f"CREATE TABLE t (e {FISH} CHARACTER SET utf8)"
    model = history_of(create, context=MARIADB).table(("d", "t"))
    assert isinstance(model, TableModel)
    assert model.columns[0].unknown_labels == (1,)
    alter = "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"
    model = history_of(create, alter, context=MARIADB).table(("d", "t"))
    assert isinstance(model, TableModel)
    assert model.columns[0].labels is None
    added = f"ALTER TABLE t CONVERT TO CHARACTER SET utf8, ADD f {FISH}"
    model = history_of("CREATE TABLE t (a INT)", added, context=MARIADB).table(("d", "t"))
    assert isinstance(model, TableModel)
    assert (model.columns[1].labels, model.columns[1].unknown_labels) == (("?", "a"), (1,))


@pytest.mark.parametrize("context", [MYSQL, replace(MARIADB, version=(10, 6, 0))])
def test_where_utf8_has_one_meaning_labels_are_known(context: StatementContext) -> None:
    create = f"CREATE TABLE t (e {FISH} CHARACTER SET utf8)"
    model = history_of(create, context=context).table(("d", "t"))
    assert isinstance(model, TableModel)
    assert (model.columns[0].labels, model.columns[0].unknown_labels) == (("?", "a"), ())


@pytest.mark.parametrize(
    ("version", "column", "clauses", "charset"),
    [
        # MySQL 5.6 keeps the default where nothing is to be done, and then it is not known.
        ((5, 6, 24), "INT", "CONVERT TO CHARACTER SET utf8mb4", None),
        ((5, 6, 24), "CHAR(1) CHARSET utf8mb4", "CONVERT TO CHARACTER SET utf8mb4", None),
        ((5, 6, 24), "CHAR(1)", "CONVERT TO CHARACTER SET utf8mb4", "utf8mb4"),
        ((5, 6, 24), "CHAR(1)", "CONVERT TO CHARACTER SET latin1", "latin1"),
        ((5, 6, 24), "INT", "ADD b INT, CONVERT TO CHARACTER SET utf8mb4", "utf8mb4"),
        ((9, 7, 4), "INT", "CONVERT TO CHARACTER SET utf8mb4", "utf8mb4"),
    ],
)
def test_the_default_after_a_conversion(
    version: tuple[int, int, int], column: str, clauses: str, charset: str | None
) -> None:
    statements = (f"CREATE TABLE t (a {column}) CHARSET latin1", f"ALTER TABLE t {clauses}")
    model = history_of(*statements, context=replace(MYSQL, version=version)).table(("d", "t"))
    assert isinstance(model, TableModel)
    assert model.charset == charset
