"""VARIANT: byte for byte what Spark's own parser makes of the text."""

import json
import random

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, VariantType, VariantVal

from replica_client.errors import ColumnDecodeError
from replica_client.lake.spark.source.shapes import encode_variant, variant_array

TEXTS = (
    "{}", "[]", "null", "true", "false", "1", "-1", "127", "128", "-129", "32768", "2147483648",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1" + "0" * 40, "1e3",
    "0.1", "-0.05", "1.50", "123456789.123456789", "-0.0", "0." + "0" * 39 + "1", '"x"',
    '"' + "y" * 63 + '"', '"' + "é" * 40 + '"', '{"b": 1, "a": {"b": [1, 2, {"c": null}]}, "é": "ü"}',
    "[1.5, 2.5e-3, -7]", json.dumps({f"k{i}": i for i in range(300)}), json.dumps(list(range(300))),
    json.dumps({"deep": ["x" * 70000]}),
)  # fmt: skip


def made(chance, depth=0):
    kind = chance.randrange(7 if depth < 4 else 5)
    if kind < 2:
        return chance.randrange(-(10 ** chance.randrange(1, 22)), 10 ** chance.randrange(1, 22))
    if kind == 2:
        return chance.choice([True, False, None, chance.random(), chance.randrange(10**6) / 1000])
    if kind < 5:
        return "".join(chance.choice('aé✓\\"\n ') for _ in range(chance.randrange(80)))
    if kind == 5:
        return [made(chance, depth + 1) for _ in range(chance.randrange(6))]
    return {f"k{chance.randrange(50)}": made(chance, depth + 1) for _ in range(chance.randrange(8))}


def same(text):
    reference = VariantVal.parseJson(text)
    assert encode_variant(text) == (bytes(reference.value), bytes(reference.metadata)), text


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20])
def test_bytes_are_those_of_spark(text):
    same(text)


def test_bytes_of_made_up_documents():
    chance = random.Random(7)
    for _ in range(300):
        same(json.dumps(made(chance), ensure_ascii=False))


def test_arrays_keep_nulls():
    kind = to_arrow_schema(StructType([StructField("v", VariantType())])).field(0).type
    found = variant_array(pa.array(['{"a": 1}', None, "2"]), kind)
    found.validate(full=True)
    assert found.type == kind
    assert [one is None for one in found.to_pylist()] == [False, True, False]


def test_document_too_deep_is_refused():
    with pytest.raises(ColumnDecodeError, match="nested"):
        encode_variant("[" * 100_000 + "]" * 100_000)
