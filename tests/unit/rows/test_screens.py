"""Screens keep back only changes that the rules for decoded rows refuse: any columns, images and conditions."""

import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest

from replica_client.archive.question import ChangeTest, ColumnStep, Question
from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.temporal import Temporal
from replica_client.protocol.binlog.values.value_types import EnumValue, SetValue
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.conditions import matches
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row_change import Change
from replica_client.rows.screens import condition_screens
from replica_client.rows.where import And, Comparison, Condition, IsNull, Not, OneOf, Or
from tests.unit.rows.images import SAMPLES, Sample, bitmap, encode_image, shape_of
from tests.unit.rows.test_columnar import event_of, rows_of_event

SIGNS = ("=", "!=", "<", "<=", ">", ">=")


def literal_like(rng: random.Random, value: Any) -> Any:
    """A literal that a value may be equal to, be near to, or not be compared with."""
    if rng.random() < 0.04:
        return rng.choice((0, "x", Decimal("0.5"), True, b"a", 10**30, Decimal("-1E-40"), "\udcff"))
    if isinstance(value, EnumValue):
        return str(value)
    if isinstance(value, SetValue):
        return str(value)
    if isinstance(value, bool | float):
        return Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(value, int | Decimal):
        return value + rng.choice((0, 0, 1, -1, Decimal("0.5"), Decimal("-0.5")))
    if isinstance(value, bytes):
        return rng.choice((value, value[:-1], value + b"\0", value.decode("utf-8", "replace")))
    if isinstance(value, str):
        return rng.choice((value, value, value[:-1], value + " ", value + "a", "é"))
    if isinstance(value, Temporal):
        return str(value)
    return rng.choice(("x", 1))


def condition_like(rng: random.Random, known: list[list[Any]], depth: int = 0) -> Condition:
    """A condition about columns of which some values are known."""
    if depth < 3 and rng.random() < 0.45:
        kind = rng.choice((And, Or, Not))
        if kind is Not:
            return Not(condition_like(rng, known, depth + 1))
        parts = [condition_like(rng, known, depth + 1) for _ in range(rng.randint(2, 3))]
        return kind(tuple(parts))
    at = rng.randrange(len(known))
    name = f"c{at + 1}" if rng.random() < 0.98 else "no_such"
    if rng.random() < 0.15:
        return IsNull(name)
    literals = [literal_like(rng, rng.choice(known[at])) for _ in range(rng.randint(1, 3))]
    if len(literals) > 1:
        return OneOf(name, tuple(literals))
    return Comparison(name, rng.choice(SIGNS), literals[0])  # type: ignore[arg-type]


def random_rows(
    rng: random.Random, samples: list[Sample], known: list[list[Any]], decoder: RowImageDecoder
) -> RowsOfEvent:
    """Rows of few different values, of any kind and image."""
    kind = rng.choice(("insert", "update", "delete"))
    before, after = (
        [rng.random() < rng.choice((1, 1, 0.7)) for _ in samples] or [True] for _ in range(2)
    )
    if not any(before) or not any(after):
        before = after = [True] * len(samples)
    data = b""
    for _ in range(rng.randint(1, 12)):
        for present in (before, after) if kind == "update" else (before,):
            row = [None if rng.random() < 0.2 else rng.choice(values) for values in known]
            data += encode_image(samples, present, row)
    if rng.random() < 0.2:
        at = rng.randrange(len(data))
        data = rng.choice((data[:at], data[:at] + rng.randbytes(1) + data[at + 1 :]))
    bits = bitmap(after) if kind == "update" else None
    event = event_of(kind, len(samples), bitmap(before), bits, data)
    return rows_of_event(event, decoder, rng.choice((0, 0, 2)))


def ask_both(rows: RowsOfEvent, takes: Any, screened: Any) -> None:
    """Ask all changes, and those that pass a screen: the same is taken."""
    found, fault = _until_fault(rows, takes)
    seen, seen_fault = _until_fault(screened(rows), takes)
    if fault and "column" in fault and "where" not in fault:
        # Bytes that are no values: of changes that are kept back nobody looks at them.
        assert seen[: len(found)] == found
    else:
        assert (seen, seen_fault) == (found, fault)


def _until_fault(changes: Iterable[Change], takes: Any) -> tuple[list[str], str]:
    found: list[str] = []
    try:
        for one in changes:
            if takes(one):
                found.append(repr(one))
    except ReplicaClientError as error:
        return found, repr(error)
    return found, ""


@pytest.mark.parametrize("seed", range(40))
def test_same_as_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    samples = rng.sample(SAMPLES, rng.randint(1, 9))
    known = [[sample.value(rng) for _ in range(3)] for sample in samples]
    options = DecodeOptions(
        temporals=rng.choice(("lossless", "lossless", "python")),
        invalid_text=rng.choice(("strict", "replace", "bytes")),
    )
    decoder = RowImageDecoder(
        shape_of(samples),
        options,
        None
        if rng.random() < 0.8
        else [f"c{at}" for at in range(1, len(samples) + 1) if rng.random() < 0.7],
    )
    for _ in range(12):
        condition = condition_like(rng, known)
        screens = condition_screens(condition)
        for _ in range(4):
            rows = random_rows(rng, samples, known, decoder)
            ask_both(rows, lambda one, wanted=condition: matches(wanted, one), screens.changes)


@pytest.mark.parametrize("seed", range(10))
def test_same_as_a_question(seed: int) -> None:
    """Keys, steps of a column and conditions together."""
    rng = random.Random(seed)
    samples = rng.sample(SAMPLES, 4)
    known = [[sample.value(rng) for _ in range(3)] for sample in samples]
    decoder = RowImageDecoder(shape_of(samples))
    for _ in range(20):
        key = {"c1": literal_like(rng, known[0][0]), "c2": literal_like(rng, known[1][0])}
        values = [literal_like(rng, rng.choice(known[2])) for _ in range(2)]
        step = ColumnStep("c3", *(value if rng.random() < 0.6 else None for value in values))
        question = Question(
            key=rng.choice((None, key)),
            step=rng.choice((None, step)),
            where=rng.choice((None, condition_like(rng, known))),
        )
        test = ChangeTest(question)
        for _ in range(4):
            rows = random_rows(rng, samples, known, decoder)
            ask_both(rows, ChangeTest(question).takes, test.changes)


def test_changes_are_kept_back() -> None:
    """Where a column is compared as it lies, what does not match is not decoded: its other columns may be anything."""
    samples = [one for one in SAMPLES if one.column.unsigned is False and one.column.length == 4][
        :1
    ]
    samples.append(next(one for one in SAMPLES if one.column.collation_id == 255))
    decoder = RowImageDecoder(shape_of(samples))
    rows = [(1, "a"), (2, "b"), (3, "c")]
    data = b"".join(encode_image(samples, [True, True], row) for row in rows)
    data = data.replace(b"a", b"\xff").replace(b"c", b"\xff")
    event = event_of("insert", 2, bitmap([True, True]), None, data)
    for condition in (
        Comparison("c1", "=", 2),
        OneOf("c1", (2, 7)),
        And((Comparison("c1", ">", 1), Comparison("c1", "<", Decimal("2.5")))),
        Not(Or((Comparison("c1", "<", 2), Comparison("c1", ">=", 3)))),
    ):
        found = list(condition_screens(condition).changes(rows_of_event(event, decoder)))
        assert [one.after["c2"] for one in found if one.after] == ["b"]


def test_documents_are_asked_for_by_the_rules() -> None:
    samples = [next(one for one in SAMPLES if one.column.type_code == 245)]
    decoder = RowImageDecoder(shape_of(samples))
    rows = [JsonDocument.of(value) for value in (1, "1", True, [1], None)]
    data = b"".join(encode_image(samples, [True], [row]) for row in rows)
    event = event_of("insert", 1, bitmap([True]), None, data)
    found = condition_screens(Comparison("c1", "=", 1)).changes(rows_of_event(event, decoder))
    assert [one.after[0].value for one in found if one.after] == [1]
