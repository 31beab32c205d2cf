"""A daemon tells which patterns match no table of a real source, and only those."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.daemon_process import toml_table
from tests.unit.daemon.conftest import running, until


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
