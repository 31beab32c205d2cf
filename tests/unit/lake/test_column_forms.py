"""Columns in the types that they have in the lake: of the binlog's batches, and of copied texts."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from replica_client.lake.change_files import ChangeFileBuilder, _digests
from replica_client.lake.lake_columns import lake_column
from replica_client.lake.lake_table import LakeTable, row_digest
from replica_client.lake.typed_columns import _cast, _decoded, lake_array
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.batches import CHANGE_FIELDS
from replica_client.rows.json_values import with_json_nulls
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import ColumnModel, TableModel

BIG = pa.decimal128(20, 0)


@pytest.mark.parametrize(
    ("model", "found", "wanted", "expected"),
    [
        (ColumnModel("a", "int"), pa.array([1, None], pa.int32()), pa.int32(), [1, None]),
        (ColumnModel("a", "int"), pa.array([1, None], pa.int16()), pa.int64(), [1, None]),
        (
            ColumnModel("a", "json"),
            pa.array(["null", "[1]", None]),
            pa.string(),
            ["null", "[1]", None],
        ),
        (ColumnModel("a", "varchar", 9), pa.array(["null", "x"]), pa.string(), ["null", "x"]),
        (
            *(ColumnModel("a", "bigint", unsigned=True), pa.array([1 << 63, 0], pa.uint64()), BIG),
            [Decimal(1 << 63), Decimal(0)],
        ),
        (
            *(ColumnModel("a", "decimal", 30, 9), pa.array([Decimal("0.000000001")]), pa.string()),
            ["0.000000001"],
        ),
        (
            ColumnModel("a", "time", fraction_digits=2),
            pa.array([-datetime.timedelta(hours=838, minutes=59, seconds=59, milliseconds=500)]),
            pa.string(),
            ["-838:59:59.50"],
        ),
    ],
)
def test_columns_of_batches(model, found, wanted, expected):
    made = lake_array(None, model, pa.chunked_array([found]), wanted)
    assert made.type == wanted
    assert made.to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "wanted", "texts", "expected"),
    [
        ("int", pa.int32(), [b"-5", None], [-5, None]),
        ("bigint", BIG, [b"18446744073709551615"], [Decimal((1 << 64) - 1)]),
        ("double", pa.float64(), [b"1.5"], [1.5]),
        ("decimal", pa.decimal128(5, 2), [b"1.50"], [Decimal("1.50")]),
        # One that is text in the lake has more forms than the server's.
        ("decimal", pa.string(), [b"1.50"], None),
        ("json", pa.string(), [b"null", b"{}", None], ["null", "{}", None]),
        ("varchar", pa.string(), [b"null"], ["null"]),
        ("varbinary", pa.binary(), [b"\xff"], [b"\xff"]),
        ("geometry", pa.string(), [b"x"], None),
        ("date", pa.date32(), [b"2026-11-24"], [datetime.date(2026, 11, 24)]),
        ("date", pa.date32(), [b"0000-00-00"], None),
    ],
)
def test_columns_of_copied_texts(kind, wanted, texts, expected):
    column = lake_column(ColumnModel("a", "int"))
    column = type(column)("a", wanted, column.decoded, column.to_arrow)
    made = _cast(ColumnModel("a", kind), column, pa.array(texts, pa.binary()))
    assert (None if made is None else made.to_pylist()) == expected


def test_values_that_arrow_does_not_cast():
    assert _decoded(lake_column(ColumnModel("a", "int")), [b"1", None, b"5"], int) == [1, None, 5]


def test_rows_as_json_name_the_documents_that_are_null():
    """Rows of tables without a primary key are kept as JSON, where SQL NULL and the document look alike."""
    table = LakeTable(
        TableModel(
            "d", "t", (ColumnModel("d", "json"), ColumnModel("e", "json"), ColumnModel("n", "int"))
        )
    )
    plain = '{"d": null, "e": null, "n": 1}'
    texts = [with_json_nulls(plain, names) for names in ([], ["d"], ["d", "e"])]
    assert texts[0] == plain
    assert texts[2] == '{"d": null, "e": null, "n": 1, "": ["d", "e"]}'
    rows = table.to_arrow(table.decode(texts), ["a", "b", "c"])
    assert rows["d"].to_pylist() == [None, "null", "null"]
    assert rows["e"].to_pylist() == [None, None, "null"]
    assert len({row_digest(text) for text in texts}) == 3


def test_changes_and_copies_of_a_row_without_a_key_have_one_digest():
    columns = (ColumnModel("d", "json"), ColumnModel("e", "json"))
    builder = ChangeFileBuilder(shape_of(TableModel("d", "t", columns), ServerFlavor.MYSQL))
    head = [field.name for field in CHANGE_FIELDS]
    batch = builder.finish()
    values = dict.fromkeys(head)
    rows = {**values, "_change_type": "insert", "d": "null", "e": None}
    kinds = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["insert"]))
    arrays = [
        kinds,
        *(
            pa.array([rows[name]], pa.string() if name in "de" else batch.schema.field(name).type)
            for name in [*head[1:], "d", "e"]
        ),
    ]
    made = pa.RecordBatch.from_arrays(arrays, names=[*head, "d", "e"])
    copied = with_json_nulls('{"d": null, "e": null}', ["d"])
    assert _digests(made, builder.shape) == [row_digest(copied)]
