"""Mirrors of real servers equal the source's own SELECT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import SinkError
from replica_client.sinks.registry import make_sink
from tests.integration import mirror_statements as statements
from tests.integration.sink_comparison import compare_sink
from tests.integration.sink_driver import drive
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration


def run(server: LocalServer, database: str, groups: tuple[tuple[str, ...], ...]) -> None:
    for group in groups:
        for statement in group:
            server.execute(statement.format(db=database))


async def test_sqlite_equals_the_source(
    any_server: LocalServer, new_database: Callable[..., str], tmp_path: Path
) -> None:
    server = any_server
    server.rotate()
    start = f"{server.binlog_files()[-1]}:4"
    database = new_database(server)
    groups = [statements.VALUES, statements.KEYS, statements.DDL]
    if server.name != "mysql-5.6":
        groups.append(statements.JSON)
    options: dict[str, Any] = {"path": str(tmp_path / "mirror.db")}
    tables = [f"{database}.*"]
    for group in groups:
        run(server, database, (group,))
        # Each time a new sink goes on at the checkpoint of the one before.
        await drive(make_sink("sqlite", options), server, tables, start, commit_every=3)
        compared = compare_sink("sqlite", options, server, tables=tables)
    assert compared.tables == len(server.query(f"SHOW TABLES FROM {database}"))


@pytest.mark.parametrize(
    ("source_name", "target_name"),
    [
        ("mysql-9.7", "mariadb-11.8"),
        ("mariadb-11.8", "mysql-9.7"),
        ("mariadb-10.11", "mariadb-11.8"),
        ("mysql-5.6", "mysql-5.6"),
    ],
)
async def test_mysql_equals_the_source(
    source_name: str,
    target_name: str,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
) -> None:
    source, target = server(source_name), server(target_name)
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    database = new_database(source)
    groups = [statements.VALUES, statements.KEYS, statements.DDL]
    if source_name != "mysql-5.6":
        groups.append(statements.JSON)
    state = f"state_{database[-12:]}"
    options = {"url": target.url("root"), "database_prefix": "m_", "state_database": state}
    tables = [f"{database}.*"]
    try:
        for group in groups:
            run(source, database, (group,))
            await drive(make_sink("mysql", options), source, tables, start, commit_every=3)
            compared = compare_sink("mysql", options, source, tables=tables)
    finally:
        for made in (state, f"m_{database}"):
            target.execute(f"DROP DATABASE IF EXISTS `{made}`")
    assert compared.tables == len(source.query(f"SHOW TABLES FROM {database}"))


async def test_sqlite_follows_alterations_or_says_why_not(
    server: Callable[[str], LocalServer], new_database: Callable[..., str], tmp_path: Path
) -> None:
    source = server("mysql-9.7")
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    database = new_database(source)
    source.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    source.execute(f"INSERT INTO {database}.t VALUES (1)")
    source.execute(f"ALTER TABLE {database}.t ADD u VARCHAR(40) DEFAULT (CONCAT('a', 'b'))")
    options = {"path": str(tmp_path / "mirror.db")}
    sink = make_sink("sqlite", options)
    with pytest.raises(SinkError, match="the default of u is an expression") as caught:
        await drive(sink, source, [f"{database}.*"], start)
    assert not caught.value.retriable
    await sink.close()
