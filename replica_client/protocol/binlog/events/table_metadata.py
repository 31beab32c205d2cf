"""The optional metadata of TABLE_MAP events."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from replica_client.errors import BinlogDecodeError, ShortBufferError, TruncatedEventError
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import (
    NUMBER_FIELDS,
    NUMERIC_TYPES,
    MetadataFieldType,
)

_F = MetadataFieldType

_MOST_LABELS: Final = {"an ENUM": 0xFFFF, "a SET": 64}


@dataclass(frozen=True, slots=True)
class DefaultCharset:
    """A collation for most columns of a kind, and the columns with another one.

    ``exceptions`` are pairs (index among the columns of that kind, collation id).
    """

    collation_id: int
    exceptions: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """Optional metadata; None for absent fields (``binlog_row_metadata=MINIMAL`` or older).

    Bytes: fields, each ``type`` (1 byte), ``length`` (length-encoded), value::

        type  field                         value
        1     signedness                    bit per numeric column, top bit first; 1: unsigned
        2     default_charset               collation id, then (index, collation id) pairs
        3     column_charset                collation id per character column
        4     column_names                  string per column
        5     set_labels                    per SET column: count, strings
        6     enum_labels                   per ENUM column: count, strings
        7     geometry_types                number per GEOMETRY column
        8     primary_key                   column index of each part
        9     primary_key                   (column index, prefix length in characters; 0: whole)
        10    enum_and_set_default_charset  as 2, for ENUM and SET columns
        11    enum_and_set_column_charset   as 3, for ENUM and SET columns
        12    visibility                    bit per column, top bit first; 1: visible
        13    vector_dimensions             number per vector column

    Numbers and string lengths are length-encoded.

    Attributes:
        signedness: True for unsigned, one per numeric column (:data:`NUMERIC_TYPES`).
        primary_key: pairs (column index, prefix length).
        column_names, set_labels, enum_labels: bytes; names are UTF-8, labels in the column's
            character set.
        unknown_fields: (type, value) of unknown fields.
        field_types: the types of all fields, in order.

    Spec: MySQL ``Table_map_event::Optional_metadata_fields`` (rows_event.h).
    """

    signedness: tuple[bool, ...] | None = None
    default_charset: DefaultCharset | None = None
    column_charset: tuple[int, ...] | None = None
    column_names: tuple[bytes, ...] | None = None
    set_labels: tuple[tuple[bytes, ...], ...] | None = None
    enum_labels: tuple[tuple[bytes, ...], ...] | None = None
    geometry_types: tuple[int, ...] | None = None
    primary_key: tuple[tuple[int, int], ...] | None = None
    enum_and_set_default_charset: DefaultCharset | None = None
    enum_and_set_column_charset: tuple[int, ...] | None = None
    visibility: tuple[bool, ...] | None = None
    vector_dimensions: tuple[int, ...] | None = None
    unknown_fields: tuple[tuple[int, bytes], ...] = ()
    field_types: tuple[int, ...] = field(default=())


def _bits(value: ByteReader, count: int, what: str) -> tuple[bool, ...]:
    size = (count + 7) >> 3
    data = value.take(size, what)
    return tuple(bool(data[i >> 3] & 0x80 >> (i & 7)) for i in range(count))


def _numbers(value: ByteReader) -> tuple[int, ...]:
    numbers = []
    while value.remaining:
        numbers.append(value.lenenc())
    return tuple(numbers)


def _pairs(value: ByteReader) -> tuple[tuple[int, int], ...]:
    pairs = []
    while value.remaining:
        pairs.append((value.lenenc(), value.lenenc()))
    return tuple(pairs)


def _strings(value: ByteReader) -> tuple[bytes, ...]:
    strings = []
    while value.remaining:
        strings.append(value.lenenc_bytes())
    return tuple(strings)


def _labels(value: ByteReader, kind: str, columns: int) -> tuple[tuple[bytes, ...], ...]:
    """Read the labels of each ENUM or SET column; refuse more labels than a value can mean."""
    lists: list[tuple[bytes, ...]] = []
    most = _MOST_LABELS[kind]
    while value.remaining:
        count = value.lenenc()
        if count > value.remaining:
            raise BinlogDecodeError(f"{count} labels announced in {value.remaining} bytes")
        if count > most:
            raise BinlogDecodeError(f"{count} labels of {kind} column; {most} are possible")
        if len(lists) == columns:
            raise BinlogDecodeError(f"labels of more columns than the {columns} of the table")
        lists.append(value.lenenc_strings(count))
    return tuple(lists)


def _default_charset(value: ByteReader) -> DefaultCharset:
    return DefaultCharset(value.lenenc(), _pairs(value))


def _parse_field(code: int, value: ByteReader, column_types: bytes, found: dict[str, Any]) -> bool:
    """Parse one field into ``found``; return False for an unknown type."""
    if code == _F.SIGNEDNESS:
        count = sum(column in NUMERIC_TYPES for column in column_types)
        found["signedness"] = _bits(value, count, "signedness")
    elif code in NUMBER_FIELDS:
        found[NUMBER_FIELDS[_F(code)][0]] = _numbers(value)
    elif code == _F.DEFAULT_CHARSET:
        found["default_charset"] = _default_charset(value)
    elif code == _F.COLUMN_NAME:
        found["column_names"] = names = _strings(value)
        if len(names) != len(column_types):
            raise BinlogDecodeError(f"{len(names)} column names for {len(column_types)} columns")
    elif code == _F.SET_STR_VALUE:
        found["set_labels"] = _labels(value, "a SET", len(column_types))
    elif code == _F.ENUM_STR_VALUE:
        found["enum_labels"] = _labels(value, "an ENUM", len(column_types))
    elif code == _F.SIMPLE_PRIMARY_KEY:
        found["primary_key"] = tuple((column, 0) for column in _numbers(value))
    elif code == _F.PRIMARY_KEY_WITH_PREFIX:
        found["primary_key"] = _pairs(value)
    elif code == _F.ENUM_AND_SET_DEFAULT_CHARSET:
        found["enum_and_set_default_charset"] = _default_charset(value)
    elif code == _F.COLUMN_VISIBILITY:
        found["visibility"] = _bits(value, len(column_types), "visibility")
    else:
        return False
    for column, _ in found.get("primary_key", ()):
        if column >= len(column_types):
            raise BinlogDecodeError(
                f"primary key names column {column} of {len(column_types)} columns"
            )
    return True


def parse_table_metadata(
    data: bytes, column_types: bytes, column_metadata: tuple[int, ...]
) -> TableMetadata:
    """Parse the optional metadata of a table map.

    Raises:
        TruncatedEventError: a field is cut.
        BinlogDecodeError: a field does not fit the columns, or has bytes left over.
    """
    block = ByteReader(data)
    found: dict[str, Any] = {}
    unknown: list[tuple[int, bytes]] = []
    codes: list[int] = []
    try:
        while block.remaining:
            code = block.uint(1)
            value = ByteReader(block.lenenc_bytes())
            codes.append(code)
            if not _parse_field(code, value, column_types, found):
                unknown.append((code, value.rest()))
            elif value.remaining:
                raise BinlogDecodeError(
                    f"table metadata field {code} has {value.remaining} bytes left over"
                )
    except ShortBufferError as error:
        where = f"field {codes[-1]}" if codes else "first field"
        raise TruncatedEventError(f"table metadata {where}: {error}") from error
    return TableMetadata(**found, unknown_fields=tuple(unknown), field_types=tuple(codes))
