"""Lines written from row images are those that the general functions make of row objects."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client._compiled import compiled
from replica_client.cli.row_output import change_line
from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.numbers import encode_double, encode_float
from replica_client.protocol.binlog.values.strings import encode_string
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.rows import json_lines, row_lines
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_lines import JsonLines
from replica_client.rows.json_values import change_to_json
from replica_client.rows.row_lines import RowLines
from replica_client.rows.table_lines import TableLines
from replica_client.schema.shape import ColumnShape, TableShape
from tests.unit.rows.images import SAMPLES, UTF8MB4, Sample, shape_of
from tests.unit.rows.test_columnar import random_event, rows_of_event

DEMO = Path(rc.__file__).parent / "testing" / "data"
WIDTHS = (0, 0, 0, 0)
TEXTS = ('"', "\\", "\n\t\x00\x1f", "\x7f", "\xa0", "\u200b\u2028", "é" * 9, "x" * 300, "漢字", "")
NUMBERS = (0.0, -0.0, 1e-5, 123.25, 5.61, 0.1, -99.9999, 100.0, 1e22, 16777216.0, 1e308, 999999.5)


def text_sample(code: T) -> Sample:
    return Sample(
        ColumnShape("", code, length=2000, collation_id=UTF8MB4),
        lambda rng: "".join(rng.choice(TEXTS) for _ in range(rng.randint(0, 4))),
        lambda value: encode_string(value.rstrip(" "), 2, UTF8MB4),
    )


MORE = (
    text_sample(T.MYSQL_TYPE_VARCHAR),
    text_sample(T.MYSQL_TYPE_STRING),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_DOUBLE, metadata=8, length=8),
        lambda rng: rng.choice((*NUMBERS, rng.randrange(10**9) / 10 ** rng.randrange(7))),
        encode_double,
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_FLOAT, metadata=4, length=4),
        lambda rng: rng.choice((0.0, -0.0, 5.61, rng.randrange(10**7) / 10 ** rng.randrange(7))),
        encode_float,
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_JSON, metadata=4),
        lambda rng: JsonDocument.of(rng.choice((None, True, 1.5, "é\x7f", [], {"k": [1, None]}))),
        lambda value: encode_string(value.data, 4),
    ),
)


def writers() -> list[tuple[RowLines, Any]]:
    time = "2026-11-27 10:00:57.589052"

    def line(change: rc.Change) -> str:
        return change_line(change, time)

    table = TableLines(line, WIDTHS)
    table.set_time(time)
    return [(JsonLines(), change_to_json), (table, line)]


def expected(rows: RowsOfEvent, line: Any) -> tuple[bytes, str]:
    lines: list[str] = []
    try:
        for change in rows:
            lines.append(line(change) + "\n")
    except ReplicaClientError as error:
        return "".join(lines).encode("utf-8", "backslashreplace"), str(error)
    return "".join(lines).encode("utf-8", "backslashreplace"), ""


def written(rows: RowsOfEvent, writer: RowLines) -> tuple[bytes, str]:
    fault = ""
    try:
        writer.rows(rows)
    except ReplicaClientError as error:
        fault = str(error)
    return bytes(writer.take()), fault


def assert_same(rows: RowsOfEvent, known: Sequence[tuple[RowLines, Any]]) -> None:
    for writer, line in known:
        assert written(rows, writer) == expected(rows, line)


OPTIONS = (
    DecodeOptions(),
    DecodeOptions(temporals="python"),
    DecodeOptions(invalid_text="replace"),
    DecodeOptions(invalid_text="bytes"),
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: f"{o.temporals}-{o.invalid_text}")
@pytest.mark.parametrize("seed", range(6))
def test_every_column_type(seed: int, options: DecodeOptions) -> None:
    rng = random.Random(seed)
    samples = [*SAMPLES, *MORE, *MORE]
    rng.shuffle(samples)
    shape = shape_of(samples)
    decoder = RowImageDecoder(shape, options)
    some = RowImageDecoder(shape, options, [column.name for column in shape.columns[::3]])
    known = writers()
    for kind in ("insert", "update", "delete"):
        for all_there in (True, False):
            event = random_event(rng, kind, samples, 5, all_there)
            assert_same(rows_of_event(event, decoder), known)
            assert_same(rows_of_event(event, some), known)
            assert_same(rows_of_event(event, decoder, first=3), known)


@pytest.mark.parametrize("seed", range(4))
def test_an_update_that_changes_little(seed: int) -> None:
    """Values that stay, that become equal ones of other bytes, and NULL."""
    rng = random.Random(seed)
    samples = [*SAMPLES, *MORE]
    event = random_event(rng, "update", samples, 1, True)
    whole = event.body.rows
    half = len(whole) // 2
    shape = shape_of(samples)
    decoder = RowImageDecoder(shape)
    known = writers()
    before = random_event(rng, "insert", samples, 1, True).body.rows
    for first, second in ((before, before), (whole[:half], whole[half:]), (before, before)):
        body = replace(event.body, rows=first + second)
        assert_same(rows_of_event(replace(event, body=body), decoder), known)


def damaged(rng: random.Random, event: BinlogEvent) -> BinlogEvent:
    data = bytearray(event.body.rows)
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    return replace(event, body=replace(event.body, rows=bytes(data)))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_images(seed: int) -> None:
    rng = random.Random(seed)
    samples = rng.sample([*SAMPLES, *MORE], 12)
    decoder = RowImageDecoder(shape_of(samples))
    known = writers()
    for kind in ("insert", "update", "delete"):
        event = random_event(rng, kind, samples, 3, True)
        for _ in range(10):
            assert_same(rows_of_event(damaged(rng, event), decoder), known)


@pytest.mark.parametrize(
    "names",
    [
        ("a", "a", "b"),
        ('"', "\\", "\n"),
        ("\udc80", "é", "\x7f"),
        ("a=b", ", ", "→"),
        ("x" * 3000, "", " "),
    ],
)
def test_names(names: tuple[str, ...]) -> None:
    columns = [
        ColumnShape(name, T.MYSQL_TYPE_LONG, length=4)
        if at
        else ColumnShape(name, T.MYSQL_TYPE_NULL)
        for at, name in enumerate(names)
    ]
    shape = TableShape("sh\u202eop", "\x1b[31m\udcff", tuple(columns))
    event = random_event(
        random.Random(1), "update", [Sample(c, lambda r: None, bytes) for c in columns], 2, True
    )
    decoder = RowImageDecoder(shape)
    for file in ("b.000001", "\x1b\udcff" * 20):
        rows = rows_of_event(replace(event, file=file), decoder)
        assert_same(rows, writers())


def test_the_demo_by_the_fast_path() -> None:
    known = writers()
    count = 0
    for transaction in rc.open_binlog(DEMO).transactions():
        for rows in transaction.rows:
            assert_same(rows, known)
            count += 1
    assert count > 20


def test_a_long_text_is_given_away_whole() -> None:
    writer = JsonLines()
    writer.line("x" * (1 << 20))
    assert bytes(writer.take()) == b"x" * (1 << 20) + b"\n"
    writer.line("é\udc80")
    assert writer.take() == "é\\udc80\n".encode()


@pytest.mark.parametrize("seed", range(3))
def test_whole_images_are_written_without_row_objects(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The general functions are for what is damaged or rare; both ways write the same lines."""
    if not (compiled() or getattr(row_lines.cython, "compiled", False)):
        pytest.skip("only compiled code writes lines from images")

    def refused(*_: object) -> str:
        raise AssertionError("the general functions wrote a whole image")

    monkeypatch.setattr(json_lines, "change_to_json", refused)
    rng = random.Random(seed)
    nulls = [replace(sample, value=lambda rng: None) for sample in SAMPLES[: 7 + seed]]
    for samples in ([*SAMPLES, *MORE], nulls):
        decoder = RowImageDecoder(shape_of(samples))
        for kind in ("insert", "update", "delete"):
            for all_there in (True, False):
                rows = rows_of_event(random_event(rng, kind, samples, 3, all_there), decoder)
                JsonLines().rows(rows)
                if all_there or kind != "update":  # an update that leaves columns out is rare
                    TableLines(refused, WIDTHS).rows(rows)
