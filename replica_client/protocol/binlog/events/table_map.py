"""TABLE_MAP: the table and column types of a table id, and the optional metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, ClassVar, Final, Self

from replica_client.errors import (
    BinlogDecodeError,
    EncodeError,
    ShortBufferError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import (
    METADATA_SIZES,
    NUMBER_FIELDS,
    NUMERIC_TYPES,
    ColumnType,
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


_ARRAY_VARCHAR_SIZE = 3


@dataclass(frozen=True, slots=True)
class TableMapEvent:
    """The name and column types of a table, for the rows events of a statement.

    Bytes (little-endian)::

        size  field
        6     table_id           4 bytes if the post-header length of the type is 6
        2     flags              1: bit length exact; …
        p-8   extra_post_header  p = post-header length of the type; empty if p = 8 (or 6)
        1+n+1 schema             length, name in UTF-8, NUL
        1+n+1 table              length, name in UTF-8, NUL
        1..9  column count       length-encoded
        c     column_types       a code per column
        1..9  metadata length    length-encoded; with all later fields absent in early 5.1
        m     column_metadata    0 to 4 bytes per column, by its type
        b     null_bitmap        b = (c + 7) / 8; bit set: the column can be NULL
        rest  optional_metadata  8.0.1, MariaDB 10.5; see :class:`~.table_metadata.TableMetadata`

    ``column_metadata`` holds one integer per column, little-endian over the bytes that its type has
    there, 0 for none::

        type                                          bytes  value
        FLOAT, DOUBLE; types with a length before     1      size of the value or of its length
          the value: BLOB types, JSON, GEOMETRY …
        TIMESTAMP2, DATETIME2, TIME2                  1      fraction digits
        VARCHAR, VARCHAR_COMPRESSED                   2      maximal length in bytes
        BIT                                           2      bits % 8, then bits / 8 << 8
        NEWDECIMAL                                    2      precision, then scale << 8
        STRING, ENUM, SET, VAR_STRING                 2      real type, then length << 8
        TYPED_ARRAY                                   1+…    element type, then its metadata << 8
                                                             (3 bytes for VARCHAR)

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: the metadata does not fit the column types, or a name is not UTF-8.

    Spec: MySQL ``Table_map_event`` (rows_event.h); MariaDB KB "TABLE_MAP_EVENT".
    """

    INFO: ClassVar[str] = "table_id: {0.table_id} ({0.schema}.{0.table})"

    table_id: int
    flags: int
    schema: str
    table: str
    column_types: bytes
    column_metadata: tuple[int, ...]
    null_bitmap: bytes
    optional_metadata: bytes = b""
    extra_post_header: bytes = b""
    has_metadata: bool = True

    @property
    def definition(self) -> tuple[object, ...]:
        """The content that all table maps of an unchanged table share: all but id and flags."""
        return (
            self.schema,
            self.table,
            self.column_types,
            self.column_metadata,
            self.null_bitmap,
            self.optional_metadata,
        )

    def with_id(self, table_id: int) -> Self:
        """Return the table map with another table id."""
        if table_id == self.table_id:
            return self
        return type(self)(
            table_id,
            self.flags,
            self.schema,
            self.table,
            self.column_types,
            self.column_metadata,
            self.null_bitmap,
            self.optional_metadata,
            self.extra_post_header,
            self.has_metadata,
        )

    @property
    def column_count(self) -> int:
        """Number of columns of the table."""
        return len(self.column_types)

    @property
    def metadata(self) -> TableMetadata:
        """The optional metadata, parsed again at each access.

        Raises:
            BinlogDecodeError: a field is cut or does not fit the columns.
        """
        return parse_table_metadata(self.optional_metadata, self.column_types, self.column_metadata)

    def is_nullable(self, column: int) -> bool:
        """Return whether a column can be NULL."""
        return is_nullable(self.null_bitmap, column)

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(8)
        id_size = 4 if size == 6 else 6
        table_id, flags = body.uint(id_size), body.uint(2)
        extra = body.take(max(0, size - id_size - 2))
        schema, table = _name(body, "schema"), _name(body, "table")
        columns = body.left()
        found = _COLUMNS.get(columns)
        if found is None:
            found = _columns(body)
            _COLUMNS.put(columns, found, len(columns))
        column_types, metadata, null_bitmap, optional, has_metadata = found
        return cls(
            table_id,
            flags,
            schema,
            table,
            column_types,
            metadata,
            null_bitmap,
            optional,
            extra,
            has_metadata,
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        size = ctx.post_header_size(8)
        out = ByteWriter().uint(self.table_id, 4 if size == 6 else 6).uint(self.flags, 2)
        out.raw(self.extra_post_header)
        for name in (self.schema, self.table):
            data = name.encode()
            out.uint(len(data), 1).raw(data).raw(b"\0")
        out.lenenc_bytes(self.column_types)
        if not self.has_metadata:
            return out.done()
        if len(self.column_metadata) != len(self.column_types):
            raise EncodeError("a table map needs one metadata value per column")
        packed = ByteWriter()
        for code, value in zip(self.column_types, self.column_metadata, strict=True):
            packed.uint(
                value, _array_size(value & 0xFF) if code == _ARRAY else METADATA_SIZES[code]
            )
        out.lenenc_bytes(packed.done())
        return out.raw(self.null_bitmap).raw(self.optional_metadata).done()


_Columns = tuple[bytes, tuple[int, ...], bytes, bytes, bool]
# The parsed part after the names, by its bytes: many tables are alike.
_COLUMNS: SizedCache[bytes, _Columns] = SizedCache(128)


def _columns(body: ByteReader) -> _Columns:
    """Read the part after the names: types, metadata, null bitmap and optional metadata."""
    column_types = body.take(body.lenenc(), "column types")
    if not body.remaining:
        return column_types, (0,) * len(column_types), b"", b"", False
    metadata = tuple(_split_metadata(column_types, body.lenenc_bytes()))
    null_bitmap = body.take((len(column_types) + 7) >> 3, "null bitmap")
    return column_types, metadata, null_bitmap, body.rest(), True


def is_nullable(null_bitmap: bytes, column: int) -> bool:
    """Return whether a column can be NULL, by the bitmap of its table map."""
    byte = column >> 3
    return byte < len(null_bitmap) and bool(null_bitmap[byte] >> (column & 7) & 1)


_ARRAY = int(ColumnType.MYSQL_TYPE_TYPED_ARRAY)


def _array_size(element_type: int) -> int:
    if element_type == ColumnType.MYSQL_TYPE_VARCHAR:
        return 1 + _ARRAY_VARCHAR_SIZE
    return 1 + METADATA_SIZES[element_type]


def _name(body: ByteReader, what: str) -> str:
    data = body.take(body.uint(1), what)
    if body.uint(1):
        raise BinlogDecodeError(f"no NUL follows the {what} name", offset=body.offset - 1)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BinlogDecodeError(f"the {what} name {data!r} is not UTF-8") from error


def _split_metadata(column_types: bytes, data: bytes) -> Iterator[int]:
    """Yield the metadata value of each column.

    Raises:
        BinlogDecodeError: the columns need another number of bytes.
    """
    at = 0
    end = len(data)
    for code in column_types:
        size = METADATA_SIZES[code]
        if code == _ARRAY:
            size = _array_size(data[at]) if at < end else 1
        if size > end - at:
            raise BinlogDecodeError(
                f"column metadata of {end} bytes ends before that of type {code} at byte {at}"
            )
        yield int.from_bytes(data[at : at + size], "little") if size else 0
        at += size
    if at != end:
        raise BinlogDecodeError(f"column metadata has {end} bytes, the column types need {at}")
