"""Binary JSON from a real MySQL's binlog against its own CAST(j AS CHAR); seeded and short.

`scripts/proofs/compare_json` is the long version.
"""

from collections.abc import Iterator

import pytest

from tests.integration import json_comparison as comparison
from tests.integration.json_server import JsonServer

SEED = 1


def agree(run: Iterator[comparison.Compared], at_least: int) -> comparison.Tally:
    tally = comparison.Tally()
    differences = []
    for compared in run:
        tally.add(compared)
        if compared.difference:
            differences.append(f"{compared.what}: {compared.difference[:1000]}")
    assert not differences, differences[:3]
    assert tally.counts.total() >= at_least
    return tally


@pytest.fixture
def json_server(server, new_database):
    mysql = server("mysql-9.7")
    one = JsonServer(mysql.host, mysql.port, new_database(mysql))
    yield one
    one.close()


def test_documents(json_server):
    agree(comparison.compare_documents(json_server, SEED, 2000), 2000)


def test_large_documents(json_server):
    agree(comparison.compare_large(json_server, SEED, 20), 20)


def test_partial_updates(json_server):
    tally = agree(comparison.compare_updates(json_server, SEED, 250), 250)
    partial = sum(count for what, count in tally.counts.items() if what.startswith("partial"))
    assert partial > 100, tally.counts


def test_mutated_documents(fresh_server):
    # A BINLOG statement without a GTID is refused in gtid_mode=ON.
    mysql = fresh_server("mysql-9.7", ["gtid-mode=OFF", "enforce-gtid-consistency=OFF"])
    one = JsonServer(mysql.host, mysql.port, "judged")
    try:
        tally = agree(comparison.compare_judged(one, SEED, 1000), 1000)
    finally:
        one.close()
    assert tally.counts["mutated documents read alike"] > 300


def test_empty_document_is_null(json_server):
    json_server.make_table("empty_docs")
    json_server.execute("ALTER TABLE empty_docs MODIFY j JSON NOT NULL")
    start = json_server.position()
    json_server.execute("INSERT IGNORE INTO empty_docs (id) VALUES (1)")
    (row,) = json_server.logged("empty_docs", start)
    assert row.after == b""
    assert json_server.texts("empty_docs") == {1: "null"}
    assert comparison.JsonDocument(row.after).text == "null"
