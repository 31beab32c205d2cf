"""Column kinds: what each column type is to a server, to a row and to each target.

A kind is a type of columns by its plain SQL name; synonyms are one kind. :data:`KINDS` has a row
for each, and :data:`TARGETS` the column type that each target has for it. The functions that make a
target's values stand in the target's module, under the kind or its form (:func:`rules`). A kind
that a target forgets is an error at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeVar

from replica_client.errors import SchemaError
from replica_client.protocol.constants.column_types import BLOB_TYPES, CHARACTER_TYPES, ColumnType

Form = Literal[
    "integer", "year", "bit", "real", "decimal", "date", "time", "datetime", "timestamp", "string",
    "bytes", "enum", "set", "json", "spatial", "vector", "address",
]  # fmt: skip
"""The form of values: kinds of one form have the same values in Python."""
Unit = Literal["", "characters", "bytes", "digits", "bits", "dimensions"]
Rule = TypeVar("Rule")
Version = tuple[int, int, int]

_T = ColumnType


class ColumnKind(NamedTuple):
    """A kind of columns.

    Attributes:
        name: see :attr:`~replica_client.schema.model.ColumnModel.kind`.
        form: the form of its values.
        codes: its type codes in a table map; current servers write the first.
        words: the names of the type in SQL that mean nothing else.
        size: bytes of an integer, of a MariaDB type in a binary string, or of the length before a
            TEXT or BLOB.
        unit: the meaning of :attr:`~replica_client.schema.model.ColumnModel.length`.
        default: the length of a column without one.
        hidden_in: type codes of binary strings, under which MariaDB writes the kind.
        since: the first MariaDB that has it.
        most: the greatest size that it can have in a binary string.
    """

    name: str
    form: Form
    codes: tuple[ColumnType, ...]
    words: tuple[str, ...] = ()
    size: int = 0
    unit: Unit = ""
    default: int | None = None
    hidden_in: tuple[ColumnType, ...] = ()
    since: Version = (0, 0, 0)
    most: int = 0


_BLOB: Final = (
    *(_T.MYSQL_TYPE_BLOB, _T.MYSQL_TYPE_BLOB_COMPRESSED, _T.MYSQL_TYPE_TINY_BLOB),
    *(_T.MYSQL_TYPE_MEDIUM_BLOB, _T.MYSQL_TYPE_LONG_BLOB),
)
_VARCHAR: Final = (
    *(_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_VARCHAR_COMPRESSED, _T.MYSQL_TYPE_VAR_STRING),
)
_STRING: Final = (_T.MYSQL_TYPE_STRING,)
_GEOMETRY: Final = (_T.MYSQL_TYPE_GEOMETRY,)
KINDS: Final = {
    kind.name: kind
    for kind in (
        ColumnKind("tinyint", "integer", (_T.MYSQL_TYPE_TINY,), ("TINYINT", "INT1"), 1),
        ColumnKind("smallint", "integer", (_T.MYSQL_TYPE_SHORT,), ("SMALLINT", "INT2"), 2),
        ColumnKind(
            "mediumint", "integer", (_T.MYSQL_TYPE_INT24,), ("MEDIUMINT", "INT3", "MIDDLEINT"), 3
        ),
        ColumnKind("int", "integer", (_T.MYSQL_TYPE_LONG,), ("INT", "INTEGER", "INT4"), 4),
        ColumnKind("bigint", "integer", (_T.MYSQL_TYPE_LONGLONG,), ("BIGINT", "INT8"), 8),
        ColumnKind("year", "year", (_T.MYSQL_TYPE_YEAR,), ("YEAR", "SQL_TSI_YEAR")),
        ColumnKind("bit", "bit", (_T.MYSQL_TYPE_BIT,), ("BIT",), unit="bits", default=1),
        ColumnKind("float", "real", (_T.MYSQL_TYPE_FLOAT,)),
        ColumnKind("double", "real", (_T.MYSQL_TYPE_DOUBLE,)),
        ColumnKind(
            "decimal",
            "decimal",
            (_T.MYSQL_TYPE_NEWDECIMAL, _T.MYSQL_TYPE_DECIMAL),
            ("DECIMAL", "DEC", "NUMERIC", "FIXED"),
            unit="digits",
            default=10,
        ),
        ColumnKind("date", "date", (_T.MYSQL_TYPE_DATE, _T.MYSQL_TYPE_NEWDATE), ("DATE",)),
        ColumnKind("time", "time", (_T.MYSQL_TYPE_TIME2, _T.MYSQL_TYPE_TIME), ("TIME",)),
        ColumnKind(
            "datetime", "datetime", (_T.MYSQL_TYPE_DATETIME2, _T.MYSQL_TYPE_DATETIME), ("DATETIME",)
        ),
        ColumnKind(
            "timestamp",
            "timestamp",
            (_T.MYSQL_TYPE_TIMESTAMP2, _T.MYSQL_TYPE_TIMESTAMP),
            ("TIMESTAMP",),
        ),
        ColumnKind("char", "string", _STRING, unit="characters", default=1),
        ColumnKind("varchar", "string", _VARCHAR, unit="characters"),
        ColumnKind("tinytext", "string", _BLOB, ("TINYTEXT",), 1),
        ColumnKind("text", "string", _BLOB, size=2),
        ColumnKind("mediumtext", "string", _BLOB, ("MEDIUMTEXT",), 3),
        ColumnKind("longtext", "string", _BLOB, ("LONGTEXT",), 4),
        ColumnKind("binary", "bytes", _STRING, unit="bytes", default=1),
        ColumnKind("varbinary", "bytes", _VARCHAR, unit="bytes"),
        ColumnKind("tinyblob", "bytes", _BLOB, ("TINYBLOB",), 1),
        ColumnKind("blob", "bytes", _BLOB, size=2),
        ColumnKind("mediumblob", "bytes", _BLOB, ("MEDIUMBLOB",), 3),
        ColumnKind("longblob", "bytes", _BLOB, ("LONGBLOB",), 4),
        ColumnKind("enum", "enum", (_T.MYSQL_TYPE_ENUM,), ("ENUM",)),
        ColumnKind("set", "set", (_T.MYSQL_TYPE_SET,), ("SET",)),
        ColumnKind("json", "json", (_T.MYSQL_TYPE_JSON, _T.MYSQL_TYPE_TYPED_ARRAY), ("JSON",)),
        *(
            ColumnKind(name, "spatial", _GEOMETRY, (name.upper(),))
            for name in (
                *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
                *("multipolygon", "geomcollection", "geometrycollection"),
            )
        ),
        ColumnKind(
            "vector",
            "vector",
            (_T.MYSQL_TYPE_VECTOR,),
            ("VECTOR",),
            unit="dimensions",
            default=2048,
            hidden_in=(_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_STRING),
            since=(11, 7, 0),
            size=4,
            most=65532,
        ),
        *(
            ColumnKind(
                name,
                "address",
                (),
                (name.upper(),),
                size,
                hidden_in=_STRING,
                since=since,
                most=size,
            )
            for name, size, since in (
                ("inet6", 16, (10, 5, 0)),
                ("uuid", 16, (10, 7, 0)),
                ("inet4", 4, (10, 10, 0)),
            )
        ),
    )
}
"""Every kind by its name. In the binlog, all kinds of form ``spatial`` are GEOMETRY."""


class Rules(dict[str, Rule]):
    """A rule for each kind, by the kind's name."""

    def __missing__(self, kind: str) -> Rule:
        """Refuse a kind that no server has, from a damaged or newer definition."""
        raise SchemaError(f"the column type {kind!r:.80} is not known")


def rules(target: str, given: Mapping[str, Rule]) -> Rules[Rule]:
    """Return a target's rule for each kind.

    Args:
        target: the target, for errors.
        given: rules by kinds or forms, several of which a key may name, with spaces between them.
            The rule of a kind goes before that of its form.

    Raises:
        LookupError: a kind has no rule, or a rule names no kind.
    """
    by_word = {word: rule for words, rule in given.items() for word in words.split()}
    known = {*KINDS, *(kind.form for kind in KINDS.values())}
    holes = [kind.name for kind in KINDS.values() if not by_word.keys() & {kind.name, kind.form}]
    if holes or by_word.keys() - known:
        raise LookupError(
            f"{target}: no rule for {holes}, no kind {sorted(by_word.keys() - known)}"
        )
    return Rules(
        (kind.name, by_word[kind.name if kind.name in by_word else kind.form])
        for kind in KINDS.values()
    )


def kinds_of(*forms: Form) -> tuple[str, ...]:
    """Return the names of the kinds of some forms, smaller ones first."""
    return tuple(kind.name for kind in KINDS.values() if kind.form in forms)


INTEGERS: Final = kinds_of("integer")
WHOLE: Final = frozenset(kinds_of("integer", "year", "bit"))
REALS: Final = frozenset(kinds_of("real"))
SIGNED: Final = frozenset(kinds_of("integer", "real", "decimal"))
"""Kinds that can be unsigned."""
EXACT_NUMBERS: Final = frozenset(kinds_of("integer", "year", "decimal"))
NUMBERS: Final = WHOLE | REALS | EXACT_NUMBERS
DATES: Final = frozenset(kinds_of("date", "datetime", "timestamp"))
CLOCKS: Final = frozenset(kinds_of("time", "datetime", "timestamp"))
"""Kinds with fraction digits."""
STRINGS: Final = kinds_of("string")
BYTES: Final = frozenset(kinds_of("bytes"))
LABELLED: Final = frozenset(kinds_of("enum", "set"))
TEXT_KINDS: Final = LABELLED.union(STRINGS)
"""Kinds whose values are text in a character set."""
SPATIAL: Final = frozenset(kinds_of("spatial"))
ADDRESSES: Final = frozenset(kinds_of("address"))
SIZED: Final = frozenset(kind.name for kind in KINDS.values() if kind.unit)
"""Kinds whose columns have a length."""
TEXTS: Final = tuple(name for name in STRINGS if KINDS[name].size)
BLOBS: Final = tuple(name for name in kinds_of("bytes") if KINDS[name].size)
LIMITS: Final = {name: (1 << 8 * KINDS[name].size) - 1 for name in TEXTS + BLOBS}
"""The most bytes that a TEXT or BLOB holds."""
BYTE_KINDS: Final = dict(zip(STRINGS, kinds_of("bytes"), strict=True))
"""The binary kind that each text kind becomes in the character set ``binary``."""
HIDDEN_KINDS: Final = tuple(kind for kind in KINDS.values() if kind.hidden_in)
"""The kinds that MariaDB leaves out of ``binlog_row_metadata=FULL``."""
WORDS: Final = {word: kind for kind in KINDS.values() for word in kind.words}
"""Kinds by the words of SQL that mean nothing else."""
TYPE_CODES: Final = {kind.name: kind.codes + kind.hidden_in for kind in KINDS.values()}
"""The type codes that a kind can have in a table map; current servers write the first."""
_BY_CODE: Final[dict[tuple[int, bool, int], str]] = {
    (code, kind.form == "bytes", kind.size if code in BLOB_TYPES else 0): kind.name
    for kind in reversed(KINDS.values())
    for code in kind.codes
}


def kind_name(code: int, *, binary: bool, length: int) -> str:
    """Return the kind of a column in a table map; ``longblob`` for an unknown type.

    Args:
        code: the type code, with ENUM and SET instead of STRING.
        binary: whether a string is bytes.
        length: the most bytes of a TEXT or BLOB.
    """
    size = 0
    if code in BLOB_TYPES:
        size = next((KINDS[name].size for name in TEXTS if LIMITS[name] == length), 4)
    return _BY_CODE.get((code, binary and code in CHARACTER_TYPES, size), "longblob")


_WORDED: Final = "string enum set address"
_TARGETS: Final[dict[str, dict[str, str]]] = {
    "python": {
        "integer year bit": "int",
        "real": "float",
        "decimal": "decimal.Decimal",
        "date": "Date",
        "time": "Time",
        "datetime": "DateTime",
        "timestamp": "Timestamp",
        "string address": "str",
        "bytes": "bytes",
        "enum": "EnumValue",
        "set": "SetValue",
        "json": "JsonDocument",
        "spatial": "Geometry",
        "vector": "tuple of float",
    },
    "json": {
        "integer year bit real": "number",
        "decimal string address date time datetime timestamp": "string",
        "bytes": "{$binary: base64}",
        "enum": "string; its number without labels",
        "set": "string, labels joined with commas; its bits without labels",
        "json": "the document",
        "spatial": "{$wkb: base64, srid: number}",
        "vector": "array of numbers",
    },
    "arrow": {
        "tinyint": "int8|uint8",
        "smallint": "int16|uint16",
        "mediumint int": "int32|uint32",
        "bigint": "int64|uint64",
        "year": "uint16",
        "bit": "uint64",
        "float": "float",
        "double": "double",
        "decimal": "decimal({length},{scale})",
        "date": "date32",
        "time": "duration[us]",
        "datetime": "timestamp[us]",
        "timestamp": "timestamp[us, UTC]",
        "string json address": "string",
        "bytes": "binary",
        "enum set": "dictionary<int32, string>",
        "spatial": "struct<wkb: binary, srid: uint32>",
        "vector": "list<float>",
    },
    "spark": {
        "tinyint": "byte|short",
        "smallint": "short|integer",
        "mediumint int": "integer|long",
        "bigint": "long|decimal(20,0)",
        "year": "integer",
        "bit": "long",
        "float": "float",
        "double": "double",
        "decimal": "decimal({length},{scale})",
        "date": "date",
        "time": "interval day to second",
        "datetime": "timestamp_ntz",
        "timestamp": "timestamp",
        f"{_WORDED} json": "string",
        "bytes": "binary",
        "spatial": "struct<wkb: binary, srid: bigint>",
        "vector": "array<float>",
    },
    "lake": {
        "tinyint": "int8|int16",
        "smallint": "int16|int32",
        "mediumint": "int32",
        "int": "int32|int64",
        "bigint": "int64|decimal(20,0)",
        "year": "int32",
        "bit": "int64",
        "float": "float",
        "double": "double",
        "decimal": "decimal({length},{scale})",
        "date": "date32",
        f"{_WORDED} json time": "string",
        "datetime": "timestamp[us]",
        "timestamp": "timestamp[us, UTC]",
        "bytes": "binary",
        "spatial": "struct<wkb: binary, srid: int64>",
        "vector": "list<float>",
    },
    "postgres": {
        "tinyint year": "smallint",
        "smallint": "smallint|integer",
        "mediumint": "integer",
        "int": "integer|bigint",
        "bigint": "bigint|numeric(20)",
        "bit": "numeric(20)",
        "float": "real",
        "double": "double precision",
        "decimal": "numeric({length},{scale})",
        "date": "date",
        "time": "interval({digits})",
        "datetime timestamp": "timestamp({digits})",
        _WORDED: 'text COLLATE "C"',
        "bytes spatial": "bytea",
        "json vector": "json",
    },
    "duckdb": {
        "tinyint": "TINYINT|UTINYINT",
        "smallint": "SMALLINT|USMALLINT",
        "mediumint int": "INTEGER|UINTEGER",
        "bigint": "BIGINT|UBIGINT",
        "year": "USMALLINT",
        "bit": "UBIGINT",
        "float": "FLOAT",
        "double": "DOUBLE",
        "decimal": "DECIMAL({length}, {scale})",
        "date": "DATE",
        "time": "INTERVAL",
        "datetime timestamp": "TIMESTAMP",
        _WORDED: "VARCHAR",
        "bytes spatial": "BLOB",
        "json vector": "JSON",
    },
    "clickhouse": {
        "tinyint": "Int8|UInt8",
        "smallint": "Int16|UInt16",
        "mediumint int": "Int32|UInt32",
        "bigint": "Int64|UInt64",
        "year": "UInt16",
        "bit": "UInt64",
        "float": "Float32",
        "double": "Float64",
        "decimal": "Decimal({length}, {scale})",
        "date": "Date32",
        "datetime timestamp": "DateTime64({digits}, 'UTC')",
        f"{_WORDED} bytes spatial json vector time": "String",
    },
    "sqlite": {
        "tinyint smallint mediumint int year": "INTEGER",
        "bigint": "INTEGER|",
        "bit": "",
        "real": "REAL",
        f"{_WORDED} decimal date time datetime timestamp json vector": "TEXT",
        "bytes spatial": "BLOB",
    },
    "debezium": {
        "tinyint": "int16",
        "smallint": "int16|int32",
        "mediumint": "int32",
        "int": "int32|int64",
        "bigint": "int64",
        "year": "int32 io.debezium.time.Year",
        "bit": "bytes io.debezium.data.Bits",
        "float": "float",
        "double": "double",
        "decimal": "bytes org.apache.kafka.connect.data.Decimal",
        "date": "int32 io.debezium.time.Date",
        "time": "int64 io.debezium.time.MicroTime",
        "datetime": "int64 io.debezium.time.Timestamp",
        "timestamp": "string io.debezium.time.ZonedTimestamp",
        "string address": "string",
        "uuid": "string io.debezium.data.Uuid",
        "bytes": "bytes",
        "enum": "string io.debezium.data.Enum",
        "set": "string io.debezium.data.EnumSet",
        "json": "string io.debezium.data.Json",
        "spatial": "struct io.debezium.data.geometry.Geometry",
        "vector": "array io.debezium.data.FloatVector",
    },
    "jdbc": {
        "tinyint smallint": "5",
        "mediumint int year": "4",
        "bigint": "-5",
        "decimal": "3",
        "float": "6",
        "double": "8",
        "bit": "-7",
        "date": "91",
        "time": "92",
        "datetime": "93",
        "timestamp": "2014",
        "char enum set": "1",
        "string": "12",
        "binary": "-2",
        "varbinary": "-3",
        "bytes": "2004",
        "json spatial vector address": "1111",
    },
    "maxwell": {
        "integer year bit real decimal": "number",
        "string address date time datetime timestamp": "string",
        "bytes": "string of base64",
        "enum": "string; null for the label of an invalid value",
        "set": "array of strings",
        "json": "the document",
        "spatial": "well-known text",
        "vector": "array of numbers",
    },
    "canal": {
        "tinyint": "-6|5",
        "smallint": "5|4",
        "mediumint": "4",
        "int": "4|-5",
        "bigint": "-5|3",
        "bit set": "-7",
        "float": "7",
        "double": "8",
        "decimal": "3",
        "date": "91",
        "time": "92",
        "datetime timestamp": "93",
        "char": "1",
        "varchar year json address": "12",
        "string": "2005",
        "bytes spatial vector": "2004",
        "enum": "4",
    },
    "dlt": {
        "integer year bit": "bigint",
        "real": "double",
        "decimal": "decimal",
        "date": "date",
        "datetime timestamp": "timestamp",
        f"{_WORDED} time": "text",
        "bytes spatial": "binary",
        "json vector": "json",
    },
    "singer": {
        "integer year bit": "integer",
        "real": "number",
        "decimal": "string singer.decimal",
        "date": "string date",
        "datetime timestamp": "string date-time",
        f"{_WORDED} time": "string",
        "json": "string application/json",
        "bytes spatial": "string base64",
        "vector": "array of number",
    },
}
TARGETS: Final = {target: rules(target, given) for target, given in _TARGETS.items()}
"""The column type of each target for each kind.

``a|b`` is a type of signed values and one of unsigned ones; ``{length}``, ``{scale}`` and
``{digits}`` are the column's length, scale and fraction digits.
"""


def target_type(target: str, kind: str, *, unsigned: bool | None = False) -> str:
    """Return a target's column type for a kind, with its placeholders.

    Raises:
        SchemaError: the kind is not known.
    """
    signed, pair, other = TARGETS[target][kind].partition("|")
    return other if pair and unsigned else signed
