"""Row images to tuples."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.errors import BinlogDecodeError, ColumnDecodeError, LimitExceededError
from replica_client.protocol.binlog.event import (
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
    EventHeader,
)
from replica_client.protocol.binlog.events.rows import PartialUpdateRowsEvent, RowsEvent
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import (
    JsonDiff,
    JsonDiffOperation,
    encode_diffs,
)
from replica_client.protocol.codec.compression import deflate_record
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.protocol.constants.event_types import EventType
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import ColumnShape, TableShape
from tests.unit.rows.images import SAMPLES, Sample, bitmap, encode_image, shape_of


def table(*columns: ColumnShape) -> TableShape:
    return TableShape("shop", "things", columns)


def exact(value: Any) -> Any:
    """What tells values apart that are equal: type and text."""
    return (type(value).__name__, str(value), value)


def random_rows(
    rng: random.Random, samples: Sequence[Sample], present: Sequence[bool], count: int
) -> tuple[list[tuple[Any, ...]], bytes]:
    rows, data = [], b""
    for _ in range(count):
        row = [None if rng.random() < 0.2 else sample.value(rng) for sample in samples]
        data += encode_image(samples, present, row)
        rows.append(tuple(v if p else ABSENT for v, p in zip(row, present, strict=True)))
    return rows, data


@pytest.mark.parametrize("at", range(len(SAMPLES)))
def test_every_type(at: int) -> None:
    sample = SAMPLES[at]
    rng = random.Random(at)
    rows, data = random_rows(rng, [sample], [True], 30)
    decoded = RowImageDecoder(shape_of([sample])).decode_rows("insert", b"\x01", None, data)
    assert [exact(after[0]) for _, after in decoded] == [exact(row[0]) for row in rows]
    assert all(before is None for before, _ in decoded)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_random_tables_and_images(seed: int, width: int) -> None:
    rng = random.Random(seed)
    samples = [rng.choice(SAMPLES) for _ in range(width)]
    before, after = ([rng.random() < 0.7 for _ in samples] for _ in range(2))
    before[0] = after[-1] = True
    expected, data = [], b""
    for _ in range(5):
        (old,), old_data = random_rows(rng, samples, before, 1)
        (new,), new_data = random_rows(rng, samples, after, 1)
        expected.append((old, new))
        data += old_data + new_data
    decoder = RowImageDecoder(shape_of(samples))
    arguments = ("update", bitmap(before), bitmap(after), data)
    assert decoder.decode_rows(*arguments) == expected
    assert list(decoder.iter_rows(*arguments)) == expected
    wanted = [name for name in decoder.column_names if rng.random() < 0.5]
    some = RowImageDecoder(shape_of(samples), columns=wanted)
    assert some.column_names == tuple(wanted)
    chosen = [decoder.column_names.index(name) for name in wanted]
    assert some.decode_rows(*arguments) == [
        tuple(tuple(image[at] for at in chosen) for image in pair) for pair in expected
    ]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_every_cut_is_an_error_that_names_the_table(seed: int) -> None:
    rng = random.Random(seed)
    samples = [rng.choice(SAMPLES[:-1]) for _ in range(9)]
    present = [True] * 9
    rows, data = random_rows(rng, samples, present, 1)
    decoder = RowImageDecoder(shape_of(samples))
    whole = decoder.decode_rows("delete", bitmap(present), None, data)
    assert whole == [(rows[0], None)]
    for size in range(1, len(data)):
        with pytest.raises(ColumnDecodeError, match=r"shop\.things.* offset \d+"):
            decoder.decode_rows("delete", bitmap(present), None, data[:size])


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.binary(min_size=1, max_size=60))
def test_any_bytes_are_rows_or_an_error(seed: int, data: bytes) -> None:
    rng = random.Random(seed)
    samples = [rng.choice(SAMPLES) for _ in range(rng.randint(1, 12))]
    decoder = RowImageDecoder(shape_of(samples))
    present = bitmap([True] * len(samples))
    for partial in (False, True):
        try:
            for before, _ in decoder.decode_rows("update", present, present, data, partial):
                assert len(before) == len(samples)
        except BinlogDecodeError:
            continue


def test_bits_beyond_the_last_column_mean_nothing() -> None:
    decoder = RowImageDecoder(table(ColumnShape("a", T.MYSQL_TYPE_TINY, length=1)))
    assert decoder.decode_rows("insert", b"\xff", None, b"\xfe\x07") == [(None, (7,))]


def test_signedness() -> None:
    columns = [
        ColumnShape("a", T.MYSQL_TYPE_LONGLONG, length=8, unsigned=unsigned)
        for unsigned in (True, False, None)
    ]
    data = b"\0" + b"\xff" * 24
    decoded = RowImageDecoder(table(*columns)).decode_rows("insert", b"\x07", None, data)
    assert decoded == [(None, (2**64 - 1, -1, -1))]


def test_a_value_of_another_type_is_an_error_with_its_position() -> None:
    columns = [
        ColumnShape("a", T.MYSQL_TYPE_TINY, length=1),
        ColumnShape("when", T.MYSQL_TYPE_DATETIME2),
    ]
    decoder = RowImageDecoder(table(*columns))
    with pytest.raises(
        ColumnDecodeError, match=r"shop\.things column when at offset 2 of the rows"
    ):
        decoder.decode_rows("insert", b"\x03", None, b"\0\x01" + b"\xff" * 5)


def test_unknown_types_are_named_when_their_value_is_met() -> None:
    columns = [ColumnShape("a", T.MYSQL_TYPE_TINY, length=1), ColumnShape("odd", 200)]
    decoder = RowImageDecoder(table(*columns), columns=["a"])
    assert decoder.decode_rows("insert", b"\x03", None, b"\x02\x01") == [(None, (1,))]
    assert decoder.decode_rows("insert", b"\x01", None, b"\0\x01") == [(None, (1,))]
    with pytest.raises(ColumnDecodeError, match="column odd .*type 200"):
        decoder.decode_rows("insert", b"\x03", None, b"\0\x01\x01")


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (ColumnShape("x", T.MYSQL_TYPE_DECIMAL), "definition"),
        (ColumnShape("x", T.MYSQL_TYPE_NEWDECIMAL, length=70), "DECIMAL"),
        (ColumnShape("x", T.MYSQL_TYPE_BIT, length=65), "BIT"),
        (ColumnShape("x", T.MYSQL_TYPE_TIME2, fraction_digits=7), "fraction"),
        (ColumnShape("x", T.MYSQL_TYPE_TIME, fraction_digits=7), "fraction"),
        (ColumnShape("x", T.MYSQL_TYPE_BLOB, metadata=5), "length"),
        (ColumnShape("x", T.MYSQL_TYPE_ENUM, length=3), "ENUM"),
        (ColumnShape("x", T.MYSQL_TYPE_SET, length=5), "SET"),
        (ColumnShape("x", T.MYSQL_TYPE_VARCHAR, length=5, collation_id=65000), "65000"),
    ],
)
def test_impossible_columns_are_named(column: ColumnShape, reason: str) -> None:
    decoder = RowImageDecoder(table(column))
    with pytest.raises(ColumnDecodeError, match=reason):
        decoder.decode_rows("insert", b"\x01", None, b"\0" + bytes(20))


def test_images_without_columns_and_bitmaps_of_another_size_are_refused() -> None:
    decoder = RowImageDecoder(table(ColumnShape("a", T.MYSQL_TYPE_TINY, length=1)))
    with pytest.raises(ColumnDecodeError, match="without any column"):
        decoder.decode_rows("insert", b"\0", None, b"\0")
    with pytest.raises(ColumnDecodeError, match="bitmap"):
        decoder.decode_rows("insert", b"\x01\0", None, b"\0")
    with pytest.raises(ValueError, match="replace"):
        decoder.decode_rows("replace", b"\x01", None, b"\0\1")
    assert decoder.decode_rows("insert", b"\x01", None, b"") == []


def test_temporals_as_python_types() -> None:
    columns = [
        ColumnShape("d", T.MYSQL_TYPE_DATE),
        ColumnShape("t", T.MYSQL_TYPE_TIME2, fraction_digits=2),
        ColumnShape("y", T.MYSQL_TYPE_YEAR, length=1),
    ]
    decoder = RowImageDecoder(table(*columns), DecodeOptions(temporals="python"))
    date = (2024 << 9 | 2 << 5 | 29).to_bytes(3, "little")
    ((_, row),) = decoder.decode_rows("insert", b"\x07", None, b"\0" + date + b"\x7f\xff\xff\xff\0")
    assert [str(value) for value in row] == ["2024-02-29", "-1 day, 23:59:59.990000", "0"]
    with pytest.raises(ColumnDecodeError, match="column d "):
        decoder.decode_rows("insert", b"\x01", None, b"\0\0\0\0")


def test_text_policies() -> None:
    column = ColumnShape("v", T.MYSQL_TYPE_VARCHAR, length=20, collation_id=255)
    char = ColumnShape("c", T.MYSQL_TYPE_STRING, length=20, collation_id=8)
    data = b"\0\x02a\xff\x03b\xe9 "

    def decode(policy: Any) -> Any:
        decoder = RowImageDecoder(table(column, char), DecodeOptions(invalid_text=policy))
        return decoder.decode_rows("insert", b"\x03", None, data)[0][1]

    with pytest.raises(ColumnDecodeError, match="column v at offset 2 "):
        decode("strict")
    assert decode("replace") == ("a�", "bé")
    assert decode("bytes") == (b"a\xff", "bé")


def test_types_that_only_a_definition_tells() -> None:
    columns = [
        ColumnShape("u", T.MYSQL_TYPE_STRING, length=16, collation_id=63, logical_type="uuid"),
        ColumnShape("v", T.MYSQL_TYPE_VARCHAR, length=8, collation_id=63, logical_type="vector"),
        ColumnShape("t", T.MYSQL_TYPE_TIME, fraction_digits=3),
        ColumnShape("old", T.MYSQL_TYPE_DECIMAL, length=6),
        ColumnShape("z", T.MYSQL_TYPE_VARCHAR_COMPRESSED, length=99, collation_id=8),
        ColumnShape("zb", T.MYSQL_TYPE_BLOB_COMPRESSED, metadata=2, collation_id=63),
    ]
    data = (
        "00"
        "0e123e4567e89b12d3a45642665544"
        "080000803f00004040"
        "00b3ced4c0"
        "20202d312e35"
        "0400e96162"
        "0c008a012caba8acaa1845c42100"
    )
    ((_, row),) = RowImageDecoder(table(*columns)).decode_rows(
        "insert", b"\x3f", None, bytes.fromhex(data)
    )
    assert [str(value) for value in row[:4]] == [
        "123e4567-e89b-12d3-a456-426655440000",
        "(1.0, 3.0)",
        "-01:02:03.456",
        "-1.5",
    ]
    assert row[4:] == ("éab", b"xyz" * 100)


def test_a_compressed_column_has_a_limit() -> None:
    column = ColumnShape("zb", T.MYSQL_TYPE_BLOB_COMPRESSED, metadata=2, collation_id=63)
    decoder = RowImageDecoder(table(column), DecodeOptions(max_uncompressed_size=100))
    with pytest.raises((ColumnDecodeError, LimitExceededError), match="max_uncompressed_size"):
        decoder.decode_rows(
            "insert", b"\x01", None, bytes.fromhex("000c008a012caba8acaa1845c42100")
        )


def test_set_values_of_a_column_are_kept() -> None:
    column = ColumnShape("s", T.MYSQL_TYPE_SET, length=1, labels=("a", "b"))
    rows = RowImageDecoder(table(column)).decode_rows("insert", b"\x01", None, b"\0\3\0\3")
    assert rows[0][1][0] is rows[1][1][0]


# Captured from MySQL 9.7.4: w3(id INT, c2 … c7 INT, j JSON), row image MINIMAL, PARTIAL_JSON,
# JSON_SET(j, '$.a', 4).
W3 = table(
    *(ColumnShape(f"c{at}", T.MYSQL_TYPE_LONG, length=4, unsigned=False) for at in range(1, 8)),
    ColumnShape("j", T.MYSQL_TYPE_JSON, metadata=4),
)
PARTIAL = bytes.fromhex("0001000000010100090000000003242e6103050400")


def test_partial_update_without_the_before_image_gives_differences() -> None:
    ((before, after),) = RowImageDecoder(W3).decode_rows("update", b"\x01", b"\x80", PARTIAL, True)
    assert before == (1,) + (ABSENT,) * 7
    assert after[:7] == (ABSENT,) * 7
    expected = JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.of(4))
    assert [str(diff) for diff in after[7]] == [str(expected)]


def test_partial_update_with_the_before_image_gives_the_document() -> None:
    columns = table(
        ColumnShape("j", T.MYSQL_TYPE_JSON, metadata=4),
        ColumnShape("k", T.MYSQL_TYPE_JSON, metadata=4),
    )
    documents = [JsonDocument.of({"a": 1}), JsonDocument.of([1])]
    old = b"\0" + b"".join(len(d.data).to_bytes(4, "little") + d.data for d in documents)
    diff = encode_diffs([JsonDiff(JsonDiffOperation.INSERT, "$[1]", JsonDocument.of("x"))])
    whole = JsonDocument.of({"b": 2}).data
    new = b"\x01\x02\0"
    new += len(whole).to_bytes(4, "little") + whole + len(diff).to_bytes(4, "little") + diff
    unchanged = b"\0\0" + old[1:]
    rows = old + new + old + unchanged
    first, second = RowImageDecoder(columns).decode_rows("update", b"\x03", b"\x03", rows, True)
    assert [document.text for document in first[1]] == ['{"b": 2}', '[1, "x"]']
    assert second[0] == second[1]
    only = RowImageDecoder(columns, columns=["k"])
    assert only.decode_rows("update", b"\x03", b"\x03", rows, True)[0][1][0].text == '[1, "x"]'
    for size in range(len(old), len(old + new)):
        with pytest.raises(ColumnDecodeError):
            RowImageDecoder(columns).decode_rows("update", b"\x03", b"\x03", rows[:size], True)


def test_unknown_value_options_are_refused() -> None:
    with pytest.raises(ColumnDecodeError, match="options"):
        RowImageDecoder(W3).decode_rows(
            "update", b"\x01", b"\x80", PARTIAL[:5] + b"\x02" + PARTIAL[6:], True
        )


def event(body: RowsEvent) -> BinlogEvent:
    header = EventHeader(1, body.type_code, 1, 100, 0, 0)
    return BinlogEvent(header, body, "binlog.000007", 1234)


def test_events() -> None:
    decoder = RowImageDecoder(W3)
    type_code = EventType.PARTIAL_UPDATE_ROWS_EVENT
    body: RowsEvent = PartialUpdateRowsEvent(
        "update", type_code, 7, 1, b"", 8, b"\x01", b"\x80", PARTIAL
    )
    assert len(list(decoder.iter_event(event(body)))) == 1
    rows = b"\xfe" + b"\x05\0\0\0"
    for code, data in (
        (EventType.WRITE_ROWS_EVENT, rows),
        (EventType.WRITE_ROWS_COMPRESSED_EVENT_V1, deflate_record(rows)),
    ):
        body = RowsEvent("insert", code, 7, 1, b"", 8, b"\x01", None, data)
        assert list(decoder.iter_event(event(body))) == [(None, (5,) + (ABSENT,) * 7)]
    assert BinlogFormat().binlog_version == 4


@pytest.mark.parametrize(
    ("count", "data", "reason"), [(9, b"\0\5\0\0\0", "9 columns"), (8, b"\0\5\0", "cut off")]
)
def test_errors_of_events_say_where(count: int, data: bytes, reason: str) -> None:
    body = RowsEvent("insert", EventType.WRITE_ROWS_EVENT, 7, 1, b"", count, b"\x01", None, data)
    with pytest.raises(ColumnDecodeError, match=reason) as caught:
        list(RowImageDecoder(W3).iter_event(event(body)))
    assert (caught.value.file, caught.value.position) == ("binlog.000007", 1234)
    assert caught.value.event_name == "WRITE_ROWS_EVENT"
