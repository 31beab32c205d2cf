"""The document null and SQL NULL stay apart: in Python, in JSON however it is written, and in Arrow."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.protocol.position import Position
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_images import json_images
from replica_client.rows.json_values import change_to_json
from replica_client.rows.row import Row
from replica_client.rows.special_values import ABSENT
from replica_client.sinks.formats.native import NativeFormat
from replica_client.stream.transactions.transaction import Transaction
from tests.unit.rows.images import SAMPLES, Sample, bitmap, encode_image, shape_of
from tests.unit.rows.test_columnar import KINDS, event_of, rows_of_event

JSON = next(one for one in SAMPLES if one.column.type_code == ColumnType.MYSQL_TYPE_JSON)
DOCUMENTS = (
    None,
    JsonDocument(b""),
    JsonDocument(b"\x04\x00"),
    JsonDocument.of("null"),
    JsonDocument.of({"a": None}),
    JsonDocument.of([None]),
    JsonDocument.of({"a": {}, "b": [None, "é"]}),
    JsonDocument.of(False),
)
FORMATS = {"native": NativeFormat()}
AT = Position("binlog.000001", 4)


def _samples(rng: random.Random) -> list[Sample]:
    text = next(one for one in SAMPLES if one.column.type_code == ColumnType.MYSQL_TYPE_VARCHAR)
    document = Sample(JSON.column, lambda rng: rng.choice(DOCUMENTS), JSON.encode)
    null_text = Sample(text.column, lambda rng: rng.choice((None, "null", ": null")), text.encode)
    samples = [document, null_text, document, SAMPLES[0]]
    rng.shuffle(samples)
    return samples[: rng.randint(1, 4)]


def _event(rng: random.Random, samples: list[Sample], kind: str) -> Any:
    there = [[rng.random() < 0.8 for _ in samples] for _ in range(2)]
    there = [flags if any(flags) else [True] * len(samples) for flags in there]
    data = b""
    for _ in range(rng.randint(1, 30)):
        for flags in there if kind == "update" else there[:1]:
            data += encode_image(samples, flags, [sample.value(rng) for sample in samples])
    after = bitmap(there[1]) if kind == "update" else None
    return event_of(kind, len(samples), bitmap(there[0]), after, data)


def _stated(line: dict[str, Any], image: str) -> dict[str, str]:
    """What the columns of an image with ``null`` are, by the line alone."""
    named = line.get("json_null", {}).get(image, [])
    return {
        name: "document" if name in named else "NULL"
        for name, value in (line[image] or {}).items()
        if value is None
    }


def _pending(row: Row | None) -> dict[str, str]:
    found = {}
    for name, value in (row.as_dict() if row is not None else {}).items():
        if value is None:
            found[name] = "NULL"
        elif isinstance(value, JsonDocument) and value.value is None:
            found[name] = "document"
    return found


@pytest.mark.parametrize("seed", range(60))
def test_every_null_of_a_line_is_reported_apart(seed: int) -> None:
    rng = random.Random(seed)
    samples = _samples(rng)
    shape = shape_of(samples)
    chosen = [column.name for column in shape.columns if rng.random() < 0.7]
    decoder = RowImageDecoder(shape, DecodeOptions(), chosen if seed % 3 == 0 and chosen else None)
    events = [
        rows_of_event(_event(rng, samples, kind), decoder, rng.randrange(2)) for kind in KINDS
    ]
    changes = [change for rows in events for change in rows]
    lines = [change_to_json(change) for change in changes]
    for change, text in zip(changes, lines, strict=True):
        line = json.loads(text)
        for image in ("before", "after"):
            assert _stated(line, image) == _pending(getattr(change, image))
        member = line.get("json_null", {"before": 1})
        assert member and all(member.values())
    # In rows on their own, as the envelope of Spark and the digests of a lake have them.
    for rows in events:
        assembler = BatchAssembler(100, DecodeOptions())
        for batch in [*assembler.add([rows], "v", 0), *assembler.flush()]:
            images = json_images(batch, rows.shape)
            texts = zip(images.before.to_pylist(), images.after.to_pylist(), strict=True)
            for change, pair in zip(rows, texts, strict=True):
                for row, text in zip((change.before, change.after), pair, strict=True):
                    parsed = json.loads(text or "{}")
                    named = parsed.pop("", [])
                    nulls = {name for name, value in parsed.items() if value is None}
                    stated = {name: "document" if name in named else "NULL" for name in nulls}
                    assert stated == _pending(row)
    transaction = Transaction(AT, AT, "", 0, None, tuple(events), ())
    for name, line_format in FORMATS.items():
        assert list(line_format.lines(transaction)) == lines, name


def test_python_and_arrow_tell_them_apart() -> None:
    decoder = RowImageDecoder(shape_of([JSON]), DecodeOptions())
    data = b"".join(encode_image([JSON], [True], [value]) for value in DOCUMENTS)
    rows: RowsOfEvent = rows_of_event(event_of("insert", 1, b"\1", None, data), decoder)
    assert isinstance(rows.event.body, RowsEvent)
    values = [change.after["c1"] for change in rows]
    assert [value is None for value in values] == [document is None for document in DOCUMENTS]
    assert all(type(value) is JsonDocument for value in values[1:])
    assembler = BatchAssembler(100, DecodeOptions())
    (batch,) = [*assembler.add([rows], "v", 0), *assembler.flush()]
    column = batch.column("c1").to_pylist()
    assert column[:4] == [None, "null", "null", '"null"']


def test_what_was_left_out_is_neither() -> None:
    samples = [JSON, JSON]
    decoder = RowImageDecoder(shape_of(samples), DecodeOptions())
    null = JsonDocument.of(None)
    data = encode_image(samples, [True, False], [null, null])
    (change,) = rows_of_event(event_of("insert", 2, b"\1", None, data), decoder)
    assert change.after["c2"] is ABSENT
    line = json.loads(change_to_json(change))
    assert line["after"] == {"c1": None}
    assert line["json_null"] == {"after": ["c1"]}
