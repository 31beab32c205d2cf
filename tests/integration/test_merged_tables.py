"""Shards with colliding keys in one table of a mirror (the short run of scripts/proofs/transforms --shards)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.merge_proof import prove_merging


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_shards_in_one_table(fresh_server, tmp_path: Path, name: str):
    target = fresh_server("mysql-9.7", ["skip-log-bin"]) if name == "mariadb-11.8" else None
    options = ["binlog-row-metadata=FULL"]
    report = prove_merging(
        *(fresh_server(name, options), tmp_path),
        shards=6,
        changes=300,
        kills=3,
        seed=3,
        target=target,
    )
    assert report.kills == 3
    assert report.compared > 100
    assert report.marked > 10
