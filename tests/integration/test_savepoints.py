"""Savepoints on real servers: rows that were rolled back are not delivered, all others are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.savepoint_programs import OPTIONS, WITHOUT_GTIDS, prove, prove_reused


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


# MySQL 5.6 itself loses rows where a trigger or function sets savepoints; its own replicas lack them, too.
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_names_that_functions_use(fresh_server: Any, name: str) -> None:
    """A name that the caller, its functions and triggers set: the rows of SELECT, or none."""
    gtids = WITHOUT_GTIDS if name.startswith("mysql") else ()
    server = fresh_server(name, (*OPTIONS, *gtids))
    failed: list[str] = []
    counts = prove_reused(server, server.create_database(), 1, 40, failed.append)
    assert not failed
    assert counts["rollbacks"] > 20
    # MySQL 9.7 logs nothing that is rolled back.
    assert counts["refused"] < (40 if name.startswith("mariadb") else 1)
