"""Arrow types of DECIMAL columns, also of such that do not exist."""

import pyarrow as pa
import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.arrow_types import arrow_column
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import ColumnShape, TableShape


def column(precision: int, scale: int) -> ColumnShape:
    code = ColumnType.MYSQL_TYPE_NEWDECIMAL
    return ColumnShape("c", code, precision | scale << 8, length=precision, scale=scale)


@pytest.mark.parametrize(
    ("precision", "scale", "kind"),
    [
        (1, 0, pa.decimal128(1, 0)),
        (38, 30, pa.decimal128(38, 30)),
        (39, 0, pa.decimal256(39, 0)),
        (65, 30, pa.decimal256(65, 30)),
        (39, 33, pa.decimal256(39, 33)),
    ],
)
def test_decimals(precision: int, scale: int, kind: pa.DataType) -> None:
    assert arrow_column(column(precision, scale)).type == kind


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (66, 0), (255, 1), (5, 6), (65, 39)])
def test_a_decimal_that_does_not_exist(precision: int, scale: int) -> None:
    """A hostile table map: a batch can be begun, and a value is refused."""
    shape = column(precision, scale)
    assert arrow_column(shape).type == pa.string()
    decoder = RowImageDecoder(TableShape("d", "t", (shape,)))
    assert decoder.decode_rows("insert", b"\x01", None, b"\x01") == [(None, (None,))]
    with pytest.raises(ColumnDecodeError, match=r"DECIMAL\(\d+,\d+\) does not exist"):
        decoder.decode_rows("insert", b"\x01", None, b"\0" + bytes(60))
