"""Types and lengths out of table map metadata."""

import pytest

from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.schema.model import column_length, real_type, split_string


def metadata_of(real: int, length: int) -> int:
    """As MySQL's Field_string writes it: real type with two inverted length bits, then length."""
    return (real ^ ((length & 0x300) >> 4)) | (length & 0xFF) << 8


@pytest.mark.parametrize("length", [*range(300), 511, 512, 513, 764, 767, 768, 1020, 1023])
def test_every_length_of_a_string_comes_back(length: int) -> None:
    assert split_string(T.MYSQL_TYPE_STRING, metadata_of(254, length)) == (254, length)


def test_enum_and_set_hide_in_string() -> None:
    assert split_string(T.MYSQL_TYPE_STRING, metadata_of(T.MYSQL_TYPE_ENUM, 2)) == (247, 2)
    assert split_string(T.MYSQL_TYPE_STRING, metadata_of(T.MYSQL_TYPE_SET, 8)) == (248, 8)
    assert real_type(T.MYSQL_TYPE_STRING, metadata_of(T.MYSQL_TYPE_ENUM, 1)) == T.MYSQL_TYPE_ENUM
    assert real_type(T.MYSQL_TYPE_VARCHAR, 0x1F7) == T.MYSQL_TYPE_VARCHAR


def test_var_string_in_both_spellings() -> None:
    assert split_string(T.MYSQL_TYPE_VAR_STRING, 20) == (T.MYSQL_TYPE_VAR_STRING, 20)
    assert split_string(T.MYSQL_TYPE_VAR_STRING, 384) == (T.MYSQL_TYPE_VAR_STRING, 384)
    assert split_string(T.MYSQL_TYPE_VAR_STRING, metadata_of(253, 20)) == (253, 20)


@pytest.mark.parametrize(
    ("code", "metadata", "length"),
    [
        (T.MYSQL_TYPE_INT24, 0, 3),
        (T.MYSQL_TYPE_LONGLONG, 0, 8),
        (T.MYSQL_TYPE_VARCHAR, 400, 400),
        (T.MYSQL_TYPE_BLOB, 2, 65535),
        (T.MYSQL_TYPE_JSON, 4, 2**32 - 1),
        (T.MYSQL_TYPE_BIT, 0x0107, 15),
        (T.MYSQL_TYPE_BIT, 0x0800, 64),
        (T.MYSQL_TYPE_NEWDECIMAL, 0x1E41, 65),
        (T.MYSQL_TYPE_TIME2, 6, 0),
        (200, 0, 0),
    ],
)
def test_lengths(code: int, metadata: int, length: int) -> None:
    assert column_length(code, metadata) == length
