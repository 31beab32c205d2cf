"""Random XA transactions: what is delivered is what was committed (the short run of scripts/proofs/xa)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.xa_proof import prove_xa


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_what_is_delivered_is_what_was_committed(fresh_server, tmp_path: Path, name: str) -> None:
    server = fresh_server(name, ["sync-binlog=0", "binlog-row-metadata=FULL"])
    report, work = prove_xa(server, tmp_path, 3, 60, kills=2)
    assert report.faults == []
    assert report.kills == 2
    assert report.readings >= 3 and report.rows > 500
    assert work.done["crashes"] + work.done["restarts"] >= 1
    assert {
        "XA COMMIT",
        "XA COMMIT ONE PHASE",
        "XA ROLLBACK",
        "XA ROLLBACK at once",
        "files",
    } <= set(work.done)
