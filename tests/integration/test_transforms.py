"""Planted secrets are in nothing that a daemon writes or shows (the short run of scripts/proofs/transforms)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.transform_proof import prove_transforms


@pytest.mark.timeout(300)
def test_no_secret_leaves(fresh_server, tmp_path: Path):
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    report = prove_transforms(source, tmp_path, rows=800, seed=5)
    assert report.rows >= 800
    assert report.compared > 50
    assert {"native", "debezium", "maxwell", "canal", "parquet values", "state"} <= set(
        report.places
    )
