"""Values and defaults in Debezium's format, by its options.

==============================  ==================  ====================  ==============================
mode                            DATE                TIME                  DATETIME
==============================  ==================  ====================  ==============================
``adaptive_time_microseconds``  days                microseconds          milliseconds; microseconds with
                                                                          more than 3 fraction digits
``connect``                     days                milliseconds          milliseconds
``isostring``                   ``2024-02-29Z``     ``12:34:56.789Z``     ``2024-02-29T23:59:59Z``
``microseconds``                days                microseconds          microseconds
``nanoseconds``                 days                nanoseconds           nanoseconds
==============================  ==================  ====================  ==============================

Days and times are since 1970-01-01 00:00, as if a DATETIME were in UTC; a TIMESTAMP is text in
every mode. Zero dates and invalid dates are null if the column can be NULL, else 1970-01-01.

==========================  =========================================================
column                      JSON
==========================  =========================================================
integers, YEAR              number
BIGINT UNSIGNED             by ``bigint.unsigned.handling.mode``
BIT(1)                      true or false
BIT(2 and more)             base64 of the bits, little-endian
FLOAT, DOUBLE               number
DECIMAL                     by ``decimal.handling.mode``
CHAR, VARCHAR, TEXT         string
ENUM, SET                   label; labels joined with commas
BINARY, VARBINARY, BLOB     by ``binary.handling.mode``
JSON                        string of the document
DATE, TIME, DATETIME        by ``time.precision.mode``, see debezium_times
TIMESTAMP                   ``2018-06-20T13:37:03Z``, with the column's fraction digits
POINT                       ``{"x": n, "y": n, "wkb": base64, "srid": n}``
other geometries            ``{"wkb": base64, "srid": n}``; null for SRID 0
vectors                     array of numbers
==========================  =========================================================
"""

from __future__ import annotations

import datetime
import re
import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final, Literal

import msgspec

from replica_client.errors import ConfigError
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import Geometry
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.json_values import quote, value_to_json
from replica_client.schema.kinds import BYTES, REALS, TEXT_KINDS, WHOLE, Rules, rules
from replica_client.schema.model import ColumnModel
from replica_client.schema.shape import ColumnShape, kind_of
from replica_client.sinks.formats.message import ValueWriter

_EPOCH: Final = datetime.datetime.fromordinal(datetime.date(1970, 1, 1).toordinal())
_BITS: Final = re.compile(r"(?:[bB]'([01]*)'|0b([01]*))")
_CLOCK: Final = re.compile(r"(-?)(\d+):(\d+):(\d+)(?:\.(\d+))?")


def default_value(column: ColumnShape) -> Any:
    """Return a column's default as a row value; None if it has none or it is unknown.

    ``CURRENT_TIMESTAMP`` becomes 1970-01-01 00:00:00, as in Debezium.
    """
    model = column.definition
    if model is None or model.default is None:
        return None
    if column.nullable and model.kind == "timestamp" and model.default == "CURRENT_TIMESTAMP":
        return None  # Debezium has a default only if the column cannot be NULL
    try:
        return _value(model, model.default)
    except (ValueError, InvalidOperation):
        return None


def _value(model: ColumnModel, text: str) -> Any:
    kind = model.kind
    if kind == "bit":
        bits = _BITS.fullmatch(text)
        return int(text) if bits is None else int(bits[1] or bits[2] or "0", 2)
    if kind in WHOLE:
        return {"TRUE": 1, "FALSE": 0}.get(text) if text.isalpha() else int(Decimal(text))
    if kind == "decimal":
        return Decimal(text).quantize(Decimal(1).scaleb(-model.scale))
    if kind in REALS:
        return float(text)
    if kind in TEXT_KINDS:
        return text
    if kind in BYTES:
        is_hex = text[:2].lower() == "0x"
        data = (
            bytes.fromhex(text[2:].rjust(len(text[2:]) + len(text) % 2, "0"))
            if is_hex
            else text.encode()
        )
        return data.ljust(model.length or 0, b"\0") if kind == "binary" else data
    if kind == "date":
        return datetime.date.fromisoformat(text)
    if kind == "time":
        return _time_default(text)
    if kind in ("datetime", "timestamp"):
        if text == "CURRENT_TIMESTAMP":
            return _EPOCH
        return datetime.datetime.fromisoformat(text)
    return None


def _time_default(text: str) -> datetime.timedelta | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    sign, hours, minutes, seconds, fraction = found.groups()
    whole = datetime.timedelta(
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds),
        microseconds=int((fraction or "").ljust(6, "0")[:6]),
    )
    return -whole if sign else whole


TimeMode = Literal[
    "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
]

_DAYS = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_MINUTE, _HOUR = 60, 3600


def date_writer(column: ColumnShape, mode: TimeMode) -> ValueWriter:
    """Return the function that writes the values of a DATE column."""
    return _either(_iso_date if mode == "isostring" else _days, column.nullable)


def clock_writer(_: ColumnShape, mode: TimeMode) -> ValueWriter:
    """Return the function that writes the values of a TIME column."""
    return _iso_time if mode == "isostring" else _time(mode)


def datetime_writer(column: ColumnShape, mode: TimeMode) -> ValueWriter:
    """Return the function that writes the values of a DATETIME column."""
    write = _iso_datetime if mode == "isostring" else _datetime(datetime_unit(column, mode))
    return _either(write, column.nullable)


def timestamp_writer(column: ColumnShape, _: TimeMode) -> ValueWriter:
    """Return the function that writes the values of a TIMESTAMP column."""
    instead = "null" if column.nullable else '"1970-01-01T00:00:00Z"'
    return lambda value: _timestamp(value, instead)


def datetime_unit(column: ColumnShape, mode: TimeMode) -> int:
    """Return the number of units per second in which a DATETIME is written."""
    units = {"connect": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
    return units.get(mode, 1_000 if column.fraction_digits <= 3 else 1_000_000)


def _either(write: Callable[[Any], str], optional: bool) -> ValueWriter:
    """Return a writer of dates or datetimes.

    It writes null or 1970-01-01 for values that no calendar has.
    """
    missing = "null" if optional else write(_EPOCH)

    def written(value: Any) -> str:
        if isinstance(value, (Date, DateTime)):
            try:
                value = value.to_python()
            except ValueError:
                return missing
        return write(value)

    return written


def _days(value: Any) -> str:
    return str(value.toordinal() - _DAYS)


def _iso_date(value: Any) -> str:
    return f'"{value.year:04d}-{value.month:02d}-{value.day:02d}Z"'


def _datetime(unit: int) -> Callable[[Any], str]:
    def write(value: Any) -> str:
        micros = (value - _EPOCH) // _MICROSECOND
        return str(micros * unit // 1_000_000)

    return write


def _iso_datetime(value: Any) -> str:
    seconds = f"{value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    day = f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    return f'"{day}T{seconds}{_fraction(value.microsecond)}Z"'


def _micros(value: Any) -> int:
    micros: int = value.total_microseconds if isinstance(value, Time) else value // _MICROSECOND
    return micros


def _time(mode: TimeMode) -> ValueWriter:
    if mode == "connect":
        return lambda value: str(_micros(value) // 1000)
    factor = 1000 if mode == "nanoseconds" else 1
    return lambda value: str(_micros(value) * factor)


def _iso_time(value: Any) -> str:
    micros = _micros(value)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    clock = f"{seconds // _HOUR:02d}:{seconds // _MINUTE % 60:02d}:{seconds % 60:02d}"
    return f'"{"-" if micros < 0 else ""}{clock}{_fraction(fraction)}Z"'


def _fraction(micros: int) -> str:
    """Return fraction digits as Java's ISO formatters write them: as many as are needed."""
    return f".{micros:06d}".rstrip("0") if micros else ""


def _timestamp(value: Any, instead: str) -> str:
    if isinstance(value, Timestamp):
        if value.is_zero:
            return instead
        return quote(str(value).replace(" ", "T") + "Z")
    return quote(str(value.replace(tzinfo=None).isoformat()) + "Z")


DecimalMode = Literal["precise", "string", "double"]
BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]
BigintMode = Literal["number", "long", "precise"]

# Python's default context would round to 28 digits; MySQL has up to 65.
_EXACT = Context(prec=100)
_POINT = 1
_POINT_SIZE = 21
_SIGN = 1 << 63
_DECIMALS: dict[DecimalMode, ValueWriter] = {
    "string": lambda value: f'"{value:f}"',
    "double": lambda value: repr(float(value)),
}
_BIGINTS: dict[BigintMode, ValueWriter] = {
    "number": str,
    "long": lambda value: str(value - 2 * _SIGN if value >= _SIGN else value),
    "precise": lambda value: unscaled(value),
}
_BINARIES: dict[BinaryMode, Callable[[bytes], str]] = {
    "bytes": lambda value: b64encode(value).decode(),
    "base64": lambda value: b64encode(value).decode(),
    "base64-url-safe": lambda value: urlsafe_b64encode(value).decode(),
    "hex": lambda value: value.hex(),
}


class ValueModes(msgspec.Struct, frozen=True, kw_only=True):
    """The modes in which values are written; see the options of the same names."""

    decimal: DecimalMode = "precise"
    binary: BinaryMode = "bytes"
    bigint_unsigned: BigintMode = "number"
    time: TimeMode = "adaptive_time_microseconds"


def _text_or_bytes(encode: Callable[[bytes], str]) -> ValueWriter:
    def write(value: Any) -> str:
        if type(value) is str:
            return quote(value)
        return f'"{encode(value)}"' if isinstance(value, bytes) else value_to_json(value)

    return write


_STRINGS: dict[BinaryMode, ValueWriter] = {
    mode: _text_or_bytes(encode) for mode, encode in _BINARIES.items()
}
STRING_WRITERS: Final = frozenset(_STRINGS.values())
"""Functions that only quote if the value is a string."""


def is_point(column: ColumnShape) -> bool:
    """Return whether a column is known to be a POINT."""
    known = column.definition
    return column.geometry_type == _POINT or (known is not None and known.type_name == "POINT")


def unscaled(number: int) -> str:
    """Return the JSON text of a whole number in Connect's form of decimals.

    It is base64 of the number's bytes in two's complement.
    """
    size = (number + (number < 0)).bit_length() // 8 + 1
    return f'"{b64encode(number.to_bytes(size, "big", signed=True)).decode()}"'


def _precise(scale: int) -> ValueWriter:
    def write(value: Decimal) -> str:
        return unscaled(int(value.scaleb(scale, _EXACT)))

    return write


def _bit(length: int) -> ValueWriter:
    if length == 1:
        return lambda value: "true" if value else "false"
    size = (length + 7) // 8
    return lambda value: f'"{b64encode(value.to_bytes(size, "little")).decode()}"'


def _json(value: Any) -> str:
    return quote(str(value.text))


def _geometry(value: Geometry) -> str:
    return f'{{"wkb":"{b64encode(value.wkb).decode()}","srid":{value.srid or "null"}}}'


def _point(value: Geometry) -> str:
    if len(value.wkb) != _POINT_SIZE:
        return _geometry(value)
    x, y = struct.unpack_from("<dd" if value.wkb[0] else ">dd", value.wkb, 5)
    return f'{{"x":{x!r},"y":{y!r},{_geometry(value)[1:]}'


def _decimal(column: ColumnShape, modes: ValueModes) -> ValueWriter:
    if is_old_decimal(column):
        return value_to_json
    return _DECIMALS.get(modes.decimal) or _precise(column.scale)


def is_old_decimal(column: ColumnShape) -> bool:
    """Return whether a column is a DECIMAL of MySQL 4, whose scale no table map has."""
    return column.type_code == ColumnType.MYSQL_TYPE_DECIMAL


_WRITERS: Final[Rules[Callable[[ColumnShape, ValueModes], ValueWriter]]] = rules(
    "Debezium's values",
    {
        "integer year": lambda *_: str,
        "bigint": lambda column, modes: _BIGINTS[modes.bigint_unsigned] if column.unsigned else str,
        "real vector": lambda *_: value_to_json,
        "bit": lambda column, _: _bit(column.length),
        "decimal": _decimal,
        "date": lambda column, modes: date_writer(column, modes.time),
        "time": lambda column, modes: clock_writer(column, modes.time),
        "datetime": lambda column, modes: datetime_writer(column, modes.time),
        "timestamp": lambda column, modes: timestamp_writer(column, modes.time),
        "enum set": lambda *_: lambda value: quote(str(value)),
        "json": lambda *_: _json,
        "spatial": lambda column, _: _point if is_point(column) else _geometry,
        "string bytes address": lambda _, modes: _STRINGS[modes.binary],
    },
)


def debezium_writer(column: ColumnShape, modes: ValueModes) -> ValueWriter:
    """Return the function that writes a column's values."""
    return _WRITERS[kind_of(column)](column, modes)


class DebeziumOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of Debezium's connector, with ``_`` for ``.``.

    Attributes:
        topic_prefix: the connector's logical name, ``source.name``.
        connector: ``source.connector``, and the names of schemas: ``mysql`` or ``mariadb``; empty:
            the kind of the source.
        decimal_handling_mode: ``precise``: base64 of the unscaled number, big-endian, in two's
            complement; ``string``; ``double``.
        binary_handling_mode: ``bytes`` and ``base64`` (the same in JSON), ``base64-url-safe``,
            ``hex``.
        time_precision_mode: ``adaptive_time_microseconds``, ``connect``, ``isostring``,
            ``microseconds`` or ``nanoseconds``.
        bigint_unsigned_handling_mode: ``number``: the value; ``long``: as Debezium writes it,
            negative from 2^63 on; ``precise``: as a decimal. Not given: ``number``, and ``long``
            with schemas, whose numbers end at 2^63: keys are then those of Debezium.
        provide_transaction_metadata: fill ``transaction``, and write BEGIN and END messages.
        include_schema_changes: write schema changes.
        include_schema_comments: write the comments of columns in schema changes.
        schemas_enable: write each message as ``{"schema": …, "payload": …}``.
        skipped_operations: the operations to leave out, of ``c``, ``u``, ``d`` and ``t``
            (TRUNCATE), separated by commas, or ``none``. Debezium leaves out ``t`` by default: a
            consumer then keeps rows that are gone.
        replace_null_with_default: write the default of a column where it is NULL, as Debezium does.
    """

    topic_prefix: str = "replica_client"
    connector: Literal["", "mysql", "mariadb"] = ""
    decimal_handling_mode: DecimalMode = "precise"
    binary_handling_mode: BinaryMode = "bytes"
    time_precision_mode: TimeMode = "adaptive_time_microseconds"
    bigint_unsigned_handling_mode: BigintMode | None = None
    provide_transaction_metadata: bool = False
    include_schema_changes: bool = True
    include_schema_comments: bool = False
    schemas_enable: bool = False
    skipped_operations: str = "none"
    replace_null_with_default: bool = False

    def skipped(self) -> frozenset[str]:
        """Return the operations that are left out.

        Raises:
            ConfigError: one of them does not exist.
        """
        found = frozenset(one.strip() for one in self.skipped_operations.split(",")) - {"none", ""}
        if not found <= {"c", "u", "d", "t"}:
            raise ConfigError(
                f"format_options: skipped_operations: {self.skipped_operations!r} is not of c, u, d, t and none"
            )
        return found

    def modes(self, *, described: bool) -> ValueModes:
        """Return the modes in which values are written.

        Args:
            described: whether messages have schemas.

        Raises:
            ConfigError: the option asks for numbers that no schema can describe.
        """
        bigints = self.bigint_unsigned_handling_mode
        if described and bigints == "number":
            raise ConfigError(
                "format_options: bigint_unsigned_handling_mode: 'number' has no schema; with schemas it is "
                "'precise' or 'long'"
            )
        return ValueModes(
            decimal=self.decimal_handling_mode,
            binary=self.binary_handling_mode,
            time=self.time_precision_mode,
            bigint_unsigned=bigints or ("long" if described else "number"),
        )
