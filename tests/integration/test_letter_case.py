"""Sources that take names in another letter case for the same (``lower_case_table_names=1``)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import SourceChangedError
from replica_client.schema.history import SchemaChange
from replica_client.schema.names import casefold_name
from replica_client.stream.position.stores.file import FilePositionStore
from tests.servers.local import ServerUnavailableError
from tests.servers.plugin import unavailable

OPTIONS = {
    "mysql-9.7": ["binlog-row-metadata=MINIMAL"],
    "mysql-5.6": [],
    "mariadb-10.11": ["binlog-row-metadata=NO_LOG"],
    "mariadb-11.8": ["binlog-row-metadata=MINIMAL"],
}
STATEMENTS = (
    "CREATE DATABASE Shop CHARACTER SET latin1",
    "CREATE TABLE Shop.Orders (id INT PRIMARY KEY, old VARCHAR(9), e ENUM('a', 'b'))",
    "INSERT INTO SHOP.ORDERS VALUES (1, 'ü', 'a')",
    "ALTER TABLE shop.oRDERS CHANGE old new VARCHAR(9), MODIFY e ENUM('b', 'a')",
    "UPDATE shop.orders SET new = 'z'",
    "RENAME TABLE SHOP.ORDERS TO shop.Bills",
    "INSERT INTO Shop.bills VALUES (3, 'w', 'b')",
    "DROP TABLE shop.BILLS",
    "CREATE TABLE IF NOT EXISTS shop.biLLs (x INT)",
    "INSERT INTO shop.BILLS VALUES (7)",
)
KINDS = [
    "create_database",
    "create_table",
    "alter_table",
    "rename_table",
    "drop_table",
    "create_table",
]
ROWS = [
    {"id": 1, "old": "ü", "e": "a"},
    {"id": 1, "new": "z", "e": "a"},
    {"id": 3, "new": "w", "e": "b"},
    {"x": 7},
]


@pytest.fixture(scope="module", params=list(OPTIONS))
def started(request, local_servers):
    """Each server with the option."""
    options = ["lower-case-table-names=1", *OPTIONS[request.param]]
    try:
        server = local_servers.fresh(request.param, options)
    except ServerUnavailableError as error:
        unavailable(error)
    yield server
    local_servers.close_fresh(server)


@pytest.fixture
def casefolding(started):
    """The same, with nothing in it and an empty binlog."""
    for database in ("d", "shop"):
        started.execute(f"DROP DATABASE IF EXISTS {database}")
    started.reset_binlog()
    yield started
    started.disconnect()


async def _all(source, **options: Any) -> list[object]:
    async with (
        asyncio.timeout(30),
        rc.connect(source.url(), start="earliest", stop_at_end=True, **options) as stream,
    ):
        return [one async for one in stream.changes(notices=True)]


def _rows(found: list[object]) -> list[dict[str, object]]:
    rows = [one.after.as_dict() for one in found if isinstance(one, rc.Change)]
    return [{name: getattr(value, "label", value) for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("tables", [None, ["shop.*"], ["Shop.ORDERS", "SHOP.bills"]])
def test_from_earliest(casefolding, tables) -> None:
    for statement in STATEMENTS:
        casefolding.execute(statement)
    found = asyncio.run(_all(casefolding, tables=tables, exclude=["mysql.*"]))
    assert _rows(found) == ROWS
    changes = [one for one in found if isinstance(one, SchemaChange) and one.database == "shop"]
    assert [one.kind for one in changes] == KINDS
    assert {one.table for one in changes} == {"", "orders", "bills"}


def test_files(casefolding) -> None:
    for statement in STATEMENTS:
        casefolding.execute(statement)
    path = casefolding.binlog_path(casefolding.binlog_position()[0])
    stated = rc.open_binlog(path, tables=["Shop.*"], lower_case_table_names=1)
    assert _rows(list(stated.changes(notices=True))) == ROWS
    # Nobody told: no name or label is a guess.
    untold = _rows(list(rc.open_binlog(path, tables=["shop.*"]).changes()))
    assert [next(iter(row.values())) for row in untold] == [1, 1, 3, 7]
    assert all(name.startswith("col_") for row in untold for name in row)


def test_after_a_restart_the_position_goes_on_with_what_it_knew(casefolding, tmp_path) -> None:
    store = FilePositionStore(tmp_path / "position")
    found: list[dict[str, object]] = []
    for statement in STATEMENTS:
        casefolding.execute(statement)

        async def take() -> None:
            async with (
                asyncio.timeout(30),
                rc.connect(
                    casefolding.url(),
                    start="earliest",
                    stop_at_end=True,
                    tables=["SHOP.*"],
                    allow_empty=True,  # the first run comes before the table
                    position_store=store,
                ) as stream,
            ):
                async for transaction in stream.transactions():
                    found.extend(_rows(list(transaction.changes)))
                await stream.acknowledge(stream.position)

        asyncio.run(take())
    assert found == ROWS


def test_statements_logged_as_text_are_of_the_table_in_any_case(casefolding) -> None:
    for statement in (
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT)",
        "SET binlog_format = STATEMENT",
        "INSERT INTO D.T VALUES (1)",
    ):
        casefolding.execute(statement)
    with pytest.raises(rc.DataLossError, match="logged as text"):
        asyncio.run(_all(casefolding, tables=["d.t"]))


def test_servers_casefold_names_as_we_do(casefolding) -> None:
    casefolding.execute("CREATE DATABASE d")
    names = ["ÄÖ", "ΣΑΣ", "İx", "ẞẞ", "ȺȠ", "ЖЁ", "Ⴀ", "\u01c4\u01c5\u2126\u212a", "ıIi"]
    for name in names:
        casefolding.execute(f"CREATE TABLE d.`{name}` (a INT)")
    rows = casefolding.query(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'"
    )
    assert {row[0] for row in rows} == {casefold_name(name) for name in names}


def test_a_source_that_begins_to_casefold_names_is_refused(fresh_server, tmp_path) -> None:
    server = fresh_server("mariadb-11.8", OPTIONS["mariadb-11.8"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.Orders (a INT)")
    store = FilePositionStore(tmp_path / "position")

    async def take() -> None:
        async with rc.connect(
            server.url(), start="earliest", stop_at_end=True, position_store=store
        ) as stream:
            async for transaction in stream.transactions():
                await stream.acknowledge(transaction.position)

    asyncio.run(take())
    server.restart([*OPTIONS["mariadb-11.8"], "lower-case-table-names=1"])
    with pytest.raises(SourceChangedError, match=r"d\.Orders is now sent as d\.orders"):
        asyncio.run(take())
