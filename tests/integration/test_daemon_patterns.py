"""A daemon tells which patterns match no table of a real source, and only those."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_client.service.checking import check_connected
from replica_client.service.config_file import read_config
from tests.integration.daemon_process import toml_table
from tests.unit.service.conftest import running, until


@pytest.mark.timeout(120)
@pytest.mark.parametrize("start", ["latest", "before"])
async def test_only_what_the_source_does_not_have_is_reported(
    any_server, new_database, tmp_path: Path, caplog, start: str
) -> None:
    server = any_server
    database = new_database(server)
    # Not "earliest": other tests of this server left there what a reader may stop at.
    file, offset = server.binlog_position()
    start = f"{file}:{offset}" if start == "before" else start
    server.execute(f"CREATE TABLE {database}.quiet (id INT PRIMARY KEY)")
    patterns = [f"{database}.quiet", f"{database}.quite"]
    text = [
        toml_table("[daemon]", {"listen": "", "sample_seconds": 0.1}),
        toml_table(
            "[[source]]",
            {"name": "s", "url": server.url(), "start": start, "poll": 0.2, "tables": patterns},
        ),
        toml_table(
            "[[source.sink]]", {"name": "lines", "type": "file", "path": str(tmp_path / "changes")}
        ),
    ]
    path = tmp_path / "daemon.toml"
    path.write_text("\n".join(text))
    async with running(path):
        await until(lambda: "no table was read" in caplog.text)
    (stated,) = [r.getMessage() for r in caplog.records if "no table was read" in r.getMessage()]
    assert f"tables = ['{database}.quite']" in stated


@pytest.mark.timeout(120)
async def test_the_check_names_patterns_and_conditions_that_fit_nothing(
    any_server, new_database, tmp_path: Path
) -> None:
    server = any_server
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, state INT)")
    where = {"tables": [f"{database}.*"], "where": "stat = 1"}
    path = tmp_path / "daemon.toml"
    for tables, condition, said in (
        (
            "ordrs",
            "",
            [
                f"tables: no table {database}.ordrs is on the source; did you mean {database}.orders?"
            ],
        ),
        (
            "orders",
            "stat = 1",
            ["transform 1: where: none of its tables has a column 'stat'; did you mean state?"],
        ),
        ("*", "State = 1", []),
        ("orders", "", []),
    ):
        text = [
            toml_table("[daemon]", {"listen": ""}),
            toml_table(
                "[[source]]", {"name": "s", "url": server.url(), "tables": [f"{database}.{tables}"]}
            ),
        ]
        if condition:
            text.append(toml_table("[[source.transform]]", {**where, "where": condition}))
        lines = {"name": "lines", "type": "file", "path": str(tmp_path / "changes")}
        text.append(toml_table("[[source.sink]]", lines))
        path.write_text("\n".join(text))
        found = [fault.what for fault in await check_connected(read_config(path))]
        assert [one for one in found if "no table" in one or "where" in one] == said
