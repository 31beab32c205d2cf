import time

import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import (
    JsonDiff,
    JsonDiffOperation,
    apply_diffs,
    decode_diffs,
    encode_diffs,
)

REPLACE, INSERT, REMOVE = JsonDiffOperation


def diff(operation: JsonDiffOperation, path: str, value: object = None) -> JsonDiff:
    document = None if operation is REMOVE else JsonDocument.of(value)
    return JsonDiff(operation, path, document)


def applied(document: object, *diffs: JsonDiff) -> object:
    return apply_diffs(JsonDocument.of(document), diffs).value


def test_bytes():
    data = b"\x01\x08$.season\x03\x05\x01\x00" + b"\x02\x04$[0]" + b"\x00\x03$.a\x02\x04\x01"
    diffs = decode_diffs(data)
    assert diffs == (
        diff(INSERT, "$.season", 1),
        diff(REMOVE, "$[0]"),
        diff(REPLACE, "$.a", True),
    )
    assert [str(one) for one in diffs] == ["insert $.season 1", "remove $[0]", "replace $.a true"]
    assert encode_diffs(diffs) == data
    assert decode_diffs(b"") == ()


@pytest.mark.parametrize(
    "data",
    [
        b"\x03\x01$",  # no such operation
        b"\x02",
        b"\x02\x05$.a",
        b"\x02\x01\xff",  # path not UTF-8
        b"\x00\x01$",  # value missing
        b"\x00\x01$\x05\x04\x01",  # value cut off
        b"\x00\xfb$",
        b"\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff$",
    ],
)
def test_malformed(data):
    with pytest.raises(ColumnDecodeError):
        decode_diffs(data)


@pytest.mark.parametrize(
    ("before", "diffs", "after"),
    [
        ({"a": 1}, [diff(REPLACE, "$.a", [2])], {"a": [2]}),
        ({"a": [1, 2]}, [diff(REPLACE, "$.a[last]", "x")], {"a": [1, "x"]}),
        ({"a": 1}, [diff(REPLACE, "$", 7)], 7),
        ({"a": 1}, [diff(REPLACE, "$.a[0][last]", 7)], {"a": 7}),
        (5, [diff(REPLACE, "$[0]", 7)], 7),
        ({"b": 1}, [diff(INSERT, "$.a", 0), diff(INSERT, "$.cc", 2)], {"a": 0, "b": 1, "cc": 2}),
        ([1, 2], [diff(INSERT, "$[1]", "x")], [1, "x", 2]),
        ([1, 2], [diff(INSERT, "$[9]", "x")], [1, 2, "x"]),
        ([[1]], [diff(INSERT, "$[0][0]", "x")], [["x", 1]]),
        ({"a": 1, "b": 2}, [diff(REMOVE, "$.a")], {"b": 2}),
        ([1, 2, 3], [diff(REMOVE, "$[0]"), diff(REMOVE, "$[0]")], [3]),
        ([1, 2, 3], [diff(REMOVE, "$[last-1]")], [1, 3]),
        ({"a.b": {"": 1}}, [diff(REPLACE, '$."a.b".""', 2)], {"a.b": {"": 2}}),
    ],
)
def test_applied(before, diffs, after):
    assert applied(before, *diffs) == after


def test_new_members_take_their_position():
    text = apply_diffs(JsonDocument.of({"b": 1, "ccc": 2}), [diff(INSERT, "$.aa", 3)]).text
    assert text == '{"b": 1, "aa": 3, "ccc": 2}'


@pytest.mark.parametrize(
    "one",
    [
        diff(REPLACE, "$.none", 1),
        diff(REPLACE, "$.list[2]", 1),
        diff(REPLACE, "$.list.a", 1),
        diff(REPLACE, "$.a.b", 1),
        diff(REPLACE, "$.a[1]", 1),
        diff(INSERT, "$", 1),
        diff(INSERT, "$.a", 1),
        diff(INSERT, "$.a[1]", 1),
        diff(INSERT, "$.list.x", 1),
        diff(INSERT, "$.none.x", 1),
        diff(REMOVE, "$"),
        diff(REMOVE, "$.none"),
        diff(REMOVE, "$.list[2]"),
        diff(REMOVE, "$.list[last-2]"),
        diff(REMOVE, "$[0]"),
        diff(REMOVE, "$.a[0]"),
        diff(REMOVE, "$.*"),
    ],
    ids=str,
)
def test_misfit(one):
    with pytest.raises(ColumnDecodeError):
        applied({"a": 1, "list": [1, 2]}, one)


def test_the_document_is_not_changed():
    document = JsonDocument.of({"a": [1]})
    apply_diffs(document, [diff(INSERT, "$.a[0]", 0)])
    assert document.value == {"a": [1]}


def test_diffs_cannot_nest_without_end():
    inner: list[object] = []
    for _ in range(60):
        inner = [inner]
    deeper = diff(INSERT, "$" + "[0]" * 61, inner)
    with pytest.raises(ColumnDecodeError, match="100"):
        apply_diffs(JsonDocument.of(inner), [deeper])


def test_hostile_paths_take_linear_time():
    began = time.monotonic()
    applied(1, diff(REPLACE, "$" + "[0]" * 100_000, 2))
    with pytest.raises(ColumnDecodeError):
        applied(1, diff(REPLACE, "$" + "[0]" * 100_000 + ".a", 2))
    assert time.monotonic() - began < 20
