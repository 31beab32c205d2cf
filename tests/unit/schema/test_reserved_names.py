"""Column names of ours: one list, which every output has, and what becomes of tables that have one of them."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("deltalake", reason="pip install '.[lake]'")

from replica_client.errors import ConfigError
from replica_client.lake.change_files import ChangeFileBuilder, change_rows
from replica_client.lake.history_rows import FIELDS
from replica_client.lake.lake_table import COPY_KEY, DELETED, LakeTable, cannot_hold
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.batches import CHANGE_FIELDS, BatchBuilder
from replica_client.rows.table_files import CHANGE_COLUMNS
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.names import RESERVED, check_names, taken_names


def _model(*names: str) -> TableModel:
    columns = (ColumnModel("id", "int"), *(ColumnModel(name, "datetime") for name in names))
    return TableModel("d", "t", columns, (("id", 0),))


def test_the_list_is_what_outputs_add() -> None:
    assert tuple(field.name for field in CHANGE_FIELDS) == RESERVED["batches"]
    assert set(CHANGE_COLUMNS) < set(RESERVED["batches"])
    assert tuple(field.name for field in FIELDS) == RESERVED["lake history"]
    assert RESERVED["lake soft deletes"] == (DELETED,)
    keyless = TableModel("d", "t", _model("a").columns)
    added = {*LakeTable(_model("a")).schema.names, *LakeTable(keyless).schema.names} - {"id", "a"}
    assert added == set(RESERVED["lake"])
    assert COPY_KEY in RESERVED["lake"]
    assert all(name == name.lower() for names in RESERVED.values() for name in names)


def test_names_are_compared_without_letter_case() -> None:
    assert taken_names("batches", ["id", "_Change_Type", "_GTID"]) == {
        "_change_type": "_Change_Type",
        "_gtid": "_GTID",
    }
    assert taken_names("batches", ["change_type", "__gtid"]) == {}
    assert taken_names("dlt", ["_Deleted ", "-deleted"]) == {"_deleted": "-deleted"}
    with pytest.raises(ConfigError, match=r"d\.t: it has a column _FILE, and batches have one"):
        check_names("batches", "d.t", ["_FILE"], "batches have", "exclude the table")


@pytest.mark.parametrize("name", RESERVED["batches"])
def test_batches_refuse_a_table_and_lakes_take_it(name: str) -> None:
    shape = shape_of(_model(name.upper()), ServerFlavor.MYSQL)
    with pytest.raises(ConfigError, match=f"d.t: it has a column {name.upper()}"):
        BatchBuilder(shape)
    assert BatchBuilder(shape, ("id",)).schema.names[-1] == "id"
    plain = shape_of(_model(name), ServerFlavor.MYSQL)
    rows, _, _ = change_rows([ChangeFileBuilder(plain).finish()])
    assert f"${name}" in rows.column_names
    assert len(set(rows.column_names)) == len(rows.column_names)
    assert json.loads(rows.schema.metadata[b"replica_client.key"]) == ["id"]
    assert bool(cannot_hold(_model(name))) == (name in RESERVED["lake"])


def test_dlt_gives_its_own_columns_other_names() -> None:
    pytest.importorskip("dlt")
    from replica_client.compat.dlt_tables import own_columns

    assert own_columns(_model("a")) == ("_change_order", "_deleted")
    assert own_columns(_model("_Deleted")) == ("_change_order", "_replica_client_deleted")
    with pytest.raises(ConfigError, match="_dlt_id"):
        own_columns(_model("_dlt_id"))
