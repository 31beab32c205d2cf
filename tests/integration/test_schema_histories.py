"""Random DDL and rows against SELECT (the short run of scripts/proofs/ddl)."""

from __future__ import annotations

import pytest

from tests.integration.ddl_histories import prove
from tests.integration.ddl_kills import prove_killed

QUICK = ["sync-binlog=0", "innodb-flush-log-at-trx-commit=0"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        ("mysql-9.7", "MINIMAL"),
        ("mysql-5.6", None),
        ("mariadb-10.11", "FULL"),
        ("mariadb-11.8", "NO_LOG"),
    ],
)
def test_every_row_equals_its_select(fresh_server, name: str, metadata: str | None) -> None:
    options = [] if metadata is None else [f"binlog-row-metadata={metadata}"]
    server = fresh_server(name, [*QUICK, *options])
    report, histories = prove(server, range(700, 703), 12)
    assert report.differences == []
    assert report.stops == []
    assert report.unverified == []
    assert report.rows >= 2 * sum(len(history.expected) for history in histories)
    assert report.rows > 100
    assert len(report.kinds) >= 15


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_killed_clients_go_on_with_the_tables_of_their_position(
    fresh_server, tmp_path, name: str
) -> None:
    server = fresh_server(name, [*QUICK, "binlog-row-metadata=MINIMAL"])
    found = prove_killed(server, tmp_path, kills=3, seed=900, steps=8)
    assert found.report.differences == []
    assert found.report.stops == []
    assert found.report.unverified == []
    assert (found.kills.kills, found.kills.resumed) == (3, 2)
    assert found.report.rows > 20
    assert len(found.report.kinds) >= 10
