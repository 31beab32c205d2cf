"""Versions of rows (SCD 2) of a lake: equal to the server's SELECT behind every transaction since they are kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.errors import ConfigError
from replica_client.lake import open_lake
from replica_client.lake.lake_past import LakePast
from replica_client.rows.selection import Selection
from tests.integration.lake_moments import KEYED, Moments, valid_at
from tests.integration.test_lake_row_images import take


def check(versions: pa.Table, key: list[str]) -> None:
    """Versions of a row follow each other; the last one is valid, or ended."""
    order = [(name, "ascending") for name in (*key, "_valid_from_position")]
    rows = versions.sort_by(order).to_pylist()
    for one, two in zip(rows, rows[1:], strict=False):
        assert one["_valid_to_position"] is None or (
            one["_valid_from_position"] < one["_valid_to_position"]
        )
        if [one[name] for name in key] == [two[name] for name in key]:
            assert one["_valid_to_position"] <= two["_valid_from_position"]
            assert one["_valid_to"] <= two["_valid_from"]
            follows = one["_valid_to_position"] == two["_valid_from_position"]
            assert follows is not one["_deleted"], (one, two)
        elif one["_valid_to_position"] is not None:
            assert one["_deleted"]
    for row in rows:
        assert row["_deleted"] is (row["_valid_to"] is not None and row["_deleted"])
        assert (row["_valid_to"] is None) is (row["_valid_to_position"] is None)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
@pytest.mark.parametrize("late", [False, True])
def test_as_the_server_had_the_rows(server, new_database, tmp_path, name, late):
    """From the table's first moment, or from the moment on in which history was set."""
    source = server(name)
    database = new_database(source)
    position = ":".join(map(str, source.binlog_position()))
    moments = Moments(source, database, seed=3)
    kept = Selection([f"{database}.*"])
    begin = 0
    for number in range(6):
        moments.run(15, create=not number)
        history = kept if number > 1 or not late else None
        engine, _ = take(tmp_path, number, source.url(), position, database, history)
        position = ":".join(map(str, source.binlog_position()))
        if late and number == 2:
            begin = 30  # it begins with the rows that are there before this batch
    past = LakePast(tmp_path / "lake", tmp_path / "lake" / "change_log")
    lake = open_lake(tmp_path / "lake")
    found = {}
    for table in KEYED:
        [one] = lake.history((database, table))
        found[table] = one.arrow()
        check(
            found[table],
            [key for key, _ in engine.catalog.tables[database, table].model.primary_key],
        )
    compared = 0
    for gtid, _, wanted in moments.seen[max(begin - 1, 0) :]:
        behind = past.moment(gtid).behind
        for table in KEYED:
            assert valid_at(found[table], behind) == wanted[table], (gtid, table)
            compared += 1
    assert compared >= 2 * (61 if late else 90)
    assert sum(rows.num_rows for rows in found.values()) > 60
    with pytest.raises(ConfigError, match="has no history"):
        lake.history((database, "bag"))


def lines(versions: pa.Table) -> list[tuple[Any, ...]]:
    """The versions in order: their columns, then whether they are valid, and deleted."""
    order = [("id", "ascending"), ("_valid_from_position", "ascending")]
    kept = [name for name in versions.column_names if not name.startswith("_")]
    return [
        (*(row[name] for name in kept), row["_valid_to"] is None, row["_deleted"])
        for row in versions.sort_by(order).to_pylist()
    ]


def test_statements(server, new_database, tmp_path):
    """DDL changes the columns of all versions, or ends the history; what a transaction passes through is no version."""
    source = server("mysql-9.7")
    database = new_database(source)
    kept, number = Selection([f"{database}.*"]), 0
    position = ":".join(map(str, source.binlog_position()))
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")

        def taken(*statements: str) -> Any:
            nonlocal number, position
            for statement in statements:
                cursor.execute(statement)
            connection.commit()
            engine, _ = take(tmp_path, number, source.url(), position, database, kept)
            position, number = ":".join(map(str, source.binlog_position())), number + 1
            return engine

        taken(
            "create table t (id int primary key, v int, j json)",
            "begin",
            "insert into t values (1, 1, '{\"a\": 1}'), (2, 2, null)",
            "update t set v = 5 where id = 2",
            "delete from t where id = 1",
            "insert into t values (1, 3, '{\"a\": 1}')",
            "commit",
            "set session binlog_row_value_options = partial_json",
            "update t set j = json_set(j, '$.a', 2) where id = 1",
            "commit",
            "update t set id = 9 where id = 2",
        )
        lake = open_lake(tmp_path / "lake")
        [history] = lake.history(f"{database}.t")
        assert lines(history.arrow()) == [
            (1, 3, '{"a": 1}', False, False),
            (1, 3, '{"a": 2}', True, False),
            (2, 5, None, False, True),
            (9, 5, None, True, False),
        ]
        taken("alter table t add column n int", "update t set n = 1 where id = 1")
        taken(
            "alter table t drop column j",
            "alter table t rename column v to w",
            "rename table t to u",
        )
        [history] = open_lake(tmp_path / "lake").history(f"{database}.u")
        assert history.arrow().column_names[:3] == ["id", "w", "n"]
        assert lines(history.arrow()) == [
            (1, 3, None, False, False),
            (1, 3, None, False, False),
            (1, 3, 1, True, False),
            (2, 5, None, False, True),
            (9, 5, None, True, False),
        ]
        taken("truncate table u", "insert into u values (1, 7, 7)")
        assert [one[-2:] for one in lines(history.arrow())] == [
            (False, False), (False, False), (False, True), (True, False), (False, True), (False, True),
        ]  # fmt: skip
        # Another type: without copies the table is left out, and its versions end there.
        engine = taken("alter table u modify w varchar(9)", "insert into u values (2, 'x', 1)")
        entry = engine.catalog.tables[database, "u"]
        assert (entry.status, entry.history, len(entry.ended)) == ("left_out", "", 1)
        assert not any(one[-2] for one in lines(history.arrow()))
        assert (1, 7, 7, False, False) in lines(history.arrow())
        # A history needs whole images.
        engine = taken(
            "create table w (id int primary key, v int)",
            "insert into w values (1, 1)",
            "set session binlog_row_value_options = '', binlog_row_image = MINIMAL",
            "update w set v = 2",
        )
        assert "its history needs whole row images" in engine.catalog.tables[database, "w"].reason
