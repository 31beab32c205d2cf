"""JSON that is made of Arrow columns is the JSON of the rows themselves."""

from __future__ import annotations

import random

import pytest

from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_images import json_images
from replica_client.rows.json_values import json_null_columns, row_to_json, with_json_nulls
from replica_client.rows.row import Row
from tests.unit.rows.images import BINARY, SAMPLES, UTF8MB4, _string, shape_of
from tests.unit.rows.test_columnar import KINDS, random_event, rows_of_event

# What JSON writes otherwise, and bytes of every remainder of three.
TEXTS = (
    _string(
        ColumnType.MYSQL_TYPE_VARCHAR, 400, UTF8MB4, "a'\"\\\x00\x01\x1f\x7f\b\t\n\f\r\u2028é😀"
    ),
    _string(ColumnType.MYSQL_TYPE_VARCHAR, 400, BINARY, "\x00\x7fabc"),
)


def json_of(events: list[RowsOfEvent], max_rows: int, options: DecodeOptions) -> list[tuple]:
    """Both images of each change, by way of batches."""
    assembler = BatchAssembler(max_rows, options)
    found: list[tuple] = []
    shape = events[0].shape
    for batch in [*assembler.add(events, "v1", 5), *assembler.flush()]:
        images = json_images(batch, shape)
        for texts in (images.before, images.after):
            offsets, data = texts.buffers()[1:]
            # The room that was not needed is given back.
            assert data.size == memoryview(offsets).cast("i")[len(texts)]
        found += zip(images.before.to_pylist(), images.after.to_pylist(), strict=True)
        rows = list(range(batch.num_rows)) if images.rows is None else images.rows.to_pylist()
        kinds = batch.column(0).to_pylist()
        assert rows == [at for at, kind in enumerate(kinds) if kind != "update_postimage"]
    return found


def expected_of(events: list[RowsOfEvent]) -> list[tuple]:
    return [
        tuple(None if row is None else _named(row) for row in (change.before, change.after))
        for event in events
        for change in event
    ]


def _named(row: Row) -> str:
    text = row_to_json(row)
    return with_json_nulls(text, json_null_columns(row.columns, row, text))


@pytest.mark.parametrize("seed", range(8))
def test_every_column_type(seed: int) -> None:
    rng = random.Random(seed)
    samples = [*SAMPLES, *TEXTS]
    rng.shuffle(samples)
    options = DecodeOptions()
    decoder = RowImageDecoder(shape_of(samples), options)
    kinds = list(KINDS) if seed % 4 else ["insert"]
    events = [
        rows_of_event(random_event(rng, rng.choice(kinds), samples, 6, seed % 2 == 0), decoder)
        for _ in range(8)
    ]
    for max_rows in (3, 16384):
        assert json_of(events, max_rows, options) == expected_of(events)


def test_room_grows_with_the_texts() -> None:
    rng = random.Random(1)
    texts = [*TEXTS]
    decoder = RowImageDecoder(shape_of(texts))
    events = [rows_of_event(random_event(rng, "update", texts, 1500, True), decoder)]
    assert json_of(events, 16384, DecodeOptions()) == expected_of(events)
