"""Names, labels and columns that are not what a mirror expects: it equals the source all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replica_client.sinks.registry import make_sink
from tests.integration.sink_comparison import compare_sink
from tests.integration.sink_driver import drive
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration

# The definition and the rows of tables of a database {db}.
INJECTIONS = (
    r"""CREATE TABLE {db}.labels (id INT PRIMARY KEY, e ENUM('\\', '), stolen TEXT) ENGINE=InnoDB """
    r"""SELECT host FROM mysql.user #', '\'', '50%%', '%s', '`', 'a\nb', '\\\'') )""",
    r"""INSERT INTO {db}.labels VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)""",
    r"""CREATE TABLE {db}.sets (id INT PRIMARY KEY, s SET('\\', '\'); DROP DATABASE x; #', '%') )""",
    r"""INSERT INTO {db}.sets VALUES (1, 1), (2, 2), (3, 7), (4, 0)""",
    r"""ALTER TABLE {db}.sets ADD v VARCHAR(80) NOT NULL DEFAULT '\\\'), x INT) SELECT 1; #%s%%\\'""",
    r"""ALTER TABLE {db}.sets ADD w VARBINARY(20) NOT NULL DEFAULT '\\''%s'""",
    r"""ALTER TABLE {db}.labels ADD f ENUM('\\', 'x\\') NOT NULL DEFAULT 'x\\' """,
)
ROW_NUMBERS = (
    "CREATE TABLE {db}.r1 (`rowid` INT, v INT)",
    "CREATE TABLE {db}.r2 (`ROWID` INT, `_rowid_` VARCHAR(9))",
    "CREATE TABLE {db}.r3 (`rowid` INT, `_Rowid_` INT, `oid` BIGINT UNSIGNED, v TEXT)",
    "INSERT INTO {db}.r1 VALUES (7, 1), (7, 2), (7, 2), (NULL, NULL)",
    "INSERT INTO {db}.r2 VALUES (7, 'a'), (7, 'b'), (7, 'b')",
    "INSERT INTO {db}.r3 VALUES (7, 1, 18446744073709551615, 'a'), (7, 1, NULL, 'a'), (7, 1, NULL, 'a')",
    "INSERT INTO {db}.r3 VALUES (8, 1, NULL, 'a'), (8, 1, NULL, 'a'), (8, 1, NULL, 'a')",
    "DELETE FROM {db}.r1 WHERE v = 2 LIMIT 1",
    "DELETE FROM {db}.r2 WHERE `_rowid_` = 'a'",
    "UPDATE {db}.r2 SET `ROWID` = 8 LIMIT 1",
    "DELETE FROM {db}.r3 WHERE oid IS NULL AND `rowid` = 7 LIMIT 1",
    "UPDATE {db}.r3 SET v = 'c' WHERE `rowid` = 8 LIMIT 2",
)


def run(server: LocalServer, database: str, statements: tuple[str, ...]) -> None:
    for statement in statements:
        server.execute(statement.format(db=database))


async def test_labels_and_defaults_are_not_run(
    any_server: LocalServer,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
    tmp_path: Path,
) -> None:
    source = any_server
    # Not the same one: its binlog would grow by what the mirror does.
    target = server("mariadb-11.8" if source.name == "mysql-9.7" else "mysql-9.7")
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    database = new_database(source)
    run(source, database, INJECTIONS)
    state = f"state_{database[-12:]}"
    own = {"url": target.url("root"), "database_prefix": "h_", "state_database": state}
    lite = {"path": str(tmp_path / "mirror.db")}
    tables = [f"{database}.*"]
    target.execute("SET GLOBAL log_output = 'TABLE'")
    target.execute("SET GLOBAL general_log = ON")
    try:
        for kind, options in (("mysql", own), ("sqlite", lite)):
            await drive(make_sink(kind, options), source, tables, start, commit_every=1)
            assert compare_sink(kind, options, source, tables=tables).tables == 2
        shown = "SELECT column_type FROM information_schema.columns WHERE table_schema = %s "
        shown += "AND data_type IN ('enum', 'set') ORDER BY table_name, ordinal_position"
        types = source.query(shown, (database,))
        assert len(types) == 3
        assert target.query(shown, (f"h_{database}",)) == types
        made = target.query(
            "SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND argument LIKE %s",
            (f"CREATE TABLE `h_{database}`%",),
        )
        assert len(made) == 2
        # Nothing stands behind the comment.
        texts = [text.decode() if isinstance(text, bytes) else text for (text,) in made]
        assert all(text.endswith("/0'") for text in texts), texts
    finally:
        target.execute("SET GLOBAL general_log = OFF")
        for name in (state, f"h_{database}"):
            target.execute(f"DROP DATABASE IF EXISTS `{name}`")


async def test_columns_named_as_row_numbers(
    server: Callable[[str], LocalServer], new_database: Callable[..., str], tmp_path: Path
) -> None:
    source = server("mysql-9.7")
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    database = new_database(source)
    run(source, database, ROW_NUMBERS)
    options = {"path": str(tmp_path / "mirror.db")}
    await drive(make_sink("sqlite", options), source, [f"{database}.*"], start, commit_every=1)
    assert compare_sink("sqlite", options, source, tables=[f"{database}.*"]).tables == 3


async def test_a_server_that_ignores_case_keeps_tables_apart(
    server: Callable[[str], LocalServer],
    fresh_server: Any,
    new_database: Callable[..., str],
) -> None:
    source = server("mysql-9.7")
    target: LocalServer = fresh_server("mariadb-11.8", ["lower-case-table-names=1"])
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    database = new_database(source)
    options = {"url": target.url("root"), "database_prefix": "m_"}

    async def stored() -> dict[tuple[int, ...], str]:
        """Names of the mirror's tables by what they hold."""
        await drive(make_sink("mysql", options), source, [f"{database}.*"], start, commit_every=1)
        names = target.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s",
            (f"m_{database}",),
        )
        return {
            tuple(row[0] for row in target.query(f"SELECT id FROM `m_{database}`.`{name}`")): name
            for (name,) in names
        }

    for number, name in enumerate(("Orders", "orders", "ORDERS", "Ürders", "ürders")):
        source.execute(f"CREATE TABLE {database}.{name} (id INT PRIMARY KEY)")
        source.execute(f"INSERT INTO {database}.{name} VALUES ({number})")
    found = await stored()
    assert sorted(found) == [(0,), (1,), (2,), (3,), (4,)]
    assert (found[0,], found[3,]) == ("orders", "ürders")
    # The names stay, after a restart too, until their tables go.
    source.execute(f"DROP TABLE {database}.Orders")
    source.execute(f"INSERT INTO {database}.orders VALUES (10)")
    source.execute(f"DROP TABLE {database}.ORDERS")
    source.execute(f"CREATE TABLE {database}.Orders (id INT PRIMARY KEY)")
    source.execute(f"INSERT INTO {database}.Orders VALUES (20)")
    again = await stored()
    assert sorted(again) == [(1, 10), (3,), (4,), (20,)]
    assert again[1, 10] == found[1,]
    assert again[20,] == "orders"
