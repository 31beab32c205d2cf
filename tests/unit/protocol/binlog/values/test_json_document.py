"""A JSON document used like the Python objects that it holds."""

import pickle
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_encoder import encode_json
from replica_client.protocol.binlog.values.temporal import Date

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-999, max_value=999),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=20,
)
BIG = {f"key {number}": [number, {"text": "x" * 300}] for number in range(400)}


def assert_like_its_value(document: JsonDocument) -> None:
    value: Any = document.value
    # The document null is no SQL NULL, which is None.
    assert (document == value) is (value is not None)
    assert (value == document) is (value is not None)
    assert (document != value) is (value is None)
    assert bool(document) is bool(value)
    if isinstance(value, (dict, list)):
        assert len(document) == len(value)
        assert list(document) == list(value)
        for key in value if isinstance(value, dict) else range(-len(value), len(value)):
            assert document[key] == value[key]
            assert type(document[key]) is type(value[key])
    if isinstance(value, dict):
        assert dict(document) == value
        assert {**document} == value
        assert all(key in document and document.get(key) == value[key] for key in value)
        assert "\0no key" not in document
        assert document.get("\0no key", 5) == 5
        with pytest.raises(KeyError):
            document["\0no key"]
    elif isinstance(value, list):
        assert document[1:] == value[1:]
        assert all(item in document for item in value)
        for outside in (len(value), -len(value) - 1):
            with pytest.raises(IndexError):
                document[outside]
        with pytest.raises(TypeError):
            document["0"]
    else:
        for use in (len, list, lambda it: it[0], lambda it: it["a"], lambda it: 1 in it):
            with pytest.raises(TypeError, match="neither object nor array"):
                use(document)


@given(DOCUMENTS)
def test_a_document_is_used_like_its_value(value: Any) -> None:
    assert_like_its_value(JsonDocument.of(value))


@pytest.mark.parametrize("value", [BIG, list(BIG.values()), [70000, -70000, 2**31, -5, 5]])
def test_large_containers(value: Any) -> None:
    assert_like_its_value(JsonDocument.of(value))


def test_no_bytes_are_null() -> None:
    empty = JsonDocument(b"")
    assert empty != None  # noqa: E711
    assert empty.value is None
    assert empty == JsonDocument.of(None)
    assert hash(empty) == hash(JsonDocument.of(None))
    assert not empty


@given(DOCUMENTS, DOCUMENTS)
def test_equal_documents_have_one_hash_and_that_of_plain_values(one: Any, other: Any) -> None:
    left, right = JsonDocument.of(one), JsonDocument.of(other)
    if left == right:
        assert hash(left) == hash(right)
    if isinstance(one, (str, int, float)):
        assert hash(left) == hash(one)
        assert {one: 1}[left] == 1
    assert (left == other) is (other is not None and left.value == other)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ({"a": 1}, {"a": 2}),
        ([1], (1,)),
        ("a", b"a"),
        (1, "1"),
        (None, False),
        (Decimal("1.1"), 1.1),
        (Date(2024, 1, 2), "2024-01-02"),
        ({"a": 1}, object()),
    ],
)
def test_other_values_are_not_equal(value: Any, other: Any) -> None:
    document = JsonDocument.of(value)
    assert document != other
    assert other != document
    assert (document == value) is (value is not None)


@given(st.data())
def test_what_is_damaged_raises_our_error_or_has_a_value(data: st.DataObject) -> None:
    """No subscript reads outside of the document, whatever its bytes say."""
    whole = encode_json(data.draw(st.sampled_from([{"a": [1, "xx"], "b": 70000}, [1, {"k": 2.5}]])))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    document = JsonDocument(bytes(damaged[: data.draw(st.integers(1, len(whole)))]))
    for use in (
        *(lambda it, key=key: it[key] for key in ("a", "b", 0, 1)),
        len,
        list,
        bool,
        lambda it: it.keys(),
        lambda it: it.get("a"),
    ):
        with suppress(ColumnDecodeError, LookupError, TypeError):
            use(document)


def test_it_is_pickled_as_before() -> None:
    document = JsonDocument.of(BIG)
    assert pickle.loads(pickle.dumps(document)) == document == BIG
