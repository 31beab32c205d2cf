"""Column values of the corpus: cells of other projects' tests, and all rows of all binlogs."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import (
    BinlogEvent,
    BinlogFormat,
    EventContext,
    EventHeader,
)
from replica_client.protocol.binlog.events import EVENT_CLASSES
from replica_client.protocol.binlog.events.rows import NO_TABLE_ID, RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
from replica_client.protocol.binlog.values.decimal import decimal_size, decode_decimal
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.temporal_storage import decode_datetime2, decode_time2
from replica_client.protocol.binlog.values.value_types import encode_set
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.protocol.constants.event_types import EventType
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import ColumnShape, TableShape
from tests.corpus.binlogs import BROKEN, CORPUS, binlog_files, require_corpus
from tests.corpus.test_corpus_roundtrip import walk

FILES = [name for name in binlog_files() if name not in BROKEN]


@pytest.fixture(scope="module", autouse=True)
def _corpus_is_there() -> None:
    require_corpus()


def cases(name: str) -> list[dict[str, Any]]:
    path = CORPUS / "fixtures" / name
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def value_of(column: ColumnShape, data: bytes) -> Any:
    decoder = RowImageDecoder(TableShape("d", "t", (column,)))
    ((_, row),) = decoder.decode_rows("insert", b"\x01", None, b"\0" + data)
    return row[0]


_CODES = {
    "Tiny": (T.MYSQL_TYPE_TINY, 1),
    "Short": (T.MYSQL_TYPE_SHORT, 2),
    "Int24": (T.MYSQL_TYPE_INT24, 3),
    "Long": (T.MYSQL_TYPE_LONG, 4),
    "LongLong": (T.MYSQL_TYPE_LONGLONG, 8),
    "Year": (T.MYSQL_TYPE_YEAR, 1),
    "Float": (T.MYSQL_TYPE_FLOAT, 4),
    "Double": (T.MYSQL_TYPE_DOUBLE, 8),
    "Timestamp": (T.MYSQL_TYPE_TIMESTAMP, 0),
    "Date": (T.MYSQL_TYPE_DATE, 0),
    "NewDate": (T.MYSQL_TYPE_NEWDATE, 0),
    "Time": (T.MYSQL_TYPE_TIME, 0),
    "DateTime": (T.MYSQL_TYPE_DATETIME, 0),
    "Timestamp2": (T.MYSQL_TYPE_TIMESTAMP2, 0),
    "DateTime2": (T.MYSQL_TYPE_DATETIME2, 0),
    "Time2": (T.MYSQL_TYPE_TIME2, 0),
    "Varchar": (T.MYSQL_TYPE_VARCHAR, 0),
    "VarString": (T.MYSQL_TYPE_VAR_STRING, 0),
    "Bit": (T.MYSQL_TYPE_BIT, 0),
    "JSON": (T.MYSQL_TYPE_JSON, 0),
    "Enum": (T.MYSQL_TYPE_ENUM, 0),
    "Set": (T.MYSQL_TYPE_SET, 0),
    "String": (T.MYSQL_TYPE_STRING, 0),
    "NewDecimal": (T.MYSQL_TYPE_NEWDECIMAL, 0),
    "Blob": (T.MYSQL_TYPE_BLOB, 0),
    "Geometry": (T.MYSQL_TYPE_GEOMETRY, 0),
}


def vitess_column(case: dict[str, Any]) -> ColumnShape:
    code, length = _CODES[case["type"]]
    text = case["metadata"].replace("TypeString", "254")
    # An arithmetic expression.
    metadata = int(eval(text))
    scale = digits = 0
    unsigned = "UINT" in (case["declared"] or "")
    if code in (T.MYSQL_TYPE_TIMESTAMP2, T.MYSQL_TYPE_DATETIME2, T.MYSQL_TYPE_TIME2):
        digits = metadata
    elif code == T.MYSQL_TYPE_NEWDECIMAL:
        length, scale = metadata >> 8, metadata & 0xFF
    elif code == T.MYSQL_TYPE_BIT:
        length = (metadata >> 8) * 8 + (metadata & 0xFF)
    elif code == T.MYSQL_TYPE_STRING:
        # Its metadata has the real type in the upper byte.
        upper = metadata >> 8
        length = (metadata & 0xFF) | ((upper & 0x30) ^ 0x30) << 4
    elif case["type"] in ("Enum", "Set", "Varchar", "VarString"):
        length = metadata
    return ColumnShape(
        "c",
        code,
        metadata=metadata,
        unsigned=unsigned,
        length=length,
        scale=scale,
        fraction_digits=digits,
    )


def as_vitess(case: dict[str, Any], value: Any) -> str:
    """Our value as the fixture spells it."""
    kind, expected = case["type"], case["expected"]
    if kind in ("Float", "Double"):
        return f"{value:.{len(expected.partition('E')[0].partition('.')[2])}E}"
    if kind == "Set":
        return f"hex:{encode_set(value, 2).hex()}"
    if kind == "Bit":
        return f"hex:{value.to_bytes(len(expected) // 2 - 2, 'big').hex()}"
    if kind == "Geometry":
        # Three bytes are no geometry; the fixture's cell takes anything.
        return str(expected)
    if kind == "JSON":
        return str(value)
    if isinstance(value, bytes):
        return f"hex:{value.hex()}" if expected.startswith("hex:") else str(value, "utf-8")
    return str(value)


@pytest.mark.parametrize("case", cases("vitess/rbr_test.json"), ids=lambda case: case["hex"])
def test_vitess_cells(case: dict[str, Any]) -> None:
    column = vitess_column(case)
    data = bytes.fromhex(case["hex"])
    if case["type"] == "Geometry":
        with pytest.raises(BinlogDecodeError):
            value_of(column, data)
        return
    if case["type"] == "Enum" and column.length == 2:
        # The fixture reads the two bytes of 0102 little-endian, as we do.
        assert value_of(column, data).index == 0x0201
        return
    assert as_vitess(case, value_of(column, data)) == case["expected"]


def go_mysql(test: str) -> list[dict[str, Any]]:
    return [
        case
        for case in cases("go-mysql/row_event_test.json")
        if case["test"] == test and case.get("same_line_strings") and case.get("same_line_ints")
    ]


@pytest.mark.parametrize("case", go_mysql("TestDecodeDecimal"), ids=lambda case: str(case["line"]))
def test_go_mysql_decimals(case: dict[str, Any]) -> None:
    precision, scale = (int(number) for number in case["same_line_ints"][:2])
    size = decimal_size(precision, scale)
    value = decode_decimal(bytes.fromhex(case["hex"])[:size], precision, scale)
    assert value == Decimal(case["same_line_strings"][0])
    assert value.as_tuple().exponent == -scale


@pytest.mark.parametrize(
    ("test", "decode", "size"),
    [("TestDecodeTime2", decode_time2, 3), ("TestDecodeDatetime2", decode_datetime2, 5)],
)
def test_go_mysql_temporals(test: str, decode: Any, size: int) -> None:
    found = go_mysql(test)
    assert found
    for case in found:
        # The count of digits that the test gives is that of its type: odd counts have a zero last.
        digits = int(case["same_line_ints"][0])
        data = bytes.fromhex(case["hex"])
        assert len(data) == size + digits // 2
        assert str(decode(data, digits)) == case["same_line_strings"][0], case["hex"]


_MAGE = {
    case.get("var"): case["hex"] for case in cases("mage-os-database-changelog/test_fixture.json")
}


def mage_rows(table: str, rows: str, type_code: EventType) -> Any:
    table_map = TableMapEvent.decode(
        ByteReader(bytes.fromhex(_MAGE[table])), EventContext(type_code=EventType.TABLE_MAP_EVENT)
    )
    ctx = EventContext(format=BinlogFormat(), type_code=type_code)
    body = EVENT_CLASSES[type_code].decode(ByteReader(bytes.fromhex(_MAGE[rows])), ctx)
    header = EventHeader(0, type_code, 1, 0, 0, 0)
    decoder = RowImageDecoder(TableShape.from_table_map(table_map))
    return list(decoder.iter_event(BinlogEvent(header, body)))


def test_mage_os_rows() -> None:
    inserted = mage_rows("TABLE_DEFINITION_ENTITY", "WRITE_ENTITY", EventType.WRITE_ROWS_EVENT)
    assert inserted == [
        (None, (1, "Product 1", "Product 1 description", Decimal("9.9900"))),
        (None, (2, "Product 2", "Product 2 description", Decimal("99.9900"))),
    ]
    with_null = mage_rows(
        "TABLE_DEFINITION_ENTITY_WITH_NULL", "WRITE_ENTITY_WITH_NULL", EventType.WRITE_ROWS_EVENT
    )
    assert [row[2] for _, row in with_null] == [None, None]
    deleted = mage_rows("TABLE_DEFINITION_INT", "DELETE_ENTITY_INT", EventType.DELETE_ROWS_EVENT)
    assert deleted == [((2, 1, 1, 1, 0), None)]
    partial = mage_rows(
        "TABLE_DEFINITION_PARTIAL_JSON",
        "PARTIAL_UPDATE_ENTITY_JSON",
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
    )
    assert [before[0] for before, _ in partial] == [1, 2]
    for _, after in partial:
        assert after[:4] == (ABSENT,) * 4
        assert [str(diff) for diff in after[4]] == ['insert $.season ["winter", "spring"]']


def decoded_rows(name: str) -> Counter[str]:
    """Decodes every row of a file; counts rows, and values by type."""
    data = (CORPUS / name).read_bytes()
    decoder = BinlogDecoder(file=name)
    counts: Counter[str] = Counter()
    for found in walk(data, name):
        assert not isinstance(found, BinlogDecodeError), found
        position, raw = found
        if raw[4] == EventType.START_ENCRYPTION_EVENT:
            continue
        event = decoder.decode(raw, position)
        events = [event]
        if isinstance(event.body, TransactionPayloadEvent):
            events = list(decoder.inner_events(event))
        for one in events:
            count_rows(decoder, one, counts)
    return counts


def count_rows(decoder: BinlogDecoder, event: BinlogEvent, counts: Counter[str]) -> None:
    if not isinstance(event.body, RowsEvent) or event.body.table_id in NO_TABLE_ID:
        return
    table_map = decoder.table_map(event.body.table_id)
    shape = TableShape.from_table_map(table_map, decoder.format.flavor)
    for pair in RowImageDecoder(shape).iter_event(event):
        counts["rows"] += 1
        for image in pair:
            for value in image or ():
                counts[type(value).__name__] += 1
                if isinstance(value, JsonDocument):
                    assert value.text


@pytest.mark.parametrize("name", FILES)
def test_every_row_of_every_intact_binlog(name: str) -> None:
    decoded_rows(name)


def test_the_corpus_has_rows_of_all_kinds() -> None:
    total: Counter[str] = Counter()
    for name in FILES:
        total += decoded_rows(name)
    assert total["rows"] > 1000
    for kind in ("int", "str", "bytes", "Decimal", "DateTime", "JsonDocument", "EnumValue"):
        assert total[kind], kind
