"""Documents whose keys were seen before are written as any others: text, errors and limits."""

import random

import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_binary import encode_json
from replica_client.protocol.binlog.values.json_keys import MOST_BYTES, SECTIONS
from replica_client.protocol.binlog.values.json_lookup import json_text
from replica_client.protocol.binlog.values.json_writer import JsonTextWriter

ORDER = {"items": [{"n": 3, "sku": "S-1", "price": 0.75}], "channel": "日本語", "paid": True}
NAME_AT = encode_json(ORDER).index(b"skuprice")


def verdict(write, data):
    try:
        return write(data)
    except ColumnDecodeError as error:
        return str(error)


def practised(*values):
    """A writer that knows the keys of the values."""
    writer = JsonTextWriter()
    for value in values:
        for _ in range(12):
            writer.text(encode_json(value))
    return writer


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1}, '{"a": 1}'),
        ({"a": -1, "b": "x"}, '{"a": -1, "b": "x"}'),
        ({"ä": {"a": 1}, "z" * 40: None}, '{"ä": {"a": 1}, "' + "z" * 40 + '": null}'),
        ({"": 1}, '{"": 1}'),
        ({"": 1, "n\n": 2, 'q"': 3}, r'{"": 1, "n\n": 2, "q\"": 3}'),
        ({f"k{i:03}": i for i in range(400)}, None),
        (ORDER, None),
    ],
)
def test_the_same_keys_again(value, text):
    data = encode_json(value)
    writer = JsonTextWriter()
    for _ in range(200):
        assert writer.text(data) == (text or json_text(data))


def test_other_values_under_the_same_keys():
    writer = practised({"a": 1, "bb": "x"})
    scalars = [0, 9, 10, 99, 100, -1, -32768, 32767, 65535, 70000, -70000, 2**63, -(2**63), None]
    scalars += [True, False, 0.0, -0.5, 12.5, 0.0001, 999999999.9999, 1e300, "", "x" * 200, "\n日"]
    for value in [*scalars, [], {}, [{"a": 1, "bb": [2]}], {"a": {"a": 1, "bb": "x"}, "bb": 3}]:
        data = encode_json({"a": value, "bb": value})
        assert writer.text(data) == json_text(data)


def test_any_byte_that_differs():
    """In the entries, in the names and elsewhere; whatever a fresh writer says of it is right."""
    data = encode_json(ORDER)
    for at in range(len(data)):
        for byte in (0, 1, 0x22, 0x5C, 0x7F, 0x80, 0xC3, 0xFF, data[at] ^ 1, data[at] ^ 0x20):
            writer = practised(ORDER) if byte == 0xFF else writer_of(ORDER)
            hostile = data[:at] + bytes((byte,)) + data[at + 1 :]
            for _ in range(2):
                assert verdict(writer.text, hostile) == verdict(json_text, hostile), (at, byte)
            assert writer.text(data) == json_text(data)


WRITERS: dict[str, JsonTextWriter] = {}


def writer_of(value):
    key = repr(value)
    if key not in WRITERS:
        WRITERS[key] = practised(value)
    return WRITERS[key]


@pytest.mark.parametrize("broken", [b"\xff", b"\xc3", b"\xed", b"\n"])
def test_a_name_that_is_no_utf8_is_never_learnt(broken):
    data = bytearray(encode_json(ORDER))
    data[NAME_AT : NAME_AT + 1] = broken
    writer = practised(ORDER)
    for _ in range(20):
        assert verdict(writer.text, bytes(data)) == verdict(json_text, bytes(data))


def test_keys_with_gaps_and_keys_that_overlap():
    gap = bytes.fromhex("00020015001200010014000100050100050200612162")
    overlap = bytes.fromhex("000200140012000200130001000501000502006162")
    for data, text in ((gap, '{"a": 1, "b": 2}'), (overlap, '{"ab": 1, "b": 2}')):
        writer = JsonTextWriter()
        for _ in range(20):
            assert writer.text(data) == text


def test_known_keys_beyond_the_end_of_their_object():
    data = encode_json({"a": 1, "b": 2})
    writer = practised({"a": 1, "b": 2})
    for cut in range(1, len(data)):
        short = bytearray(data[:cut])
        short[3:5] = (cut - 1).to_bytes(2, "little")
        for hostile in (data[:cut], bytes(short), bytes(short) + b"ab"):
            assert verdict(writer.text, hostile) == verdict(json_text, hostile)


def test_known_keys_count_against_the_budget():
    """An array that names one object over and over."""
    inner = encode_json({"k" * 50: 1})[1:]
    count = 60
    header = 4 + 3 * count
    entries = (b"\0" + header.to_bytes(2, "little")) * count
    size = header + len(inner)
    data = b"\2" + count.to_bytes(2, "little") + size.to_bytes(2, "little") + entries + inner
    assert "overlapping" in verdict(json_text, data)
    assert verdict(practised({"k" * 50: 1}).text, data) == verdict(json_text, data)


def test_known_keys_at_the_deepest_level():
    writer = practised({"d": 1}, {"d": {"d": 1}})
    data = encode_json({"d": 1})
    for levels in range(2, 103):
        inner = data[1:]
        size = 12 + len(inner)
        data = bytes.fromhex("000100") + size.to_bytes(2, "little")
        data += bytes.fromhex("0b000100000c0064") + inner
        assert verdict(writer.text, data) == verdict(json_text, data)
        assert verdict(writer.text, data).startswith("{" if levels <= 100 else "JSON document with")


def test_more_shapes_than_are_kept():
    chance = random.Random(7)
    shapes = [
        {"".join(chance.choices("abcdé", k=chance.randint(1, 9))): i for i in range(4)}
        for _ in range(4 * SECTIONS)
    ]
    writer = JsonTextWriter()
    for _ in range(3000):
        shape = chance.choice(shapes[: chance.choice((2, 40, len(shapes)))])
        data = encode_json({"in": [shape, shape], **shape})
        assert writer.text(data) == json_text(data)


def test_a_section_as_large_as_are_kept():
    for size in range(MOST_BYTES - 12, MOST_BYTES + 6):
        data = encode_json({"x" * (size - 8): 1, "y": 2})
        writer = JsonTextWriter()
        for _ in range(20):
            assert writer.text(data) == json_text(data)
