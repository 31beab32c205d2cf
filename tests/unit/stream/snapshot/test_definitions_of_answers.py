"""Definitions as a server's listings give them; the answers are those of MySQL 9.7."""

from __future__ import annotations

from typing import Any

import pytest

from replica_client.errors import ServerError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.model import describe
from replica_client.stream.snapshot.watermarks import read_definitions
from tests.unit.stream.snapshot.answers import Answers, Rows

TABLES: Rows = [
    ("shop", "Orders", "BASE TABLE", "utf8mb4_0900_ai_ci"),
    ("shop", "lines", "BASE TABLE", "latin1_swedish_ci"),
]
COLUMNS: Rows = [
    ("shop", "Orders", "id", "int unsigned", None, "NO", "auto_increment", "", None, ""),
    ("shop", "Orders", "note", "varchar(20)", "utf8mb4", "YES", "", "", "x", "why"),
    ("shop", "lines", "n", "tinyint(1)", None, "YES", "INVISIBLE", "", "1", ""),
]
KEYS: Rows = [("shop", "Orders", "id", None)]


def answers(*, casefolds: bool = False, **more: Any) -> Answers:
    given: dict[str, list[Rows | ServerError]] = {
        "^SET SESSION show_gipk": [[]],
        r"information_schema\.TABLES": [TABLES],
        r"information_schema\.COLUMNS": [COLUMNS],
        r"information_schema\.STATISTICS": [KEYS],
        **more,
    }
    connection = Answers(ServerFlavor.MYSQL, given)
    connection.server.version = (9, 7, 0)
    connection.server.casefolds_names = casefolds
    return connection


async def test_all_tables_are_asked_for_and_read() -> None:
    connection = answers()
    models = await read_definitions(connection)
    assert list(models) == [("shop", "Orders"), ("shop", "lines")]
    orders = models[("shop", "Orders")]
    assert [f"{one.name} {describe(one)}" for one in orders.columns] == [
        "id int unsigned not null",
        "note varchar(20) charset utf8mb4",
    ]
    assert (orders.primary_key, orders.charset) == ((("id", 0),), "utf8mb4")
    lines = models[("shop", "lines")]
    assert (lines.columns[0].visible, lines.primary_key) == (False, ())
    assert not [sql for sql in connection.asked if "TABLE_NAME = %s" in sql]


async def test_one_table_is_asked_for_by_its_name() -> None:
    connection = answers()
    await read_definitions(connection, ("shop", "Orders"))
    listings = [sql for sql in connection.asked if "information_schema." in sql]
    assert len(listings) == 3
    assert all("TABLE_SCHEMA = %s AND TABLE_NAME = %s" in sql for sql in listings)


async def test_a_server_without_generated_keys_and_with_lower_case_names() -> None:
    refused = ServerError(1193, "HY000", "Unknown system variable")
    models = await read_definitions(
        answers(casefolds=True, **{"^SET SESSION show_gipk": [refused]})
    )
    assert list(models) == [("shop", "orders"), ("shop", "lines")]


async def test_a_refused_listing_is_an_error() -> None:
    refused = ServerError(1142, "42000", "denied")
    connection = answers()
    connection._answers[r"information_schema\.STATISTICS"] = [refused]
    with pytest.raises(ServerError, match="denied"):
        await read_definitions(connection)
