"""A binlog file of MySQL made from rows of Python values: column types, row images and events."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import Any, Final

from replica_client.errors import ConfigError
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogEvent, EventBody, EventHeader
from replica_client.protocol.binlog.events.control import FormatDescriptionEvent
from replica_client.protocol.binlog.events.gtids import GtidEvent, PreviousGtidsEvent, XidEvent
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.binlog.events.rows import STMT_END_F, RowsEvent, RowsKind
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.values.decimal import encode_decimal
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_encoder import encode_json
from replica_client.protocol.binlog.values.strings import encode_string
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.temporal_storage import (
    encode_date,
    encode_datetime2,
    encode_time2,
    encode_timestamp2,
)
from replica_client.protocol.binlog.values.value_types import SetValue
from replica_client.protocol.codec.byte_fields import ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import (
    CHARACTER_TYPES,
    INTEGER_TYPES,
    NUMERIC_TYPES,
    TYPE_FACTS,
    ColumnType,
    MetadataFieldType,
)
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import ColumnShape

_T = ColumnType
_MAGIC: Final = b"\xfebin"
_SID: Final = bytes.fromhex("4587bb45e52d11f1971d02fc00000001")
_SERVER_ID: Final = 1
_UTF8MB4, _BINARY = 255, 63
_DIGITS: Final = 6
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_CODES: Final[dict[RowsKind, EventType]] = {
    "insert": EventType.WRITE_ROWS_EVENT,
    "update": EventType.UPDATE_ROWS_EVENT,
    "delete": EventType.DELETE_ROWS_EVENT,
}

Values = Mapping[str, Any]
"""A row: values by column name."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """The type of a made column."""

    code: ColumnType
    encode: Callable[[Any], bytes]
    metadata: int = 0
    unsigned: bool = False
    collation: int = _BINARY


def _text_kind(texts: Sequence[str]) -> _Kind:
    size = _length_size(max((len(text.encode()) for text in texts), default=0))
    return _Kind(
        _T.MYSQL_TYPE_BLOB,
        lambda value: encode_string(str(value), size, _UTF8MB4),
        size,
        collation=_UTF8MB4,
    )


def _bytes_kind(values: Sequence[bytes]) -> _Kind:
    size = _length_size(max(map(len, values)))
    return _Kind(_T.MYSQL_TYPE_BLOB, lambda value: encode_string(bytes(value), size), size)


def _length_size(longest: int) -> int:
    """Return the bytes of a length: those of TEXT and BLOB, or of LONGTEXT and LONGBLOB."""
    return 2 if longest < 1 << 16 else 4


def _integer(values: Sequence[Any]) -> _Kind:
    unsigned = max(values) >> 63 > 0
    if max(values) >> 64 > 0 or min(values) < (0 if unsigned else -(1 << 63)):
        raise ConfigError(
            f"{max(values, key=abs)}: a BIGINT holds 64 bits; give a Decimal for a larger number"
        )
    return _Kind(
        _T.MYSQL_TYPE_LONGLONG,
        lambda value: int(value).to_bytes(8, "little", signed=not unsigned),
        unsigned=unsigned,
    )


def _decimal(values: Sequence[Decimal]) -> _Kind:
    if not all(value.is_finite() for value in values):
        raise ConfigError(f"{values[0]}: a DECIMAL is a finite number")
    scale = max(max(-int(value.as_tuple().exponent), 0) for value in values)
    whole = max(len(str(abs(int(value)))) for value in values)
    if scale > 30 or whole + scale > 65:
        raise ConfigError(
            f"{values[0]}: a DECIMAL has 65 digits at most, 30 of them after the point"
        )
    precision = whole + scale
    return _Kind(
        _T.MYSQL_TYPE_NEWDECIMAL,
        lambda value: encode_decimal(value, precision, scale),
        precision | scale << 8,
    )


def _date(value: Any) -> bytes:
    return encode_date(value if isinstance(value, Date) else Date(*value.timetuple()[:3]))


def _datetime(value: Any) -> bytes:
    if isinstance(value, datetime.datetime):
        value = DateTime(*value.timetuple()[:6], value.microsecond, _DIGITS)
    return encode_datetime2(value, _DIGITS)


def _timestamp(value: Any) -> bytes:
    if isinstance(value, datetime.datetime):
        micros = (value - _EPOCH) // datetime.timedelta(microseconds=1)
        value = Timestamp(micros // 1_000_000, micros % 1_000_000, _DIGITS)
    return encode_timestamp2(value, _DIGITS)


def _time(value: Any) -> bytes:
    if isinstance(value, datetime.timedelta):
        micros = abs(value // datetime.timedelta(microseconds=1))
        seconds, fraction = divmod(micros, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        value = Time(value < datetime.timedelta(0), hour, minute, second, fraction, _DIGITS)
    return encode_time2(value, _DIGITS)


def _json(value: Any) -> bytes:
    data = value.data if isinstance(value, JsonDocument) else encode_json(value)
    return len(data).to_bytes(4, "little") + data


def _kind_of(name: str, values: Sequence[Any]) -> _Kind:
    """Return the type of a column that holds some values; TEXT for NULL alone.

    Raises:
        ConfigError: no type holds them.
    """
    given = [value for value in values if value is not None]

    def all_are(*types: type) -> bool:
        return all(isinstance(value, types) for value in given)

    if all_are(str):
        return _text_kind(given)
    if all_are(bool):
        return _Kind(_T.MYSQL_TYPE_TINY, lambda value: bytes((value,)))
    if all_are(int):
        return _integer(given)
    if all_are(int, float):
        return _Kind(_T.MYSQL_TYPE_DOUBLE, lambda value: struct.pack("<d", value), 8)
    if all_are(Decimal):
        return _decimal(given)
    if all_are(bytes, bytearray):
        return _bytes_kind(given)
    if all_are(Timestamp) or (all_are(datetime.datetime) and all(one.tzinfo for one in given)):
        return _Kind(_T.MYSQL_TYPE_TIMESTAMP2, _timestamp, _DIGITS)
    if all_are(datetime.datetime, DateTime) and not any(
        getattr(one, "tzinfo", None) for one in given
    ):
        return _Kind(_T.MYSQL_TYPE_DATETIME2, _datetime, _DIGITS)
    if all_are(datetime.date, Date) and not any(
        isinstance(one, datetime.datetime) for one in given
    ):
        return _Kind(_T.MYSQL_TYPE_DATE, _date)
    if all_are(datetime.timedelta, Time):
        return _Kind(_T.MYSQL_TYPE_TIME2, _time, _DIGITS)
    if all_are(dict, list, JsonDocument):
        return _Kind(_T.MYSQL_TYPE_JSON, _json, 4)
    if all_are(SetValue):
        return _text_kind([str(value) for value in given])
    types = ", ".join(sorted({type(value).__name__ for value in given}))
    raise ConfigError(
        f"column {name!r} of {types}: give int, float, bool, Decimal, str, bytes, date, datetime, timedelta, dict, "
        "list or None"
    )


def _bits(flags: Iterable[bool], *, high_first: bool = False) -> bytes:
    found = list(flags)
    out = bytearray((len(found) + 7) >> 3)
    for at, flag in enumerate(found):
        if flag:
            out[at >> 3] |= 0x80 >> (at & 7) if high_first else 1 << (at & 7)
    return bytes(out)


class MadeBinlog:
    """A binlog file of MySQL that is written event by event."""

    def __init__(self) -> None:
        description = FormatDescriptionEvent()
        self._format = description.format
        self.data = bytearray(_MAGIC)
        self._number = self._table_id = 0
        self._put(EventType.FORMAT_DESCRIPTION_EVENT, description, 0)
        previous = PreviousGtidsEvent(GtidSet.parse("").encode())
        self._put(EventType.PREVIOUS_GTIDS_LOG_EVENT, previous, 0)

    def _put(self, code: EventType, body: EventBody, timestamp: int) -> None:
        event = BinlogEvent(EventHeader(timestamp, code, _SERVER_ID, 0, 0, 0), body)
        size = len(encode_event(event, self._format))
        end = len(self.data) + size
        header = EventHeader(timestamp, code, _SERVER_ID, size, end & 0xFFFFFFFF, 0)
        self.data += encode_event(BinlogEvent(header, body), self._format)

    def begin(self, when: datetime.datetime, gtid: tuple[bytes, int] | None = None) -> int:
        """Write a GTID; return the seconds since 1970."""
        self._number += 1
        sid, number = gtid or (_SID, self._number)
        micros = (when - _EPOCH) // datetime.timedelta(microseconds=1)
        body = GtidEvent(1, sid, number, 2, self._number - 1, self._number, micros)
        seconds = micros // 1_000_000
        self._put(EventType.GTID_LOG_EVENT, body, seconds)
        return seconds

    def query(self, text: str, database: str, timestamp: int) -> None:
        """Write a statement."""
        body = QueryEvent(1, 0, 0, b"", database.encode(), text.encode())
        self._put(EventType.QUERY_EVENT, body, timestamp)

    def commit(self, timestamp: int) -> None:
        """Write the end of a transaction."""
        self._put(EventType.XID_EVENT, XidEvent(self._number), timestamp)

    def row(self, row: MadeRow, timestamp: int) -> None:
        """Write the table and the row of a change."""
        self._table_id += 1
        kinds = row.kinds
        names = list(kinds)
        metadata = tuple(kind.metadata for kind in kinds.values())
        table_map = TableMapEvent(
            self._table_id,
            1,
            row.database,
            row.table,
            bytes(kind.code for kind in kinds.values()),
            metadata,
            _bits(name not in row.key for name in names),
            _optional_metadata(kinds, row.key),
        )
        self._put(EventType.TABLE_MAP_EVENT, table_map, timestamp)
        images = [one for one in (row.before, row.after) if one is not None]
        bitmaps = [_bits(name in image for name in names) for image in images]
        rows = b"".join(_image(kinds, image) for image in images)
        kind = row.kind
        code = _CODES[kind]
        body = RowsEvent(
            kind,
            code,
            self._table_id,
            STMT_END_F,
            b"",
            len(names),
            bitmaps[0],
            bitmaps[-1] if kind == "update" else None,
            rows,
        )
        self._put(code, body, timestamp)


def _image(kinds: Mapping[str, _Kind], image: Values) -> bytes:
    present = [(kind, image[name]) for name, kind in kinds.items() if name in image]
    nulls = _bits(value is None for _, value in present)
    return nulls + b"".join(kind.encode(value) for kind, value in present if value is not None)


def _optional_metadata(kinds: Mapping[str, _Kind], key: Sequence[str]) -> bytes:
    out = ByteWriter()

    def put(kind: MetadataFieldType, value: bytes) -> None:
        out.uint(kind, 1).lenenc(len(value)).raw(value)

    numbers = [kind.unsigned for kind in kinds.values() if kind.code in NUMERIC_TYPES]
    if numbers:
        put(MetadataFieldType.SIGNEDNESS, _bits(numbers, high_first=True))
    texts = ByteWriter()
    for kind in kinds.values():
        if kind.code in CHARACTER_TYPES:
            texts.lenenc(kind.collation)
    if collations := texts.done():
        put(MetadataFieldType.COLUMN_CHARSET, collations)
    names = ByteWriter()
    for name in kinds:
        raw = name.encode()
        names.lenenc(len(raw)).raw(raw)
    put(MetadataFieldType.COLUMN_NAME, names.done())
    indexes = ByteWriter()
    for name in key:
        indexes.lenenc(list(kinds).index(name))
    if key:
        put(MetadataFieldType.SIMPLE_PRIMARY_KEY, indexes.done())
    return out.done()


@dataclass(frozen=True, slots=True)
class MadeRow:
    """A change to write."""

    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    key: tuple[str, ...]
    known: Mapping[str, _Kind] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: str,
        before: Values | None,
        after: Values | None,
        key: str | Sequence[str] | None,
    ) -> MadeRow:
        """Return the row of some values.

        Raises:
            ConfigError: the table's name or the key is wrong, or there are no values.
        """
        database, point, name = table.partition(".")
        if not (database and point and name):
            raise ConfigError(f"table {table!r}: write database.table, for example shop.orders")
        images = [
            None
            if image is None
            else {column: value for column, value in image.items() if value is not ABSENT}
            for image in (before, after)
        ]
        columns = list(dict.fromkeys(column for image in images for column in image or ()))
        if not columns:
            raise ConfigError("give before=, after= or both, each with a column at least")
        if key is None:
            keys: tuple[str, ...] = ("id",) if "id" in columns else (columns[0],)
        else:
            keys = (key,) if isinstance(key, str) else tuple(key)
        for one in keys:
            if one not in columns:
                raise ConfigError(f"key {one!r}: the row has the columns {', '.join(columns)}")
        return cls(database, name, images[0], images[1], keys)

    @property
    def kind(self) -> RowsKind:
        """``insert``, ``update`` or ``delete``."""
        return "insert" if self.before is None else "delete" if self.after is None else "update"

    @property
    def kinds(self) -> dict[str, _Kind]:
        """The columns' types, by name."""
        images = [image for image in (self.before, self.after) if image is not None]
        names = dict.fromkeys(name for image in images for name in image)
        return {
            name: self.known.get(name)
            or _kind_of(name, [image[name] for image in images if name in image])
            for name in names
        }


def row_of(change: Change) -> MadeRow:
    """Return the row of a change, with the types that it has there."""
    shape = change.shape
    key = tuple(shape.columns[at].name for at in shape.primary_key)
    before, after = (
        None if row is None else row.as_dict() for row in (change.before, change.after)
    )
    made = MadeRow.of(f"{change.database}.{change.table}", before, after, key)
    known = {column.name: _shape_kind(column) for column in shape.columns}
    return replace(made, known={name: kind for name, kind in known.items() if kind is not None})


def _shape_kind(column: ColumnShape) -> _Kind | None:
    """Return the type of a column of a delivered change; None: its values decide, as of made ones."""
    code, metadata = column.type_code, column.metadata
    unsigned, collation = bool(column.unsigned), column.collation_id or _BINARY
    kind: Callable[[Callable[[Any], bytes]], _Kind] = lambda encode: _Kind(  # noqa: E731
        _T(code), encode, metadata, unsigned, collation
    )
    if code in INTEGER_TYPES:
        size = TYPE_FACTS[code].size
        return kind(lambda value: int(value).to_bytes(size, "little", signed=not unsigned))
    if code == _T.MYSQL_TYPE_DOUBLE:
        return kind(lambda value: struct.pack("<d", value))
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        return kind(lambda value: encode_decimal(value, metadata & 0xFF, metadata >> 8))
    if code == _T.MYSQL_TYPE_VARCHAR and column.logical_type is None:
        size = 2 if metadata > 0xFF else 1
        return kind(lambda value: encode_string(value, size, collation))
    if code == _T.MYSQL_TYPE_BLOB:
        return kind(lambda value: encode_string(value, metadata, collation))
    if code == _T.MYSQL_TYPE_DATE:
        return kind(_date)
    if code == _T.MYSQL_TYPE_JSON:
        return kind(_json)
    return None
