import pickle
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.errors import ColumnDecodeError, EncodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument, JsonOpaque, encode_json
from replica_client.protocol.binlog.values.json_reader import decode_json_value
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time


def nested(levels: int) -> bytes:
    """Arrays inside each other, the innermost one empty."""
    value = b"\x00\x00\x04\x00"
    for _ in range(levels - 1):
        value = b"\x01\x00" + (len(value) + 7).to_bytes(2, "little") + b"\x02\x07\x00" + value
    return b"\x02" + value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("", None),
        ("0400", None),
        ("0401", True),
        ("0402", False),
        ("05feff", -2),
        ("06feff", 65534),
        ("07feffffff", -2),
        ("08feffffff", 4294967294),
        ("090000000000000080", -(1 << 63)),
        ("0affffffffffffffff", (1 << 64) - 1),
        ("0b000000000000f8bf", -1.5),
        ("0c03e282ac", "€"),
        ("0c00", ""),
        ("0000000400", {}),
        ("010000000008000000", {}),
        ("0200000400", []),
        ("03000000000800000000", []),
        ("0001000c000b00010005020061", {"a": 2}),
        # A large array inlines 32-bit integers too.
        ("0302000000120000000700000080080000008000", [-(1 << 31), 1 << 31]),
        ("03010000000d00000005ffffffff", [-1]),
        ("0ff60403028163", Decimal("1.99")),
        ("0f0a0800000000001e9519", Date(2015, 1, 15)),
        ("0f0b08c0d4011976010000", Time(False, 23, 24, 25, 120000, 6)),
        ("0f0c0800000019761f9519", DateTime(2015, 1, 15, 23, 24, 25, 0, 6)),
        ("0f070800000019761f9519", DateTime(2015, 1, 15, 23, 24, 25, 0, 6)),
        ("0ffc02cafe", JsonOpaque(252, b"\xca\xfe")),
        ("0ffd0161", "a"),
    ],
)
def test_values(data, value):
    got = decode_json_value(bytes.fromhex(data))
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "data",
    [
        "04",  # literal cut off
        "0403",  # no such literal
        "05ff",
        "0700ff00",
        "0900000000000000",
        "0b000000000000f8",
        "0b000000000000f07f",  # infinity
        "0b000000000000f87f",  # not a number
        "0c",
        "0c0561",  # string longer than the rest
        "0c8080808010",  # length of more than 32 bits
        "0c808080808000",  # length of more than five bytes
        "0c01ff",  # not UTF-8
        "0d00",  # no such type
        "ff",
        "0f",
        "0ff6",
        "0ff604030281",  # opaque value cut off
        "0ff603030281",  # too few bytes for precision and scale
        "0ff60303048163",  # scale above precision
        "0ff6060900bb9aca00",  # more digits than fit
        "0f0a0400000000",  # date of four bytes
        "0f0c08ffffffffffffff7f",  # fields out of range
        "0f0cff",
        "00",
        "0001000c",
        "0001000d000b00010005020061",  # longer than the document
        "0009000c000b00010005020061",  # entries do not fit into the size
        "0001000c000a00010005020061",  # key inside of the entries
        "0001000c000b00020005020061",  # key beyond the end
        "0001000c000b000100050200ff",  # key not UTF-8
        "02010008000c070001",  # string beyond the end
        "02010008000c060000",  # value inside of the entries
        "0201000700040300",  # no such inlined literal
        "02010007000d0700",
    ],
)
def test_malformed(data):
    document = JsonDocument(bytes.fromhex(data))
    with pytest.raises(ColumnDecodeError):
        _ = document.text
    with pytest.raises(ColumnDecodeError):
        _ = document.value
    with pytest.raises(ColumnDecodeError):
        document.compacted()
    assert repr(document) == f"JsonDocument(malformed, {len(document.data)} bytes)"


def test_bytes_behind_a_document_are_not_its_own():
    assert JsonDocument(bytes.fromhex("0200000400") + b"rest").text == "[]"


def test_depth():
    assert JsonDocument(nested(100)).text == "[" * 100 + "]" * 100
    for read in (lambda d: d.text, lambda d: d.value, lambda d: d.compacted()):
        with pytest.raises(ColumnDecodeError, match="100"):
            read(JsonDocument(nested(101)))


def test_overlapping_containers_do_not_multiply():
    # Each array has 100 elements, which are all the same next array: 100**20 elements.
    inner = bytes.fromhex("00000400")
    for _ in range(20):
        size = 304 + len(inner)
        inner = (
            (100).to_bytes(2, "little") + size.to_bytes(2, "little") + b"\x02\x30\x01" * 100 + inner
        )
    document = JsonDocument(b"\x02" + inner)
    for read in (lambda d: d.text, lambda d: d.value, lambda d: d.compacted()):
        with pytest.raises(ColumnDecodeError, match="overlapping"):
            read(document)


def test_overlapping_strings_do_not_multiply():
    count, length = 10_000, 30_000
    size = 4 + 3 * count + 3 + length
    at = (4 + 3 * count).to_bytes(2, "little")
    text = bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14)) + b"x" * length
    head = count.to_bytes(2, "little") + size.to_bytes(2, "little")
    document = JsonDocument(b"\x02" + head + (b"\x0c" + at) * count + text)
    for read in (lambda d: d.text, lambda d: d.value, lambda d: d.compacted()):
        with pytest.raises(ColumnDecodeError, match="overlapping"):
            read(document)


def test_overlapping_keys_do_not_multiply():
    count, length = 2000, 40_000
    size = 4 + 7 * count + length
    at = (4 + 7 * count).to_bytes(2, "little")
    head = count.to_bytes(2, "little") + size.to_bytes(2, "little")
    keys = (at + length.to_bytes(2, "little")) * count
    document = JsonDocument(b"\x00" + head + keys + b"\x04\x00\x00" * count + b"k" * length)
    for read in (lambda d: d.text, lambda d: d.value, lambda d: d.compacted()):
        with pytest.raises(ColumnDecodeError, match="overlapping"):
            read(document)


def test_length_of_more_than_32_bits():
    with pytest.raises(ColumnDecodeError, match="32 bits"):
        decode_json_value(bytes.fromhex("0c8080808010"))


def test_negative_numbers_inlined_in_the_large_format():
    data = encode_json([-2, "x" * 70000, -70000])
    assert data[0] == 3
    assert data[9:14] == b"\x05\xfe\xff\xff\xff"
    assert data[19:24] == b"\x07" + (-70000).to_bytes(4, "little", signed=True)


def test_equal_when_the_text_is():
    small = JsonDocument(bytes.fromhex("0201000a0005020000000000"))
    fresh = JsonDocument.of([2])
    assert small.data != fresh.data
    assert small == fresh
    assert hash(small) == hash(fresh)
    assert fresh != JsonDocument.of([2.0])
    assert fresh != "[2]"
    assert JsonDocument(b"") == JsonDocument.of(None)


def test_document_is_lazy_and_can_be_pickled():
    broken = JsonDocument(b"\xff")
    assert broken == JsonDocument(b"\xff")
    document = pickle.loads(pickle.dumps(JsonDocument.of({"a": [1, None]})))
    assert str(document) == '{"a": [1, null]}'
    assert repr(document) == 'JsonDocument({"a": [1, null]})'
    assert document.value == {"a": [1, None]}


def test_value_is_new_each_time():
    document = JsonDocument.of([1])
    document.value.append(2)
    assert document.value == [1]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (32767, "05ff7f"),
        (32768, "0700800000"),
        (-32769, "07ff7fffff"),
        (1 << 31, "090000008000000000"),
        (1 << 63, "0a0000000000000080"),
        ({"b": 1, "a": 2, "": 3}, "0003001b0019000000190001001a0001000503000502000501006162"),
        (JsonOpaque(16, b"\x05"), "0f100105"),
        ("x" * 128, "0c8001" + "78" * 128),
        (Decimal("1.99"), "0ff60403028163"),
        (Decimal("123456789.1234"), "0ff6080d04875bcd1504d2"),
        (Decimal("0.5"), "0ff603010185"),
        (Decimal("-1E+2"), "0ff60403007f9b"),
    ],
)
def test_encoded(value, data):
    assert encode_json(value).hex() == data


@pytest.mark.parametrize(
    "value",
    [
        object(),
        b"bytes",
        {1: 2},
        {"k" * 65536: 1},
        float("inf"),
        float("nan"),
        1 << 64,
        -(1 << 63) - 1,
        Decimal("NaN"),
        Decimal(10) ** 81,
        Decimal("1e-31"),
        "\ud800",
    ],
)
def test_not_encodable(value):
    with pytest.raises(EncodeError):
        encode_json(value)
    with pytest.raises(EncodeError):
        encode_json([value])


def test_encoded_depth():
    value: list[object] = []
    for _ in range(99):
        value = [value]
    assert encode_json(value) == nested(100)
    with pytest.raises(EncodeError):
        encode_json([value])


@pytest.mark.parametrize("length", [65497, 65498, 65499, 65500, 70000])
def test_small_and_large_format(length):
    document = JsonDocument.of({"a": "x" * length, "b": [-1, 1 << 20]})
    # header 4, key entries 2 x 4, value entries 2 x 3, keys 2, length 3, array 4 + 2 x 3 + 4
    size = 4 + 8 + 6 + 2 + 3 + length + 14
    assert document.data[0] == (0 if size <= 65535 else 1)
    assert document.value == {"a": "x" * length, "b": [-1, 1 << 20]}
    assert document.compacted().data == document.data


_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=200)
    | st.decimals(-(10**30), 10**30, places=6)
    | st.builds(JsonOpaque, st.sampled_from([13, 15, 16, 252, 254, 255]), st.binary(max_size=200))
    | st.builds(Date, st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31))
    | st.builds(
        DateTime,
        st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31), st.integers(0, 23),
        st.integers(0, 59), st.integers(0, 59), st.integers(0, 999999), st.just(6),
    )
    | st.builds(
        Time,
        st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59),
        st.integers(1, 999999), st.just(6),
    )
)  # fmt: skip
_documents = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), inner, max_size=8)
    ),
    max_leaves=40,
)


@settings(max_examples=200, deadline=None)
@given(_documents)
@pytest.mark.slow
def test_encoding_loses_nothing(value):
    data = encode_json(value)
    document = JsonDocument(data)
    assert document.value == value
    assert encode_json(document.value) == data
    assert document.compacted().data == data
