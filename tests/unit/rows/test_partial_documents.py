"""Documents that a source logs in parts: one answer in every format, also where nothing in them changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_client import ABSENT, open_binlog
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import (
    JsonDiff,
    JsonDiffOperation,
    JsonDiffs,
    decode_diffs,
    encode_diffs,
)
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_values import row_to_json, value_to_json
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.formats.line_format import make_format

GOLDEN = Path(__file__).parents[2] / "golden" / "mysql-9.7.4"
SHAPE = TableShape(
    "d",
    "t",
    (
        ColumnShape("id", T.MYSQL_TYPE_LONG, length=4, unsigned=False),
        ColumnShape("j", T.MYSQL_TYPE_JSON, metadata=4),
    ),
)
ID = b"\x01\0\0\0"


def test_without_differences_the_column_is_left_out() -> None:
    """An UPDATE that finds nothing to replace logs a document with no differences at all."""
    rows = b"\0" + ID + b"\x01\x01" + b"\0" + b"\0\0\0\0"
    decoder = RowImageDecoder(SHAPE)
    ((before, after),) = decoder.decode_rows("update", b"\x01", b"\x02", rows, True)
    assert before == (1, ABSENT)
    assert after[1] is ABSENT
    kept = RowImageDecoder(SHAPE, keep_diffs=True)
    ((_, after),) = kept.decode_rows("update", b"\x01", b"\x02", rows, True)
    assert after[1] == JsonDiffs()


def test_differences_have_one_text() -> None:
    diffs = decode_diffs(
        encode_diffs(
            [
                JsonDiff(JsonDiffOperation.REPLACE, '$."ä"', JsonDocument.of(None)),
                JsonDiff(JsonDiffOperation.REMOVE, "$[0]"),
            ]
        )
    )
    assert value_to_json(diffs) == diffs.text == (
        '{"$json_diff": [{"operation": "replace", "path": "$.\\"ä\\"", "value": null}, '
        '{"operation": "remove", "path": "$[0]"}]}'
    )  # fmt: skip
    assert value_to_json(JsonDiffs()) == '{"$json_diff": []}'
    assert value_to_json(()) == "[]"


@pytest.mark.parametrize("name", ["native", "maxwell", "debezium", "canal", "cloudevents"])
def test_every_format_writes_them(name: str) -> None:
    lines = list(_lines(name))
    assert any("$json_diff" in line for line in lines)
    assert not any("JsonDiff" in line for line in lines)


def test_arrow_and_the_envelope_of_spark_write_them() -> None:
    pytest.importorskip("pyarrow")
    from replica_client.rows.batching import BatchAssembler
    from replica_client.rows.json_images import json_images

    seen = 0
    for transaction in open_binlog(GOLDEN / "partial_json_minimal.binlog").transactions():
        for rows in transaction.rows:
            assembler = BatchAssembler(100, DecodeOptions())
            for batch in [*assembler.add([rows], "v", 0), *assembler.flush()]:
                texts = json_images(batch, rows.shape).after.to_pylist()
                for change, text in zip(rows, texts, strict=True):
                    assert text == (None if change.after is None else row_to_json(change.after))
                kept = [dict(one or ()) for one in batch.column("_lossless").to_pylist()]
                for change in rows:
                    for name, value in zip(change.after.columns, change.after, strict=True):
                        if isinstance(value, JsonDiffs):
                            seen += 1
                            assert {name: value.text} in kept
    assert seen


def _lines(name: str) -> Iterator[str]:
    line_format = make_format(name, {})
    for transaction in open_binlog(GOLDEN / "partial_json_minimal.binlog").transactions():
        yield from line_format.lines(transaction)


def test_the_document_null_is_not_sql_null() -> None:
    document = JsonDocument.of(None)
    assert document != None  # noqa: E711
    assert document == JsonDocument.of(None)
