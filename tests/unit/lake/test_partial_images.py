"""Row images that leave columns out: what is filled in, what is not known, and copies of tables with such."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake.transaction import AddAction

from replica_client.errors import DataLossError
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.change_log_files import commit_files
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.merge import Merge
from replica_client.lake.partial_images import completed, image_facts
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.schema.shape import ColumnShape, TableShape
from tests.unit.lake.lakes import HandLog, applier, rows_of
from tests.unit.lake.written_files import written_file

COLUMNS = (
    ColumnShape("id", T.MYSQL_TYPE_LONG, unsigned=False, primary_key_index=0),
    ColumnShape("v", T.MYSQL_TYPE_LONG, unsigned=False),
    ColumnShape("w", T.MYSQL_TYPE_LONG, unsigned=False),
    ColumnShape("b", T.MYSQL_TYPE_BLOB, collation_id=63),
)
CREATE = "create table t (id int primary key, v int, w int, b blob)"


def batch(kinds: list[str], ids: list[Any], absent: list[Any], gtid: str = "") -> pa.RecordBatch:
    count = len(kinds)
    return pa.record_batch(
        {
            "_change_type": pa.array(kinds),
            "_gtid": pa.array([gtid] * count),
            "_absent": pa.array(absent, pa.list_(pa.string())),
            "_lossless": pa.nulls(count, pa.map_(pa.string(), pa.string())),
            "id": pa.array(ids, pa.int32()),
            "v": pa.array(range(count), pa.int32()),
            "w": pa.array(range(count), pa.int32()),
            "b": pa.nulls(count, pa.binary()),
        }
    )


UPDATE = ["update_preimage", "update_postimage"]
SHAPE = TableShape("d", "t", COLUMNS)


@pytest.mark.parametrize(
    ("kinds", "absent", "gtid", "left"),
    [
        (UPDATE, [["v", "w", "b"], ["id", "w", "b"]], "", ["w", "b"]),
        (UPDATE, [None, ["id", "w", "b"]], "", None),
        (UPDATE, [None, ["id", "w", "b"]], "0-1-5", None),
        # MariaDB: what both images lack may have got its default, so that nothing is certain.
        (UPDATE, [["v", "w", "b"], ["id", "w", "b"]], "0-1-5", ["id", "w", "b"]),
        (["insert", "insert"], [None, ["v", "b"]], "", ["v"]),
        (["insert", "insert"], [None, ["b"]], "", None),
        (["insert", "insert"], [None, ["b"]], "0-1-5", ["b"]),
    ],
)
def test_what_is_filled_in(kinds: Any, absent: Any, gtid: str, left: Any) -> None:
    found = completed(batch(kinds, [7, None], absent, gtid), SHAPE)
    assert found["_absent"].to_pylist()[1] == left
    is_filled = kinds == UPDATE and "id" not in (left or ())
    assert found["id"].to_pylist() == [7, 7 if is_filled else None]


@pytest.mark.parametrize(
    "code", [T.MYSQL_TYPE_BLOB, T.MYSQL_TYPE_JSON, T.MYSQL_TYPE_GEOMETRY, T.MYSQL_TYPE_VECTOR]
)
def test_an_insert_without_a_column_that_has_no_default(code: T) -> None:
    shape = replace(SHAPE, columns=(*COLUMNS[:3], replace(COLUMNS[3], type_code=code)))
    found = completed(batch(["insert", "insert"], [1, 2], [None, ["b"]]), shape)
    assert found["_absent"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("kinds", "ids", "absent", "gtid", "facts"),
    [
        (UPDATE, [1, 1], [None, None], "", (False, False, "")),
        (UPDATE, [1, 1], [["v"], ["w"]], "", (True, False, "")),
        (UPDATE, [1, 2], [["v"], ["w"]], "", (True, True, "")),
        (UPDATE, [1, 2], [["v"], None], "", (True, False, "")),
        (UPDATE, [1, 1], [["v"], ["w"]], "0-1-5", (False, False, "an UPDATE leaves out w")),
        (["insert"], [1], [["v", "w"]], "", (False, False, "an INSERT leaves out v, w")),
        (["delete"], [1], [["v", "w"]], "0-1-5", (True, False, "")),
    ],
)
def test_what_a_merge_must_know(kinds: Any, ids: Any, absent: Any, gtid: str, facts: Any) -> None:
    rows = pa.Table.from_batches([batch(kinds, ids, absent, gtid)])
    rows = rows.rename_columns(
        ["operation" if name == "_change_type" else name for name in rows.column_names]
    )
    found = image_facts(rows, ["id"])
    assert (found.partial, found.moves) == facts[:2]
    assert found.lacks.startswith(facts[2]) and bool(found.lacks) == bool(facts[2])
    keyless = image_facts(rows, [])
    assert bool(keyless.lacks) == any(absent)


def moved(log: Any) -> ChangeFile:
    """Row 1 becomes row 2, and gets a v; the images do not have w."""
    values = {"id": [1, 2], "v": [None, 9], "w": [None] * 2, "b": [None] * 2}
    return written_file(log, COLUMNS, UPDATE, values, 5, absent=[["v", "w", "b"], ["w", "b"]])


@pytest.mark.parametrize("high", ["f:00004", "f:00006"])
def test_a_copy_whose_keys_changed_meanwhile(tmp_path: Any, high: str) -> None:
    """Behind what it read it is exact; before, the row may have been read at neither key."""
    log, lake = HandLog(tmp_path / "log"), tmp_path / "lake"
    log.insert("t", id=1, v=1, w=1, b=None).commit()
    applier(lake, log, can_copy=True).run()
    file = moved(log.directory)
    action = AddAction(file.path, file.size, {}, file.modified, True, file.statistics())
    commit_files(log.directory, "p", 1, [action])
    engine = applier(lake, log, can_copy=True)
    engine.run()
    copy = engine.catalog.tables["d", "t"].copy
    rows = [{"id": 1, "v": 1, "w": 7, "b": None}, {"id": 3, "v": 3, "w": 3, "b": None}]
    log.copy("t", copy, CREATE, [("f:00001", high, rows)])
    engine = applier(lake, log, can_copy=True)
    engine.run()
    if high > file.first:
        entry = engine.catalog.tables["d", "t"]
        assert entry.status == "copying" and entry.copy != copy
        assert "a key changed while it was read" in entry.reason
    else:
        found = [(row["id"], row["v"], row["w"]) for row in rows_of(engine, "t")]
        assert sorted(found) == [(2, 9, 7), (3, 3, 3)]


def test_a_row_that_is_not_there(tmp_path: Any) -> None:
    file = moved(tmp_path)
    log = HandLog(tmp_path / "log")
    log.ddl(CREATE)
    shape = LakeTable(log._history.table(("d", "t")))
    with pytest.raises(DataLossError, match="an update leaves out w, and the row"):
        Merge(tmp_path, shape.model, (), tmp_path, (file,)).run()
