"""Current tables where changes were lost, statements not understood, steps come again, and files become many."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest

from replica_client.lake import data_files, rewrite
from replica_client.lake.change_log_files import LOSS
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.maintenance import local_runner
from replica_client.lake.rewrite import net_rows
from replica_client.lake.state_table import StateTable
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.model import TableModel
from tests.unit.lake.lakes import HandLog, applier, rows_of
from tests.unit.schema.tables import history_of

MARIADB = StatementContext("d", ServerFlavor.MARIADB, (11, 8, 2), server_charset="latin1")


@pytest.fixture
def log(tmp_path):
    return HandLog(tmp_path / "change_log")


def statuses(engine) -> dict[str, str]:
    return {name: entry.status for (_, name), entry in engine.catalog.tables.items()}


def two_tables(log: HandLog) -> HandLog:
    for name in ("a", "b"):
        log.ddl(f"create table {name} (id int primary key, v int)").insert(name, id=1, v=1)
    return log


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("a", {"a": "copying", "b": "current"}),
        ("", {"a": "copying", "b": "copying"}),
        ("c", {"a": "current", "b": "current", "c": "copying"}),
    ],
)
def test_a_loss_asks_for_copies_of_what_it_may_have_been_of(log, tmp_path, table, expected):
    two_tables(log).offset += 100
    log.add(LOSS, table, None, {"kind": "statement", "reason": "as text"})
    log.commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    assert statuses(engine) == expected
    for entry in engine.catalog.tables.values():
        assert (entry.status == "copying") == (entry.reason == "changes were lost: as text")


def test_a_table_that_loses_rows_after_such_a_copy_is_left_out(log, tmp_path):
    two_tables(log).commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    entry = engine.catalog.tables["d", "a"]
    entry.lost = True  # as its last copy was made after a loss
    engine.catalog.save()
    log.offset += 100
    log.add(LOSS, "a", None, {"kind": "unknown_table", "reason": "no names"})
    log.add(LOSS, "b", None, {"kind": "unknown_table", "reason": "no names"})
    log.commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    assert statuses(engine) == {"a": "left_out", "b": "copying"}
    assert "after its last copy" in engine.catalog.tables["d", "a"].reason
    # A copy that somebody asks for begins again.
    entry = engine.catalog.tables["d", "a"]
    entry.needs_copy("asked for")
    assert not entry.lost


def test_a_loss_does_not_ask_for_a_table_that_is_left_out(log, tmp_path):
    two_tables(log).ddl("alter table a modify v varchar(20)")
    log.offset += 100
    log.add(LOSS, "", None, {"kind": "statement", "reason": "as text"})
    log.commit()
    engine = applier(tmp_path / "lake", log)
    engine.run()
    assert statuses(engine) == {"a": "left_out", "b": "left_out"}
    reasons = {name: entry.reason for (_, name), entry in engine.catalog.tables.items()}
    assert reasons["b"] == "changes were lost: as text" != reasons["a"]


def test_a_statement_that_is_not_understood_is_of_tables_that_are_known_only(log, tmp_path):
    two_tables(log).ddl("mangle table a").ddl("mangle table z").commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    assert statuses(engine) == {"a": "copying", "b": "current"}
    assert "not understood" in engine.catalog.tables[("d", "a")].reason


def test_a_table_that_replaces_another_begins_empty(log, tmp_path):
    two_tables(log).ddl("create or replace table a (id int primary key, w int)", context=MARIADB)
    log.insert("a", id=7, w=8).commit()
    engine = applier(tmp_path / "lake", log)
    engine.run()
    assert rows_of(engine, "a") == [{"id": 7, "w": 8}]
    assert rows_of(engine, "b") == [{"id": 1, "v": 1}]


def test_a_statement_that_alters_and_renames_leaves_the_new_columns(log, tmp_path):
    two_tables(log).ddl("alter table a add w int, rename to c").insert("c", id=2, v=2, w=3).commit()
    engine = applier(tmp_path / "lake", log)
    engine.run()
    rows = [{"id": 1, "v": 1, "w": None}, {"id": 2, "v": 2, "w": 3}]
    assert rows_of(engine, "c") == rows
    assert ("d", "a") not in engine.catalog.tables


def test_rows_for_a_name_in_another_case_leave_out_a_table_that_has_changes(log, tmp_path):
    log.ddl("create table t (id int primary key)").insert("t", id=1).commit()
    log.insert("T", id=1).commit()
    engine = applier(tmp_path / "lake", log)
    engine.run()
    assert statuses(engine) == {"t": "left_out", "T": "left_out"}
    assert "lower_case_table_names" in engine.catalog.tables["d", "t"].reason


@pytest.mark.parametrize("change", ["add column n int", "modify v int first"])
def test_columns_of_a_table_without_a_key_are_copied_again(log, tmp_path, change):
    """Rows are told apart by all of their columns, in order: changes of the old ones would not find them."""
    log.ddl("create table t (id int, v int)").insert("t", id=1, v=2).commit()
    log.ddl(f"alter table t {change}")
    row = {"id": 1, "v": 2, "n": None} if "add" in change else {"v": 2, "id": 1}
    log.delete("t", **row).commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    entry = engine.catalog.tables["d", "t"]
    assert entry.status == "copying"
    assert entry.reason.startswith("columns of a table without a primary key changed: alter")


def test_a_table_that_waits_for_its_copy_is_altered_and_renamed(log, tmp_path):
    two_tables(log).offset += 100
    log.add(LOSS, "a", None, {"kind": "statement", "reason": "as text"})
    log.ddl("alter table a add w int, rename to c").commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    entry = engine.catalog.tables[("d", "c")]
    assert (entry.status, entry.model.name) == ("copying", "c")
    assert [column.name for column in entry.model.columns] == ["id", "v", "w"]


@pytest.mark.parametrize(
    "statements",
    [
        ("rename table x to y",),
        ("alter table x rename to y",),
        ("alter table x add w int, rename to y",),
        ("rename table x to z, z to y",),
        ("rename table x to z", "alter table z rename to y"),
    ],
)
def test_a_table_whose_definition_is_not_known_is_renamed(log, tmp_path, statements):
    """Rows of it came before any definition; it waits for its copy, under the new name from now on."""
    log.insert("x", id=1)
    for statement in statements:
        log.ddl(statement)
    log.commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    assert {name: entry.status for name, entry in engine.catalog.tables.items()} == {
        ("d", "y"): "copying"
    }


def test_a_truncated_table_is_empty_and_one_that_is_copied_is_copied_anew(log, tmp_path):
    two_tables(log).ddl("truncate table a").insert("a", id=5, v=5).commit()
    engine = applier(tmp_path / "lake", log)
    engine.run()
    assert rows_of(engine, "a") == [{"id": 5, "v": 5}]
    log.ddl("alter table b modify v varchar(20)").commit()
    copies = applier(tmp_path / "other", log, can_copy=True)
    copies.run()
    before = copies.catalog.tables[("d", "b")].copy
    log.ddl("truncate table b").commit()
    copies.run()
    entry = copies.catalog.tables[("d", "b")]
    assert entry.status == "copying" and entry.copy != before


# One table on disk.


def shape(text: str = "create table t (id int primary key, v int)") -> LakeTable:
    model = history_of(text).table(("d", "t"))
    assert isinstance(model, TableModel)
    return LakeTable(model)


def add(table: StateTable, step: int, *ids: int) -> tuple[int, int]:
    texts = [json.dumps({"id": one, "v": step}) for one in ids]
    inserts, nothing = ["insert"] * len(ids), [None] * len(ids)
    change = net_rows(table.shape, inserts, nothing, texts, lambda _: Counter())
    return table.apply(change, step, local_runner(1))


def found(table: StateTable) -> list[tuple]:
    rows = table.dataset().to_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_files_are_counted_and_put_together(tmp_path, monkeypatch):
    table = StateTable(tmp_path / "t", shape(), "p")
    assert table.compact(local_runner(1)) == (0, 0)
    assert table.step == -1
    table.create()
    assert table.compact(local_runner(1)) == (0, 0)
    assert add(table, 1, 1, 2) == (1, 0)
    assert table.compact(local_runner(1)) == (1, 1)
    with monkeypatch.context() as patched:
        patched.setattr(data_files, "FULL_DATA_FILE_SIZE", 1)
        assert add(table, 2, 5, 6) == (1, 1)
        assert add(table, 3, 8) == (1, 2)
        assert add(table, 4, 5) == (2, 2)
    assert table.step == 4
    rows = found(table)
    assert rows == [(1, 1), (2, 1), (5, 4), (6, 2), (8, 3)]
    assert table.compact(local_runner(1)) == (3, 1)
    assert found(table) == rows
    assert table.step == 4


def test_many_rows_behind_one_are_one_file(tmp_path, monkeypatch):
    """The size of the file with one row, which is all footer, does not tell how big rows are."""
    table = StateTable(tmp_path / "t", shape(), "p")
    table.create()
    add(table, 1, 1)
    add(table, 2, *range(2, 200_000))
    [file] = table.data_files()
    assert file.rows == 199_999
    # Nor does how many of its rows stay as they are.
    monkeypatch.setattr(rewrite, "SPLIT_SIZE", 8 << 20)
    add(table, 3, *range(2, 200_000))
    [file] = table.data_files()
    assert file.rows == 199_999


def test_a_step_that_comes_again_is_passed_over(tmp_path):
    table = StateTable(tmp_path / "t", shape(), "p")
    table.create()
    add(table, 5, 1)
    assert add(table, 5, 2) == (0, 0)
    assert add(table, 4, 3) == (0, 0)
    table.truncate(5, local_runner())
    table.reshape(
        shape("create table t (id int primary key, w int)"), {"id": "id"}, 5, local_runner(1)
    )
    assert [row[0] for row in found(StateTable(tmp_path / "t", shape(), "p"))] == [1]
    assert StateTable(tmp_path / "t", shape(), "p").dataset().schema.names == ["id", "v"]
    table = StateTable(tmp_path / "t", shape(), "p")
    table.reshape(
        shape("create table t (id int primary key, w bigint)"),
        {"id": "id", "w": "v"},
        6,
        local_runner(1),
    )
    assert found(table) == [(1, 5)]
    assert table.dataset().schema.field("w").type == pa.int64()
    table.truncate(7, local_runner())
    assert found(table) == []
    assert table.step == 7


def test_columns_are_added_once(tmp_path):
    table = StateTable(tmp_path / "t", shape(), "p")
    table.create()
    add(table, 1, 1)
    wider = shape("create table t (id int primary key, v int, w varchar(9))")
    table.add_columns(wider, 1)
    assert StateTable(tmp_path / "t", shape(), "p").dataset().schema.names == ["id", "v"]
    table.add_columns(wider, 2)
    table.add_columns(wider, 2)
    assert found(table) == [(1, 1, None)]
    assert table.step == 2
