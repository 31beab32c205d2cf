"""DECIMAL, temporal, ENUM, FLOAT, DOUBLE and JSON columns compared as they are stored.

The same as the rules, for any bytes and literal.
"""

import math
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.values.decimal import decimal_size
from replica_client.protocol.binlog.values.json_binary import encode_json
from replica_client.protocol.binlog.values.numbers import decode_float
from replica_client.protocol.binlog.values.temporal_storage import fraction_size
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.conditions import matches
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.screens import condition_screens
from replica_client.rows.where import Comparison, Condition, Not, OneOf
from replica_client.schema.shape import ColumnShape
from tests.unit.rows.images import SAMPLES, shape_of
from tests.unit.rows.test_columnar import event_of, rows_of_event

SIGNS = ("=", "!=", "<", "<=", ">", ">=")
T = ColumnType


def a_shape(type_code: ColumnType) -> ColumnShape:
    return next(one.column for one in SAMPLES if one.column.type_code == type_code)


def decimal_case(rng: random.Random) -> tuple[ColumnShape, int, Callable[[], Any]]:
    precision = rng.choice((1, 4, 9, 10, 18, 19, 30, 65))
    scale = rng.randint(0, min(precision, 30))
    column = replace(a_shape(T.MYSQL_TYPE_NEWDECIMAL), length=precision, scale=scale)

    def literal() -> Any:
        number = Decimal(rng.choice((0, 1, -1, 5, rng.randint(-(10**precision), 10**precision))))
        number = number.scaleb(-scale) if precision < 28 else number
        return rng.choice(
            (
                number,
                number + Decimal("0.5"),
                int(number),
                -number,
                10**70,
                Decimal("-1E+400"),
                True,
                "1",
            )
        )

    return column, decimal_size(precision, scale), literal


def temporal_case(rng: random.Random) -> tuple[ColumnShape, int, Callable[[], Any]]:
    code, base = rng.choice(
        (
            (T.MYSQL_TYPE_DATE, 3),
            (T.MYSQL_TYPE_TIME2, 3),
            (T.MYSQL_TYPE_DATETIME2, 5),
            (T.MYSQL_TYPE_TIMESTAMP2, 4),
        )
    )
    digits = 0 if code == T.MYSQL_TYPE_DATE else rng.randint(0, 6)
    column = replace(a_shape(code), metadata=digits, fraction_digits=digits)

    def literal() -> Any:
        fraction = rng.choice(("", ".5", ".999999", ".000001", f".{rng.randint(0, 999999):06}"))
        if code == T.MYSQL_TYPE_TIME2:
            hours = rng.choice((0, 0, 1, 838, rng.randint(0, 999)))
            clock = f"{rng.randint(0, 59):02}:{rng.choice((0, 59)):02}"
            return rng.choice(("", "-")) + f"{hours:02}:{clock}{fraction}"
        date = rng.choice(
            (
                "0000-00-00",
                "1970-01-01",
                "2026-02-00",
                "9999-12-31",
                "2038-01-19",
                "2026-13-41",
                "1969-12-31",
            )
        )
        if code == T.MYSQL_TYPE_DATE:
            return rng.choice((date, date, date + " 00:00:00", date + " 10:00:00", 5, "x"))
        clock = rng.choice(("00:00:00", "03:14:07", "23:59:59", "24:61:61"))
        return rng.choice((date, f"{date} {clock}{fraction}", f"{date} {clock}", 5))

    return column, base + fraction_size(digits), literal


def label_case(rng: random.Random) -> tuple[ColumnShape, int, Callable[[], Any]]:
    column = a_shape(rng.choice((T.MYSQL_TYPE_ENUM, T.MYSQL_TYPE_SET)))
    labels = (*(column.labels or ()), "", "none", 3)
    return column, column.length, lambda: rng.choice(labels)


def float_case(rng: random.Random) -> tuple[ColumnShape, int, Callable[[], Any]]:
    code, size = rng.choice(((T.MYSQL_TYPE_FLOAT, 4), (T.MYSQL_TYPE_DOUBLE, 8)))
    form = "<f" if size == 4 else "<d"

    def literal() -> Any:
        number = struct.unpack(form, FLOATS.get(size, [bytes(size)])[-1])[0]
        if number - number != 0.0:
            number = math.copysign(10**30, number)
        single = Decimal(repr(decode_float(struct.pack("<f", number)))) if size == 4 else 0
        return rng.choice(
            (
                Decimal(number),
                Decimal(repr(number)),
                Decimal(math.nextafter(number, math.inf)),
                single,
                single + Decimal("1E-12"),
                int(number),
                0,
                Decimal("-0.0"),
                Decimal("0.1"),
                10**39,
                Decimal("1E+500"),
                10**400,
                True,
                "1",
            )
        )

    return a_shape(code), size, literal


FLOATS: dict[int, list[bytes]] = {}
"""The last values of columns, by size, for literals that are near."""


def float_bytes(rng: random.Random, size: int, before: list[bytes]) -> bytes:
    """Numbers, numbers beside them, both zeros, infinities, what is no number."""
    form = "<f" if size == 4 else "<d"
    how = rng.random()
    if how < 0.4 and before:
        number = int.from_bytes(rng.choice(before), "little") + rng.choice((-1, 0, 1))
        found = (number % (1 << 8 * size)).to_bytes(size, "little")
    elif how < 0.8:
        numbers = (0.0, -0.0, 0.1, 5.61, -2.5, 1.0, 1e-40, 16777217.0, math.inf, math.nan)
        found = struct.pack(form, rng.choice((*numbers, rng.uniform(-100, 100))))
    else:
        found = rng.randbytes(size)
    FLOATS[size] = [found]
    return found


def bytes_near(rng: random.Random, size: int, before: list[bytes]) -> bytes:
    """Any bytes, among them values, bytes beside them, and what no server writes."""
    how = rng.random()
    if how < 0.2:
        return rng.choice((bytes(size), b"\x80" + bytes(size - 1), b"\x7f" + b"\xff" * (size - 1)))
    if how < 0.5 and before:
        number = int.from_bytes(rng.choice(before), "big") + rng.choice((-1, 0, 1))
        return (number % (1 << 8 * size)).to_bytes(size, "big")
    return rng.choice((b"\x80", b"\x99", b"\x7f", b"\x01", rng.randbytes(1))) + rng.randbytes(
        size - 1
    )


def asked(changes: Any, condition: Condition) -> list[str]:
    """What a question gives: rows, or the fault with which it ends."""
    try:
        return [repr(one) for one in changes if matches(condition, one)]
    except ReplicaClientError as error:
        return [repr(error)]


@pytest.mark.parametrize("case", [decimal_case, temporal_case, label_case, float_case])
@pytest.mark.parametrize("seed", range(7))
def test_same_as_the_rules(case: Any, seed: int) -> None:
    rng = random.Random(f"{case.__name__} {seed}")
    column, size, literal = case(rng)
    shape = shape_of([replace(SAMPLES[0], column=column)])
    decoder = RowImageDecoder(shape)
    values: list[bytes] = []
    for _ in range(60):
        name = shape.column_names[0]
        condition: Condition = Comparison(name, rng.choice(SIGNS), literal())  # type: ignore[arg-type]
        if rng.random() < 0.3:
            condition = OneOf(name, (literal(), literal()))
        if rng.random() < 0.2:
            condition = Not(condition)
        screens = condition_screens(condition)
        for _ in range(8):
            values.append((float_bytes if case is float_case else bytes_near)(rng, size, values))
            is_null = rng.random() < 0.1
            image = b"\x01" if is_null else b"\x00" + values[-1]
            rows = rows_of_event(event_of("insert", 1, b"\x01", None, image), decoder)
            found = asked(screens.changes(rows), condition)
            assert found == asked(rows, condition), (condition, values[-1].hex())


@pytest.mark.parametrize(
    ("type_code", "literal", "stored"),
    [
        (T.MYSQL_TYPE_DATE, "2026-11-23", (2026 << 9 | 11 << 5 | 22).to_bytes(3, "little")),
        (T.MYSQL_TYPE_TIME2, "-00:00:01", (1 << 23).to_bytes(3, "big")),
        (T.MYSQL_TYPE_TIMESTAMP2, "2038-01-01", (5).to_bytes(4, "big")),
        (T.MYSQL_TYPE_FLOAT, Decimal("0.1"), struct.pack("<f", 0.2)),
        (T.MYSQL_TYPE_DOUBLE, Decimal("0.1"), struct.pack("<d", 0.2)),
        (T.MYSQL_TYPE_JSON, "none", b"\x03\x00\x00\x00" + encode_json("y")),
        (T.MYSQL_TYPE_JSON, 1, b"\x0d\x00\x00\x00" + encode_json({"a": 1})),
    ],
)
def test_changes_are_kept_back(type_code: ColumnType, literal: Any, stored: bytes) -> None:
    """What does not match is not decoded: its other columns may be anything."""
    column = a_shape(type_code)
    if type_code in (T.MYSQL_TYPE_TIME2, T.MYSQL_TYPE_TIMESTAMP2):
        column = replace(column, metadata=0, fraction_digits=0)
    text = next(one for one in SAMPLES if one.column.collation_id == 255)
    shape = shape_of([replace(SAMPLES[0], column=column), text])
    image = b"\x00" + stored + b"\x01" + b"\xff"
    if text.column.length > 255:
        image = b"\x00" + stored + b"\x01\x00" + b"\xff"
    rows = rows_of_event(event_of("insert", 2, b"\x03", None, image), RowImageDecoder(shape))
    with pytest.raises(ReplicaClientError):
        list(rows)
    condition = Comparison("c1", "=", literal)
    assert not list(condition_screens(condition).changes(rows))


def json_bytes(rng: random.Random) -> bytes:
    """A document, one that is cut or has other bytes, or none."""
    texts = ("none", "", "é", "x" * 127, "x" * 128, "x" * 300, "1", "true")
    numbers = (0, 1, -1, 70_000, 1 << 40, (1 << 64) - 1, 0.5, 1.0, Decimal("1.5"))
    scalars = (*texts, *numbers, None, True, False)
    document: Any = rng.choice(scalars)
    if rng.random() < 0.3:
        document = rng.choice(({"a": document}, [document], {}, []))
    data = bytearray(encode_json(document))
    if rng.random() < 0.3:
        del data[rng.randrange(len(data) + 1) :]
    if data and rng.random() < 0.3:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x80, 0xFF, 0x0C, 0x0F, 0x10))
    return bytes(data)


@pytest.mark.parametrize("seed", range(7))
def test_documents_are_the_same_as_by_the_rules(seed: int) -> None:
    rng = random.Random(f"json {seed}")
    shape = shape_of([replace(SAMPLES[0], column=a_shape(T.MYSQL_TYPE_JSON))])
    decoder, name = RowImageDecoder(shape), shape.column_names[0]
    literals = ("none", "", "é", "x" * 127, "x" * 128, "1", "\udcff", 0, 1, -1, 70_000, 1 << 40)
    more = (Decimal("0.5"), Decimal("1.5"), True, False, b"none", Decimal("1E+400"))
    for _ in range(60):
        condition: Condition = Comparison(
            name,
            rng.choice(("=", "!=", "=", "!=", "<")),
            rng.choice((*literals, *more)),  # type: ignore[arg-type]
        )
        if rng.random() < 0.3:
            condition = OneOf(name, (rng.choice(literals), rng.choice((*literals, *more))))
        if rng.random() < 0.2:
            condition = Not(condition)
        screens = condition_screens(condition)
        for _ in range(8):
            data = json_bytes(rng)
            width = decoder.shape.columns[0].metadata
            image = b"\x00" + len(data).to_bytes(width, "little") + data
            image = b"\x01" if rng.random() < 0.1 else image
            rows = rows_of_event(event_of("insert", 1, b"\x01", None, image), decoder)
            found = asked(screens.changes(rows), condition)
            assert found == asked(rows, condition), (condition, data.hex())
