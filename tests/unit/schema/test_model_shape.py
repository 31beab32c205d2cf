"""The shape that a definition alone gives is the one that table maps of real servers have."""

from pathlib import Path

import pytest

import replica_client as rc
from replica_client.errors import SchemaError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.arrow_types import arrow_column
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import ColumnModel, TableModel
from tests.unit.schema.tables import history_of

DATA = Path(rc.__file__).parent / "testing" / "data"
SAME = (
    *("name", "type_code", "nullable", "labels", "primary_key_index", "logical_type", "visible"),
    *("scale", "fraction_digits"),
)
KINDS = """
CREATE TABLE t (
    a TINYINT UNSIGNED NOT NULL, b BIGINT, c FLOAT, d DOUBLE UNSIGNED, e DECIMAL(12,3), f BIT(9), g YEAR,
    h DATE, i TIME(3), j DATETIME(6), k TIMESTAMP, l CHAR(3), m VARCHAR(9) CHARACTER SET latin1, n BINARY(4),
    o VARBINARY(7), p MEDIUMTEXT, q TINYBLOB, r ENUM('x', 'y'), s SET('u', 'v'), t JSON, u POINT,
    v VARCHAR(8) CHARACTER SET binary, PRIMARY KEY (b, a)
)"""
ARROW = (
    "uint8 int64 float double decimal128(12, 3) uint64 uint16 date32[day] duration[us] timestamp[us]"
    " timestamp[us, tz=UTC] string string binary binary string binary"
    " dictionary<values=string, indices=int32, ordered=0> dictionary<values=string, indices=int32, ordered=0>"
    " string struct<wkb: binary, srid: uint32> binary"
)


def test_shapes_of_definitions_are_those_of_table_maps() -> None:
    reader = rc.open_binlog(DATA / "shop-bin.000001")
    compared = set()
    for transaction in reader.transactions():
        for rows in transaction.rows:
            model = reader.history.table((rows.shape.database, rows.shape.table))
            assert isinstance(model, TableModel)
            shape = shape_of(model, ServerFlavor.MYSQL)
            for one, other in zip(shape.columns, rows.shape.columns, strict=True):
                assert [getattr(one, name) for name in SAME] == [
                    getattr(other, name) for name in SAME
                ]
                assert arrow_column(one).type == arrow_column(other).type
                compared.add(one.type_code)
    assert len(compared) > 5


def test_every_kind_has_the_type_of_its_column() -> None:
    model = history_of(KINDS).table(("d", "t"))
    assert isinstance(model, TableModel)
    shape = shape_of(model, ServerFlavor.MYSQL)
    assert " ".join(str(arrow_column(column).type) for column in shape.columns) == ARROW
    assert shape.primary_key == (1, 0)
    assert [column.nullable for column in shape.columns[:3]] == [False, False, True]
    assert [column.unsigned for column in shape.columns[:7]] == [
        *(True, False, False, True, False, None, None)
    ]
    assert (shape.columns[17].labels, shape.columns[18].labels) == (("x", "y"), ("u", "v"))


@pytest.mark.parametrize(
    ("kind", "text"), [("uuid", "uuid"), ("inet4", "inet4"), ("inet6", "inet6")]
)
def test_types_of_mariadb_are_text(kind: str, text: str) -> None:
    (column,) = shape_of(
        TableModel("d", "t", (ColumnModel("a", kind),)), ServerFlavor.MARIADB
    ).columns
    assert (column.logical_type, column.type_code, column.collation_id) == (text, 254, 63)


def test_a_vector_is_of_its_own_type_in_mysql_only() -> None:
    model = TableModel("d", "t", (ColumnModel("v", "vector", length=3),))
    (column,) = shape_of(model, ServerFlavor.MYSQL).columns
    assert (column.type_code, column.logical_type) == (242, None)
    (column,) = shape_of(model, ServerFlavor.MARIADB).columns
    assert (column.type_code, column.logical_type) == (15, "vector")


def test_hidden_columns_are_left_out_and_unknown_types_refused() -> None:
    plain, hidden = ColumnModel("a", "int"), ColumnModel("b", "bigint", hidden=True)
    shape = shape_of(TableModel("d", "t", (plain, hidden), (("a", 0),)), ServerFlavor.MYSQL)
    assert shape.column_names == ("a",)
    assert shape.primary_key == (0,)
    with pytest.raises(SchemaError, match=r"column x has the type xmltype"):
        shape_of(TableModel("d", "t", (ColumnModel("x", "xmltype"),)), ServerFlavor.MYSQL)
