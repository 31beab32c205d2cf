"""A daemon whose parts are killed loses nothing and repeats nothing (the short run of scripts/proofs/daemon)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.daemon_kills import prove
from tests.integration.daemon_sinks import proved_sinks


@pytest.mark.timeout(300)
def test_every_sink_equals_the_source_after_kills(fresh_server, local_servers, tmp_path: Path):
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    names = ["file", "debezium", "sqlite", "parquet", "redis"]
    with proved_sinks(names, tmp_path, local_servers) as sinks:
        report = prove(source, tmp_path, sinks, kills=4, seed=3, compare_every=3)
    assert sum(report.kills.values()) >= 4
    assert report.transactions > 50
    assert list(report.found) == names
    assert report.comparisons == 2
