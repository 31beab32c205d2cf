"""Savepoints on real servers: rows that were rolled back are not delivered, all others are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.savepoint_programs import OPTIONS, WITHOUT_GTIDS, prove


@pytest.mark.parametrize("name", ["mysql-9.7", "mysql-5.6", "mariadb-10.11", "mariadb-11.8"])
def test_random_programs(fresh_server: Any, name: str) -> None:
    gtids = WITHOUT_GTIDS if name.startswith("mysql") else ()
    server = fresh_server(name, (*OPTIONS, *gtids))
    failed: list[str] = []
    counts = prove(server, server.create_database(), 1, 40, failed.append)
    assert not failed
    assert counts["differences"] == 0
    assert counts["rollbacks"] > 20
    assert counts["resumed"] > counts["programs"]
    # MySQL 9.7 logs no temporary tables, so that it can always leave out what is rolled back.
    assert counts["logged"] or name == "mysql-9.7"
