"""Mixed transactions of several sessions against SELECT (the short run of scripts/proofs/mixes)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mix_proof import prove_mixes
from tests.integration.mix_settings import QUICK, VARIANTS


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("name", "variant"),
    [("mysql-9.7", 0), ("mysql-5.6", 1), ("mariadb-10.11", 1), ("mariadb-11.8", 0)],
)
def test_every_transaction_equals_its_select(
    fresh_server, tmp_path: Path, name: str, variant: int
) -> None:
    server = fresh_server(name, [*QUICK, *VARIANTS[name][variant]])
    report, epochs, kills = prove_mixes(server, tmp_path, range(40, 43), 25, kills=2)
    assert [str(one) for one in report.differences] == []
    assert [str(one) for one in report.stops] == []
    assert kills == 2
    assert report.transactions >= 75
    assert report.compared > 60
    assert report.resumes >= 1
    assert {"savepoint", "temporary", "xa prepare", "xa commit", "ddl"} <= set(report.done)
    assert sum(len(epoch.snapshots) for epoch in epochs) > 60
