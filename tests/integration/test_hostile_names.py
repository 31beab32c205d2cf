"""Hostile names, labels, defaults and comments through every sink (a short scripts/proofs/hostile_names)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_sinks import proved_sinks
from tests.integration.hostile_names import prove_hostile_names
from tests.servers.local import LocalServers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    ("source_name", "target_name", "other"),
    [("mysql-9.7", "mariadb-11.8", "postgres"), ("mariadb-11.8", "mysql-9.7", "clickhouse")],
)
def test_every_sink_shows_what_the_source_has(
    source_name: str, target_name: str, other: str, fresh_server: Any, tmp_path: Path
) -> None:
    source = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    target = fresh_server(target_name, ["skip-log-bin", "general-log=ON", "log-output=TABLE"])
    with proved_sinks([other], tmp_path / "servers", LocalServers()) as [proved]:
        others = {other: {**proved.options, "snapshot": True}}
        report = prove_hostile_names(
            source, target, tmp_path / "all", texts=300, seed=3, others=others
        )
    assert report.texts >= 300
    assert report.statements > 100
    names = {"file", "maxwell", "parquet", "sqlite", "replayed", "mysql", "duckdb"}
    assert set(report.compared) == {*names, *others}
    assert all(report.compared.values())
