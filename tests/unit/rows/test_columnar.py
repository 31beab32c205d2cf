"""The columnar path gives what the object path gives."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replica_client as rc
from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions, EventHeader
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.protocol.constants.event_types import EventType
from replica_client.rows.batches import BatchBuilder, BatchSizes
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.selection import Selection
from replica_client.schema.shape import ColumnShape, TableShape
from tests.unit.rows.images import SAMPLES, Sample, bitmap, encode_image, shape_of
from tests.unit.rows.object_batches import assert_same, object_table, rows_of

DEMO = Path(rc.__file__).parent / "testing" / "data"
KINDS = {"insert": 30, "update": 31, "delete": 32}


def event_of(
    kind: str, count: int, before: bytes, after: bytes | None, rows: bytes, position: int = 4
) -> BinlogEvent:
    code = KINDS[kind]
    body = RowsEvent(kind, code, 1, 1, b"", count, before, after, rows)  # type: ignore[arg-type]
    header = EventHeader(1_700_000_000, code, 1, 100 + len(rows), position, 0)
    return BinlogEvent(header, body, "binlog.000001", position)


def rows_of_event(event: BinlogEvent, decoder: RowImageDecoder, first: int = 0) -> RowsOfEvent:
    return RowsOfEvent(event, decoder.shape, decoder, 3, first, "u-u-i-d:7")


def expected_of(
    events: Sequence[RowsOfEvent], decoder: RowImageDecoder, options: DecodeOptions | None = None
) -> pa.Table:
    rows = [row for e in events for change in e for row in rows_of(change, "v1", 5)]
    return object_table(decoder.shape, decoder.column_names, rows, options)


def random_event(
    rng: random.Random, kind: str, samples: Sequence[Sample], changes: int, all_there: bool
) -> BinlogEvent:
    def present() -> list[bool]:
        flags = [all_there or rng.random() < 0.8 for _ in samples]
        return flags if any(flags) else [True] * len(samples)

    def values() -> list[Any]:
        return [None if rng.random() < 0.2 else sample.value(rng) for sample in samples]

    before, after = present(), present()
    data = b""
    for _ in range(changes):
        data += encode_image(samples, before, values())
        if kind == "update":
            data += encode_image(samples, after, values())
    bits = bitmap(after) if kind == "update" else None
    return event_of(kind, len(samples), bitmap(before), bits, data, rng.randrange(4, 1 << 40))


@pytest.mark.parametrize("seed", range(12))
def test_every_column_type(seed: int) -> None:
    rng = random.Random(seed)
    samples = list(SAMPLES)
    rng.shuffle(samples)
    options = DecodeOptions()
    shape = shape_of(samples)
    names = None if seed % 3 else [c.name for c in shape.columns if rng.random() < 0.5]
    decoder = RowImageDecoder(shape, options, names)
    events = [
        rows_of_event(
            random_event(rng, rng.choice(list(KINDS)), samples, rng.randint(0, 40), seed % 2 == 0),
            decoder,
        )
        for _ in range(12)
    ]
    max_rows = rng.choice((2, 3, 64, 66, 500, 16384))
    assembler = BatchAssembler(max_rows, options)
    batches = [*assembler.add(events, "v1", 5), *assembler.flush()]
    assert all(batch.num_rows <= max_rows for batch in batches)
    assert_same(batches, expected_of(events, decoder, options))


@pytest.mark.parametrize("behind", [0, 0xFF])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 71, 72, 73, 128, 129, 200])
def test_nulls_of_any_column_and_bits_behind_them(count: int, behind: int) -> None:
    """MariaDB and MySQL 5.6 set the bits that no column has."""
    rng = random.Random(count)
    samples = [rng.choice(SAMPLES[:10]) for _ in range(count)]
    decoder = RowImageDecoder(shape_of(samples))
    everywhere = [True] * count
    size = (count + 7) >> 3
    events = []
    for null in (None, *range(count), None):
        data = b""
        for _ in range(3):
            values = [sample.value(rng) for sample in samples]
            if null is not None:
                values[null] = None
            image = bytearray(encode_image(samples, everywhere, values))
            image[size - 1] |= behind << 8 - (-count & 7) & 0xFF if count & 7 else 0
            data += image
        event = event_of("insert", count, bitmap(everywhere), None, data)
        events.append(rows_of_event(event, decoder))
    assembler = BatchAssembler(100, DecodeOptions())
    batches = [*assembler.add(events, "v1", 5), *assembler.flush()]
    assert sum(batch.num_rows for batch in batches) == 3 * (count + 2)
    assert_same(batches, expected_of(events, decoder))


def test_buffers_of_the_batch_before() -> None:
    """Batches share no memory, whether nulls come and go, and begin as large as those before."""
    rng = random.Random(5)
    samples = SAMPLES[:10]
    sizes: BatchSizes = {}
    found = []
    for round_ in range(2):
        decoder = RowImageDecoder(shape_of(samples))
        builder = BatchBuilder(decoder.shape, None, None, decoder, 200, sizes)
        for chance in (0.0, 0.0, 0.3, 0.0, 0.3):
            data = b""
            for _ in range(150):
                values = [None if rng.random() < chance else one.value(rng) for one in samples]
                data += encode_image(samples, [True] * len(samples), values)
            event = event_of("insert", len(samples), bitmap([True] * len(samples)), None, data)
            rows = rows_of_event(event, decoder)
            assert not list(builder.append_rows(rows, "v1", 5))
            found.append((builder.finish(), expected_of([rows], decoder)))
        assert [rows for rows, _ in sizes.values()] == [150], round_
    for batch, expected in found:
        batch.validate(full=True)
        assert_same([batch], expected)


@pytest.mark.parametrize("policy", ["strict", "replace", "bytes"])
def test_bytes_that_are_not_text(policy: str) -> None:
    options = DecodeOptions(invalid_text=policy)  # type: ignore[arg-type]
    columns = (
        ColumnShape("a", T.MYSQL_TYPE_VARCHAR, length=80, collation_id=255),
        ColumnShape("b", T.MYSQL_TYPE_STRING, length=80, collation_id=255),
        ColumnShape("c", T.MYSQL_TYPE_VARCHAR, length=80, collation_id=8),
    )
    decoder = RowImageDecoder(TableShape("d", "t", columns), options)
    good = b"\x00" + b"\x03abc" + b"\x05def  " + b"\x02\xe9\x80"
    bad = b"\x00" + b"\x04a\xf0\x9f\x98" + b"\x04d\xed\xa0 " + b"\x01\x81"
    events = [rows_of_event(event_of("insert", 3, b"\x07", None, good + bad), decoder)]
    assembler = BatchAssembler(100, options)
    if policy == "strict":
        with pytest.raises(ColumnDecodeError) as caught:
            list(assembler.add(events, "v1", 5))
        with pytest.raises(ColumnDecodeError) as expected:
            list(events[0])
        assert str(caught.value) == str(expected.value)
        (batch,) = assembler.flush()
        batch.validate(full=True)
        assert batch.column("a").to_pylist() == ["abc"]
        assert batch.column("_row_index").to_pylist() == [0]
        return
    assert_same(
        [*assembler.add(events, "v1", 5), *assembler.flush()],
        expected_of(events, decoder, options),
    )


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)), b"\xc0\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf"]
    + [b"\xf4\x90\x80\x80", b"\xc2", b"\xe1\x80", b"\xf1\x80\x80", b"a" * 40 + b"\xff", b"\x80"],
)
def test_utf8_check_agrees_with_python(data: bytes) -> None:
    column = ColumnShape("a", T.MYSQL_TYPE_BLOB, metadata=2, collation_id=255)
    decoder = RowImageDecoder(
        TableShape("d", "t", (column,)), DecodeOptions(invalid_text="replace")
    )
    assembler = BatchAssembler(100, decoder.options)
    image = b"\x00" + len(data).to_bytes(2, "little") + data
    event = rows_of_event(event_of("insert", 1, b"\x01", None, image), decoder)
    (batch,) = [*assembler.add([event], "v", 1), *assembler.flush()]
    batch.validate(full=True)
    assert batch.column("a").to_pylist() == [next(iter(event)).after[0]]  # type: ignore[index]


CHARACTERS = [
    chr(c).encode() for c in (0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)
]
FAULTS = [
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
]
FAULTS += [
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xc2",
    b"\xe1\x80",
]
FAULTS += [
    b"\xf1\x80\x80",
    b"\xc2\xc2\x80",
    b"\xe1\x80a",
    b"\xf1\x80a\x80",
    b"\xc2\x80\x80",
    b"\xf1\x80\x80\x80\x80",
]


@pytest.mark.parametrize("fill", [b"a", "é".encode(), "語".encode(), "😀".encode()])
def test_utf8_check_agrees_with_python_wherever_a_fault_lies(fill: bytes) -> None:
    texts = [
        before * b"a" + piece + after * fill
        for piece in CHARACTERS + FAULTS
        for before in (*range(36), *range(60, 68), 130)
        for after in (0, 1, 5, 12, 20)
    ]
    column = ColumnShape("a", T.MYSQL_TYPE_BLOB, metadata=2, collation_id=255)
    decoder = RowImageDecoder(
        TableShape("d", "t", (column,)), DecodeOptions(invalid_text="replace")
    )
    rows = b"".join(b"\x00" + len(text).to_bytes(2, "little") + text for text in texts)
    assembler = BatchAssembler(10_000, decoder.options)
    event = rows_of_event(event_of("insert", 1, b"\x01", None, rows), decoder)
    (batch,) = [*assembler.add([event], "v", 1), *assembler.flush()]
    batch.validate(full=True)
    assert batch.column("a").to_pylist() == [change.after[0] for change in event]  # type: ignore[index]


@pytest.mark.parametrize("seed", range(160))
def test_damaged_images_fail_alike(seed: int) -> None:
    rng = random.Random(seed)
    # JSON is decoded later on the object path.
    known = [s for s in SAMPLES if s.column.type_code != T.MYSQL_TYPE_JSON]
    samples = rng.sample(known, 9)
    decoder = RowImageDecoder(shape_of(samples))
    changes_there = rng.choice((1, 4, 60))
    event = random_event(rng, rng.choice(list(KINDS)), samples, changes_there, rng.random() < 0.7)
    rows = bytearray(event.body.rows)
    if rng.random() < 0.5:
        del rows[rng.randrange(len(rows)) :]
    for _ in range(rng.randint(0, 4)):
        if rows:
            rows[rng.randrange(len(rows))] = rng.randrange(256)
    event = replace(event, body=replace(event.body, rows=bytes(rows)))
    source = rows_of_event(event, decoder)
    changes: list[Any] = []
    failure = None
    try:
        changes += source
    except ColumnDecodeError as error:
        failure = str(error)
    assembler = BatchAssembler(rng.choice((7, 500)), DecodeOptions())
    found = None
    batches: list[pa.RecordBatch] = []
    try:
        batches += assembler.add([source], "v1", 5)
    except ColumnDecodeError as error:
        found = str(error)
    batches += assembler.flush()
    assert found == failure
    rows_expected = [row for change in changes for row in rows_of(change, "v1", 5)]
    try:
        expected = object_table(decoder.shape, decoder.column_names, rows_expected)
    except (ColumnDecodeError, UnicodeEncodeError, pa.ArrowException):
        return
    assert_same(batches, expected)


@pytest.mark.parametrize("first", [0, 1, 3, 5])
def test_rows_that_were_delivered_are_passed_over(first: int) -> None:
    rng = random.Random(1)
    samples = SAMPLES[:6]
    decoder = RowImageDecoder(shape_of(samples))
    event = random_event(rng, "update", samples, 5, True)
    events = [rows_of_event(event, decoder, first)]
    assembler = BatchAssembler(4, DecodeOptions())
    assert_same([*assembler.add(events, "v1", 5), *assembler.flush()], expected_of(events, decoder))


def test_dates_that_the_calendar_does_not_have_with_python_types() -> None:
    column = ColumnShape("d", T.MYSQL_TYPE_DATE)
    options = DecodeOptions(temporals="python")
    decoder = RowImageDecoder(TableShape("d", "t", (column,)), options)
    event = rows_of_event(event_of("insert", 1, b"\x01", None, b"\x00\x00\x00\x00"), decoder)
    with pytest.raises(ColumnDecodeError, match=r"column d at offset 1.*year"):
        list(BatchAssembler(4, options).add([event], "v1", 5))


def test_appending_changes_one_by_one() -> None:
    changes = list(rc.open_binlog(DEMO, tables="shop.orders").changes())
    shape = changes[0].shape
    builder = BatchBuilder(shape)
    for change in changes:
        builder.append(change, "v1", 5)
    rows = [row for change in changes for row in rows_of(change, "v1", 5)]
    assert_same([builder.finish()], object_table(shape, shape.column_names, rows))
    assert len(builder) == 0


def tables_of(reader: rc.BinlogFileReader) -> dict[Any, pa.Table]:
    """The tables that the object path makes of a file, by database, table and shape."""
    rows: dict[Any, list[Any]] = {}
    for transaction in reader.transactions():
        for event in transaction.rows:
            stamp = transaction.commit_timestamp_us
            if stamp is None:
                stamp = transaction.timestamp * 1_000_000
            for change in event:
                key = (change.shape, event.decoder.column_names)
                rows.setdefault(key, []).extend(rows_of(change, transaction.commit_version, stamp))
    return {key: object_table(key[0], key[1], found) for key, found in rows.items()}


def assert_batches_agree(**arguments: Any) -> int:
    expected = tables_of(rc.open_binlog(**arguments))
    found: dict[Any, list[pa.RecordBatch]] = {}
    for batch in rc.open_binlog(**arguments).batches(max_rows=50):
        meta = batch.schema.metadata
        key = (
            meta[b"database"],
            meta[b"table"],
            tuple(batch.schema.names),
            str(batch.schema.types),
        )
        found.setdefault(key, []).append(batch)
    total = 0
    by_key: dict[Any, list[pa.Table]] = {}
    for (shape, _), table in expected.items():
        total += table.num_rows
        key = (
            shape.database.encode(),
            shape.table.encode(),
            tuple(table.schema.names),
            str(table.schema.types),
        )
        by_key.setdefault(key, []).append(table)
    assert found.keys() == by_key.keys()
    for key, batches in found.items():
        if len(by_key[key]) == 1:
            assert_same(batches, by_key[key][0])
        else:
            assert sum(b.num_rows for b in batches) == sum(t.num_rows for t in by_key[key])
    return total


def test_demo_files() -> None:
    assert assert_batches_agree(source=DEMO) == 120
    assert assert_batches_agree(source=DEMO, columns=["id", "state", "total"]) == 120


GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("*/*.binlog")), ids=lambda p: f"{p.parent.name}-{p.name}"
)
def test_golden_files(path: Path) -> None:
    options = rc.AssemblyOptions(Selection(), on_statement="deliver")
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    keys = {number: bytes.fromhex(key) for number, key in expected.get("keys", {}).items()}
    assert_batches_agree(source=path, assembly=options, keys=keys)


def test_type_codes() -> None:
    assert KINDS == {
        "insert": EventType.WRITE_ROWS_EVENT,
        "update": EventType.UPDATE_ROWS_EVENT,
        "delete": EventType.DELETE_ROWS_EVENT,
    }
