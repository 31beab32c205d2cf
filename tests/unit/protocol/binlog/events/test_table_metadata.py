"""Optional metadata of table maps: all 13 fields, unknown fields, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from replica_client.errors import BinlogDecodeError, TruncatedEventError
from replica_client.protocol.binlog.events.table_map import DefaultCharset, parse_table_metadata
from replica_client.protocol.constants.column_types import MetadataFieldType

# INT, BIGINT, VARCHAR, DECIMAL, SET (as STRING), DOUBLE
TYPES = bytes((3, 8, 15, 246, 254, 5))
CASES: list[tuple[int, str, dict[str, Any]]] = [
    (1, "a0", {"signedness": (True, False, True, False)}),
    (2, "ff", None or {}),
    (2, "08", {"default_charset": DefaultCharset(8)}),
    (2, "fcff00 01 3f", {"default_charset": DefaultCharset(255, ((1, 63),))}),
    (3, "08 fcff00", {"column_charset": (8, 255)}),
    (
        4,
        "0161 0162 0163 0164 0165 02c3bc",
        {"column_names": (b"a", b"b", b"c", b"d", b"e", b"\xc3\xbc")},
    ),
    (5, "02 0178 0179 00", {"set_labels": ((b"x", b"y"), ())}),
    (6, "01 03616263", {"enum_labels": ((b"abc",),)}),
    (7, "00 07", {"geometry_types": (0, 7)}),
    (8, "00 02", {"primary_key": ((0, 0), (2, 0))}),
    (9, "02 07 00 00", {"primary_key": ((2, 7), (0, 0))}),
    (10, "21 00 08", {"enum_and_set_default_charset": DefaultCharset(33, ((0, 8),))}),
    (11, "21 08", {"enum_and_set_column_charset": (33, 8)}),
    (12, "f8", {"visibility": (True, True, True, True, True, False)}),
    (13, "fc0004", {"vector_dimensions": (1024,)}),
]
CASES = [one for one in CASES if one[2]]


def field(code: int, text: str) -> bytes:
    value = bytes.fromhex(text)
    return bytes((code, len(value))) + value


def parse(data: bytes) -> Any:
    return parse_table_metadata(data, TYPES, (0,) * len(TYPES))


@pytest.mark.parametrize(("code", "text", "expected"), CASES)
def test_each_field(code: int, text: str, expected: dict[str, Any]) -> None:
    metadata = parse(field(code, text))
    for name, value in expected.items():
        assert getattr(metadata, name) == value
    assert metadata.field_types == (code,)
    assert metadata.unknown_fields == ()


def test_every_field_has_a_case() -> None:
    assert {code for code, _, _ in CASES} == set(MetadataFieldType)


@pytest.mark.parametrize(("code", "text", "expected"), CASES)
def test_each_field_cut(code: int, text: str, expected: dict[str, Any]) -> None:
    data = field(code, text)
    for size in range(1, len(data)):
        with pytest.raises(TruncatedEventError, match="table metadata"):
            parse(data[:size])


def test_unknown_fields_are_kept() -> None:
    metadata = parse(field(99, "0102") + field(8, "01") + field(100, ""))
    assert metadata.unknown_fields == ((99, b"\1\2"), (100, b""))
    assert metadata.primary_key == ((1, 0),)


def test_none() -> None:
    metadata = parse(b"")
    assert metadata.signedness is None
    assert metadata.column_names is None
    assert metadata.field_types == ()


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        (1, "a000", "1 bytes left over"),
        (1, "", "needs 1 bytes"),
        (4, "0161", "1 column names for 6 columns"),
        (5, "fe ffffffffffffff7f", "labels announced"),
        (6, "02 0161", "needs 1 bytes"),
        (8, "06", "column 6 of 6"),
        (9, "00", "needs 1 bytes"),
        (9, "09 00", "column 9 of 6"),
        (12, "", "needs 1 bytes"),
        (2, "ff", "0xff"),
    ],
)
def test_fields_that_do_not_fit(code: int, text: str, message: str) -> None:
    with pytest.raises(BinlogDecodeError, match=message):
        parse(field(code, text))
