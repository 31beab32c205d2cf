"""Hundreds of tables: what is read and saved is what is wanted (the short run of scripts/proofs/tables)."""

from __future__ import annotations

from pathlib import Path

import pytest

import replica_client as rc
from replica_client.stream.live import live_definitions
from tests.integration import many_tables


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
async def test_only_wanted_tables_are_read(
    fresh_server, monkeypatch, tmp_path: Path, name: str
) -> None:
    server = fresh_server(name, ["binlog-row-metadata=MINIMAL"])
    many_tables.make_tables(server, "many", 0, 60, "InnoDB")
    server.execute("CREATE TABLE many.`t_7%` (id INT PRIMARY KEY)")
    async with rc.connect(server.url(), tables=["many.t7", "other.*"]) as stream:
        assert stream.history.known_tables() == [("many", "t7")]
        # What is not known may be there, but for databases of which all is wanted.
        assert not stream.history.database("many").complete
    async with rc.connect(server.url(), tables=["many.`t_7%`", "many.t1?"]) as stream:
        known = {("many", f"t1{digit}") for digit in range(10)} | {("many", "t_7%")}
        assert set(stream.history.known_tables()) == known
    async with rc.connect(server.url(), tables=["many.*"]) as stream:
        assert len(stream.history.known_tables()) == 61
        assert stream.history.database("many").complete
        whole = stream.history
    # In parts of which each has a table whose name another has, too, in another letter case.
    server.execute("CREATE TABLE many.T7 (other INT)")
    monkeypatch.setattr(live_definitions, "_AT_ONCE", 7)
    async with rc.connect(server.url(), tables=["many.*"]) as stream:
        parts = stream.history
        assert len(parts.known_tables()) == 62
        assert parts.table(("many", "T7")).column_names == ("other",)
        for table in whole.known_tables():
            assert parts.table(table) == whole.table(table)
    server.execute("DROP TABLE many.T7")
    costs = await many_tables.measure(server, "many", 61, tmp_path)
    assert len(costs.save_after_ddl) == 10


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
async def test_unproven_tables_are_asked_for_together(fresh_server, name: str) -> None:
    """Without their CREATE TABLE in the binlog: some connections, not one for each."""
    server = fresh_server(name, ["binlog-row-metadata=MINIMAL"])
    many_tables.make_tables(server, "many", 0, 40, "InnoDB")
    server.rotate()
    server.execute(f"PURGE BINARY LOGS TO '{server.binlog_files()[-1]}'")
    for number in range(40):
        server.execute(f"INSERT INTO many.t{number} (id, c0) VALUES ({number}, 'x')")
    server.execute("ALTER TABLE many.t39 ADD later INT")
    server.execute("INSERT INTO many.t39 (id, later) VALUES (100, 7)")
    before = int(server.query("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])
    found = []
    options = {"start": "earliest", "stop_at_end": True, "record_losses": ["unknown_table"]}
    async with rc.connect(server.url(), tables=["many.*"], **options) as stream:
        async for change in stream.changes():
            found.append((change.table, change.after["id"], change.after.get("c0")))
        losses = stream.losses.counts
    connections = int(server.query("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1]) - before
    assert found[:39] == [(f"t{number}", number, "x") for number in range(39)]
    # What t39 looked like before it was altered nobody tells any more.
    assert [(one.kind, one.table, one.count) for one in losses] == [("unknown_table", "t39", 1)]
    assert found[39:] == [("t39", 100, "value 0")]
    assert connections < 30
