"""A pipeline that follows waits for its source without end, also at its start; a first start says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs deltalake (the extra lake)")

from tests.integration.composition_lakes import LakeProcess
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def test_a_source_that_is_away_while_a_pipeline_starts(
    fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    server = fresh_server("mariadb-11.8")
    server.execute("CREATE DATABASE x")
    server.execute("CREATE TABLE x.t (id INT PRIMARY KEY)")
    server.execute("INSERT INTO x.t VALUES (1)")
    output, home = str(tmp_path / "lake"), tmp_path / "home"
    home.mkdir()
    lake = LakeProcess(home, server.url(), output, ["x.t"], {}, "lake")
    try:
        lake.start()
        assert lake.compare(lambda table: [{"id": 1}], 60) == 1
        lake.end()
        server.kill()
        lake.start()
        lake.until_log("the source went away; again in", 60)
        server.restart()
        server.execute("INSERT INTO x.t VALUES (2)")
        assert lake.compare(lambda table: [{"id": 1}, {"id": 2}], 60) == 1
        lake.end()
        # Nobody waits for a source that was never reached: its address may be wrong.
        server.kill()
        other = LakeProcess(home, server.url(), str(tmp_path / "other"), ["x.t"], {}, "other")
        other.start()
        assert other.process is not None
        assert other.process.wait(60) == 1
        assert "no connection to" in other.tail()
    finally:
        lake.close()
