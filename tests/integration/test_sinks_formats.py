"""The shapes of other programs, field by field as their documentation shows them, from real servers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from replica_client import __version__, open_binlog
from replica_client.rows.selection import Selection
from replica_client.sinks.formats.line_format import make_format
from replica_client.stream.transactions.assembler import AssemblyOptions
from tests.integration import mirror_statements as statements
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration

Lines = Callable[..., list[dict[str, Any]]]


class Logged:
    """A database of the test's own, and the lines of a format of what is done in it."""

    def __init__(self, server: LocalServer, database: str, start: str) -> None:
        self.server, self.database, self.start = server, database, start

    def run(self, *texts: str) -> None:
        for text in texts:
            self.server.execute(text.format(db=self.database))

    def lines(self, name: str, part_size: int = 1 << 20, **options: Any) -> list[dict[str, Any]]:
        paths = [self.server.binlog_path(file) for file in self.server.binlog_files()]
        assembly = AssemblyOptions(Selection([f"{self.database}.*"]), part_size=part_size)
        reader = open_binlog(paths, start=self.start, assembly=assembly)
        line_format = make_format(name, options)
        return [
            json.loads(line)
            for transaction in reader.transactions()
            for line in line_format.lines(transaction)
        ]


@pytest.fixture(params=["mysql-9.7", "mariadb-11.8"])
def logged(
    request: pytest.FixtureRequest,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
) -> Logged:
    one = server(request.param)
    database = new_database(one)
    one.rotate()
    return Logged(one, database, f"{one.binlog_files()[-1]}:4")


E = (
    "CREATE TABLE {db}.e (id INT(10) NOT NULL PRIMARY KEY AUTO_INCREMENT, m DOUBLE, c TIMESTAMP(6) NULL, "
    "comment VARCHAR(255) CHARSET 'latin1') CHARSET utf8mb4",
    "SET time_zone = '+00:00'",
    "INSERT INTO {db}.e SET m = 4.2341, c = '2016-10-21 05:33:37.523000', comment = 'I am a creature of light.'",
    "UPDATE {db}.e SET m = 5.444, c = '2016-10-21 05:33:54.631000' WHERE id = 1",
    "DELETE FROM {db}.e WHERE id = 1",
    "ALTER TABLE {db}.e ADD COLUMN torvalds BIGINT UNSIGNED AFTER m",
    "TRUNCATE TABLE {db}.e",
    "DROP TABLE {db}.e",
)
E_COLUMNS = [
    {"type": "int", "name": "id", "signed": True},
    {"type": "double", "name": "m"},
    {"type": "timestamp", "name": "c", "column-length": 6},
    {"type": "varchar", "name": "comment", "charset": "latin1"},
]
ROW = {
    "id": 1,
    "m": 4.2341,
    "c": "2016-10-21 05:33:37.523000",
    "comment": "I am a creature of light.",
}


def test_maxwell(logged: Logged) -> None:
    """maxwells-daemon.io/dataformat: INSERT, UPDATE, DELETE, CREATE TABLE, ALTER TABLE."""
    logged.run(*E)
    db = logged.database
    create, insert, update, delete, alter, truncate, drop = logged.lines(
        "maxwell",
        output_binlog_position=True,
        output_server_id=True,
        output_thread_id=True,
        output_primary_keys=True,
        output_primary_key_columns=True,
    )
    table = {"database": db, "charset": "utf8mb4", "table": "e"}
    definition = {**table, "columns": E_COLUMNS, "primary-key": ["id"]}
    assert create["type"] == "table-create"
    assert (create["database"], create["table"], create["def"]) == (db, "e", definition)
    assert create["sql"].lower().startswith("create table")
    assert create["ts"] % 1000 == 0 and ":" in create["position"]
    optional = [] if "thread_id" not in insert else ["thread_id"]
    assert list(insert) == [
        *("database", "table", "type", "ts", "xid", "commit", "position", "server_id"),
        *optional,
        *("primary_key", "primary_key_columns", "data"),
    ]
    assert insert["commit"] is True
    assert insert["primary_key"] == [1] and insert["primary_key_columns"] == ["id"]
    assert (insert["database"], insert["table"], insert["type"]) == (db, "e", "insert")
    assert insert["data"] == ROW
    assert isinstance(insert["xid"], int) and insert["ts"] > 1_700_000_000
    assert update["data"] == {**ROW, "m": 5.444, "c": "2016-10-21 05:33:54.631000"}
    assert update["old"] == {"m": 4.2341, "c": "2016-10-21 05:33:37.523000"}
    assert delete["type"] == "delete" and delete["data"] == update["data"]
    assert "old" not in delete
    assert alter["type"] == "table-alter" and alter["old"] == definition
    added = {"type": "bigint", "name": "torvalds", "signed": False}
    assert alter["def"]["columns"] == [*E_COLUMNS[:2], added, *E_COLUMNS[2:]]
    assert truncate["type"] == "table-truncate" and "def" not in truncate
    assert drop["type"] == "table-drop" and "def" not in drop


@pytest.mark.parametrize("part_size", [1 << 20, 200])
def test_maxwell_marks_the_last_row_of_a_transaction(logged: Logged, part_size: int) -> None:
    """The same page: rows of one xid, the last with commit; a large one in parts likewise."""
    logged.run("CREATE TABLE {db}.t (id INT PRIMARY KEY, t VARCHAR(100)) CHARSET utf8mb4")
    with logged.server.connected() as connection, connection.cursor() as cursor:
        connection.begin()
        for number in range(10):
            cursor.execute(f"INSERT INTO {logged.database}.t VALUES (%s, %s)", (number, "x" * 90))
        connection.commit()
    lines = logged.lines("maxwell", part_size, output_ddl=False, output_xoffset=True)
    assert [line["data"]["id"] for line in lines] == list(range(10))
    assert ["commit" in line for line in lines] == [False] * 9 + [True]
    assert [line.get("xoffset") for line in lines] == [*range(9), None]
    # The xid stands at the end of a transaction: parts before it wait for it.
    assert isinstance(lines[0]["xid"], int) and len({line["xid"] for line in lines}) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("native", {}),
        ("debezium", {"provide_transaction_metadata": True}),
        ("maxwell", {"output_xoffset": True}),
        ("canal", {}),
    ],
)
def test_lines_do_not_tell_in_what_parts_a_transaction_came(
    logged: Logged, name: str, options: dict[str, Any]
) -> None:
    logged.run("CREATE TABLE {db}.t (id INT PRIMARY KEY, t VARCHAR(100)) CHARSET utf8mb4")
    with logged.server.connected() as connection, connection.cursor() as cursor:
        connection.begin()
        for number in range(9):
            cursor.execute(f"SET timestamp = {1_790_000_000 + number}")  # it took a while
            cursor.execute(f"INSERT INTO {logged.database}.t VALUES (%s, %s)", (number, "x" * 90))
        connection.commit()

    def clean(line: dict[str, Any]) -> dict[str, Any]:
        now = {"debezium": ("ts_ms", "ts_us", "ts_ns"), "canal": ("ts",)}.get(name, ())
        return {key: value for key, value in line.items() if key not in now or "status" in line}

    def changes(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kinds = ("create_table", "table-create")
        ddl = ("ddl", "isDdl")
        return [
            clean(line)
            for line in lines
            if not any(line.get(key) for key in ddl)
            and line.get("kind", line.get("type")) not in kinds
        ]

    whole = changes(logged.lines(name, **options))
    parts = changes(logged.lines(name, 200, **options))
    assert len(whole) >= 9
    assert parts == whole


CUSTOMERS = (
    "CREATE TABLE {db}.customers (id INT PRIMARY KEY, first_name VARCHAR(255) NOT NULL, "
    "last_name VARCHAR(255) NOT NULL, email VARCHAR(255) NOT NULL) CHARSET utf8mb4",
    "INSERT INTO {db}.customers VALUES (1004, 'Anne', 'Kretchmar', 'annek@noanswer.org')",
    "UPDATE {db}.customers SET first_name = 'Anne Marie' WHERE id = 1004",
    "UPDATE {db}.customers SET id = 1005 WHERE id = 1004",
    "DELETE FROM {db}.customers WHERE id = 1005",
    "ALTER TABLE {db}.customers ADD middle_name VARCHAR(255) AFTER first_name",
    "TRUNCATE TABLE {db}.customers",
)
ANNE = {
    "id": 1004,
    "first_name": "Anne",
    "last_name": "Kretchmar",
    "email": "annek@noanswer.org",
}


def test_debezium(logged: Logged) -> None:
    """debezium.io, MySQL connector: data change events, schema change topic."""
    logged.run(*CUSTOMERS)
    _, create, update, key_delete, key_create, delete, alter, truncate = logged.lines(
        "debezium", topic_prefix="mysql-server-1"
    )
    assert set(create) == {
        *("before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction")
    }
    assert create["op"] == "c" and create["before"] is None and create["after"] == ANNE
    assert create["transaction"] is None
    source = create["source"]
    assert set(source) == {
        *("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence"),
        *("table", "server_id", "gtid", "file", "pos", "row", "thread", "query"),
    }
    assert source["version"] == __version__
    # Debezium has a connector for each family of servers, and names it in its messages.
    is_mariadb = logged.server.name.startswith("mariadb")
    assert source["connector"] == ("mariadb" if is_mariadb else "mysql")
    assert source["name"] == "mysql-server-1" and source["snapshot"] == "false"
    assert (source["db"], source["table"]) == (logged.database, "customers")
    assert source["row"] == 0 and source["query"] is None and source["server_id"] > 0
    assert source["ts_us"] // 1000 == source["ts_ms"] and source["ts_ns"] == source["ts_us"] * 1000
    anne_marie = {**ANNE, "first_name": "Anne Marie"}
    assert (update["op"], update["before"], update["after"]) == ("u", ANNE, anne_marie)
    moved = {**anne_marie, "id": 1005}
    assert (key_delete["op"], key_delete["before"], key_delete["after"]) == ("d", anne_marie, None)
    assert (key_create["op"], key_create["before"], key_create["after"]) == ("c", None, moved)
    assert key_delete["source"] == key_create["source"]
    assert (delete["op"], delete["before"], delete["after"]) == ("d", moved, None)
    assert truncate["op"] == "t" and truncate["before"] is None and truncate["after"] is None
    assert alter["databaseName"] == logged.database and alter["schemaName"] is None
    assert "middle_name" in alter["ddl"] and "op" not in alter
    (changed,) = alter["tableChanges"]
    assert changed["type"] == "ALTER"
    assert changed["id"] == f'"{logged.database}"."customers"'
    assert changed["table"]["primaryKeyColumnNames"] == ["id"]
    assert changed["table"]["defaultCharsetName"] == "utf8mb4"
    middle = changed["table"]["columns"][2]
    assert middle == {
        "name": "middle_name",
        "jdbcType": 12,
        "nativeType": None,
        "typeName": "VARCHAR",
        "typeExpression": "VARCHAR",
        "charsetName": "utf8mb4",
        "length": 255,
        "scale": None,
        "position": 3,
        "optional": True,
        "autoIncremented": False,
        "generated": False,
        "comment": None,
        "defaultValueExpression": None,
        "enumValues": None,
    }


def test_debezium_transaction_metadata(logged: Logged) -> None:
    """The same page: transaction boundaries, and the enriched change events."""
    logged.run(
        "CREATE TABLE {db}.a (id INT PRIMARY KEY)", "CREATE TABLE {db}.b (id INT PRIMARY KEY)"
    )
    with logged.server.connected() as connection, connection.cursor() as cursor:
        connection.begin()
        for table in ("a", "b", "a"):
            cursor.execute(
                f"INSERT INTO {logged.database}.{table} SELECT COUNT(*) FROM {logged.database}.{table}"
            )
        connection.commit()
    begin, *changes, end = logged.lines(
        "debezium", provide_transaction_metadata=True, include_schema_changes=False
    )
    assert begin["status"] == "BEGIN" and begin["event_count"] is None
    assert begin["data_collections"] is None and begin["id"] == end["id"]
    assert end["status"] == "END" and end["event_count"] == 3
    db = logged.database
    assert end["data_collections"] == [
        {"data_collection": f"{db}.a", "event_count": 2},
        {"data_collection": f"{db}.b", "event_count": 1},
    ]
    assert [change["transaction"]["total_order"] for change in changes] == [1, 2, 3]
    assert [change["transaction"]["data_collection_order"] for change in changes] == [1, 1, 2]
    assert {change["transaction"]["id"] for change in changes} == {begin["id"]}


def test_canal(logged: Logged) -> None:
    """Flink's and TiCDC's pages on canal-json: an UPDATE of products, DDL; sqlType by java.sql.Types."""
    logged.run(
        "CREATE TABLE {db}.products (id INT PRIMARY KEY, name VARCHAR(255), description VARCHAR(512), "
        "weight FLOAT) CHARSET utf8mb4",
        "INSERT INTO {db}.products VALUES (111, 'scooter', 'Big 2-wheel scooter', 5.15)",
        "UPDATE {db}.products SET weight = 5.18 WHERE id = 111",
        "DELETE FROM {db}.products WHERE id = 111",
        "TRUNCATE TABLE {db}.products",
        "RENAME TABLE {db}.products TO {db}.goods",
        "DROP TABLE {db}.goods",
    )
    create, insert, update, delete, truncate, rename, drop = logged.lines("canal")
    row = {"id": "111", "name": "scooter", "description": "Big 2-wheel scooter", "weight": "5.18"}
    update_without_clock = {key: value for key, value in update.items() if key != "ts"}
    assert update_without_clock == {
        "data": [row],
        "database": logged.database,
        "es": update["es"],
        "gtid": update["gtid"],
        "id": 0,
        "isDdl": False,
        "mysqlType": {
            "id": "int",
            "name": "varchar(255)",
            "description": "varchar(512)",
            "weight": "float",
        },
        "old": [{"weight": "5.15"}],
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": 4, "name": 12, "description": 12, "weight": 7},
        "table": "products",
        "type": "UPDATE",
    }
    assert list(update) == sorted(update), "Canal writes its fields in alphabetical order"
    assert update["es"] % 1000 == 0 and update["ts"] >= update["es"]
    assert insert["type"] == "INSERT" and insert["old"] is None
    assert delete["type"] == "DELETE" and delete["data"] == [row] and delete["old"] is None
    kinds = [line["type"] for line in (create, truncate, rename, drop)]
    assert kinds == ["CREATE", "TRUNCATE", "RENAME", "ERASE"]
    for line in (create, truncate, rename, drop):
        assert line["isDdl"] is True and line["sql"]
        assert [line[name] for name in ("data", "old", "pkNames", "mysqlType", "sqlType")] == [
            None
        ] * 5


def test_values_in_every_format(logged: Logged) -> None:
    """Type mappings of the three; the row's values as SQL are in mirror_statements."""
    logged.run(*statements.VALUES[:1], "SET time_zone = '+00:00'", statements.VALUES[1])
    debezium = logged.lines("debezium", include_schema_changes=False)[0]["after"]
    assert debezium["d"] == _base64(
        (-123456789012345678900123456789).to_bytes(13, "big", signed=True)
    )
    assert debezium["c"] == 9223372036854775808 and debezium["a"] == -128
    assert debezium["g"] == _base64((8191).to_bytes(2, "little"))
    assert debezium["i"] == 2932896 and debezium["j"] == -3020399000000
    assert debezium["k"] == -30610224000000 and debezium["l"] == "2038-01-19T03:14:07Z"
    assert debezium["m"] == 2155 and debezium["o"] == "ä€ü"
    assert debezium["p"] == _base64(b"a\0\0\0\0") and debezium["s"] == _base64(b"\x00\xff")
    assert debezium["t"] == "y'z" and debezium["u"] == "p,r"
    assert (
        debezium["w"]["srid"] is None
        and base64.b64decode(debezium["w"]["wkb"])[:5] == b"\1\1\0\0\0"
    )
    textual = logged.lines(
        "debezium",
        include_schema_changes=False,
        decimal_handling_mode="string",
        binary_handling_mode="hex",
    )[0]["after"]
    assert textual["d"] == "-12345678901234567890.0123456789" and textual["s"] == "00ff"
    maxwell = logged.lines("maxwell", output_ddl=False)[0]["data"]
    assert maxwell["h"] == 18446744073709551615 and maxwell["j"] == "-838:59:59"
    assert maxwell["k"] == "1000-01-01 00:00:00" and maxwell["l"] == "2038-01-19 03:14:07"
    assert maxwell["u"] == ["p", "r"] and maxwell["t"] == "y'z" and maxwell["w"] == "POINT (1 2)"
    assert maxwell["s"] == _base64(b"\x00\xff") and maxwell["e"] == 0.1
    canal = logged.lines("canal")[1]
    values, types = canal["data"][0], canal["sqlType"]
    assert values["id"] == "18446744073709551615" and types["id"] == -5  # the last row's, 5, fits
    assert values["d"] == "-12345678901234567890.0123456789" and types["d"] == 3
    assert values["f"] == "1.0E308" and types["f"] == 8
    assert values["t"] == "2" and types["t"] == 4 and values["u"] == "5" and types["u"] == -7
    assert values["s"] == "\x00\xff" and types["s"] == 2004 and types["r"] == 2005
    assert values["l"] == "2038-01-19 03:14:07" and types["l"] == 93 and types["j"] == 92
    assert canal["mysqlType"]["t"] == "enum('x','y''z','ä')"
    assert canal["mysqlType"]["c"] == "bigint unsigned"
    assert all(value is None for name, value in canal["data"][1].items() if name != "id")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
