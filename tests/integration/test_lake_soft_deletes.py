"""Deleted rows that stay in current tables of a lake, beside those that a real server has."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.lake import open_lake
from replica_client.lake.lake_past import LakePast
from replica_client.rows.selection import Selection
from tests.integration.lake_moments import TABLES, Moments
from tests.integration.test_lake_row_images import take

KEYS = {"orders": ["id"], "pairs": ["a", "b"]}


def lines(rows: pa.Table) -> list[str]:
    kept = [name for name in rows.column_names if not name.startswith("_")]
    return sorted(repr(tuple(one.values())) for one in rows.select(kept).to_pylist())


def keys(rows: pa.Table, table: str) -> set[str]:
    found = [repr(tuple(one.values())) for one in rows.select(KEYS[table]).to_pylist()]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_those_that_are_there_are_the_servers(server, new_database, tmp_path, name):
    source = server(name)
    database = new_database(source)
    position = ":".join(map(str, source.binlog_position()))
    moments = Moments(source, database, seed=11)
    there: dict[str, set[str]] = {table: set() for table in KEYS}
    deleted = 0
    for number in range(6):
        moments.run(15, create=not number)
        take(tmp_path, number, source.url(), position, database, None, Selection(["*.*"]))
        position = ":".join(map(str, source.binlog_position()))
        wanted = moments.seen[-1][2]
        for table in TABLES:
            rows = open_lake(tmp_path / "lake").table((database, table)).arrow()
            if table not in KEYS:
                assert "_deleted" not in rows.column_names
                assert lines(rows) == sorted(wanted[table].elements())
                continue
            live, gone = rows.filter(pc.invert(rows["_deleted"])), rows.filter(rows["_deleted"])
            assert lines(live) == sorted(wanted[table].elements()), (number, table)
            # Whatever was there after an earlier batch is there still, marked or not.
            assert there[table] <= keys(rows, table)
            there[table] = keys(rows, table)
            deleted += gone.num_rows
    assert deleted > 20
    past = LakePast(tmp_path / "lake", tmp_path / "lake" / "change_log")
    for gtid, _, seen in moments.seen[::7]:
        for table, counts in seen.items():
            found = past.read((database, table), past.moment(gtid))
            assert "_deleted" not in found.column_names
            assert lines(found) == sorted(counts.elements()), (gtid, table)
