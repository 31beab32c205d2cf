"""Column type codes as a TABLE_MAP event spells them.

Spec: MySQL ``enum_field_types`` (field_types.h); MariaDB ``enum_field_types`` (mysql_com.h).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal, NamedTuple


class ColumnType(IntEnum):
    """Type codes of table maps; 140 and 141 are MariaDB's COMPRESSED columns."""

    MYSQL_TYPE_DECIMAL = 0
    MYSQL_TYPE_TINY = 1
    MYSQL_TYPE_SHORT = 2
    MYSQL_TYPE_LONG = 3
    MYSQL_TYPE_FLOAT = 4
    MYSQL_TYPE_DOUBLE = 5
    MYSQL_TYPE_NULL = 6
    MYSQL_TYPE_TIMESTAMP = 7
    MYSQL_TYPE_LONGLONG = 8
    MYSQL_TYPE_INT24 = 9
    MYSQL_TYPE_DATE = 10
    MYSQL_TYPE_TIME = 11
    MYSQL_TYPE_DATETIME = 12
    MYSQL_TYPE_YEAR = 13
    MYSQL_TYPE_NEWDATE = 14
    MYSQL_TYPE_VARCHAR = 15
    MYSQL_TYPE_BIT = 16
    MYSQL_TYPE_TIMESTAMP2 = 17
    MYSQL_TYPE_DATETIME2 = 18
    MYSQL_TYPE_TIME2 = 19
    MYSQL_TYPE_TYPED_ARRAY = 20
    MYSQL_TYPE_BLOB_COMPRESSED = 140
    MYSQL_TYPE_VARCHAR_COMPRESSED = 141
    MYSQL_TYPE_VECTOR = 242
    MYSQL_TYPE_INVALID = 243
    MYSQL_TYPE_BOOL = 244
    MYSQL_TYPE_JSON = 245
    MYSQL_TYPE_NEWDECIMAL = 246
    MYSQL_TYPE_ENUM = 247
    MYSQL_TYPE_SET = 248
    MYSQL_TYPE_TINY_BLOB = 249
    MYSQL_TYPE_MEDIUM_BLOB = 250
    MYSQL_TYPE_LONG_BLOB = 251
    MYSQL_TYPE_BLOB = 252
    MYSQL_TYPE_VAR_STRING = 253
    MYSQL_TYPE_STRING = 254
    MYSQL_TYPE_GEOMETRY = 255


TypeFamily = Literal[
    "integer", "real", "decimal", "date", "old_time", "fraction", "year", "bit", "label",
    "string", "varchar", "blob", "prefixed", "other",
]  # fmt: skip


class TypeFacts(NamedTuple):
    """The layout of a type's values and metadata.

    Attributes:
        family: types of one family are read alike. The metadata of ``prefixed`` and ``blob`` is the
            size of the length before a value, that of ``fraction`` the number of fraction digits.
        metadata: bytes of the metadata in a table map.
        size: bytes of a value of fixed size, without the fraction of a ``fraction``.
    """

    family: TypeFamily
    metadata: int = 0
    size: int = 0


_T = ColumnType
TYPE_FACTS: Final[dict[int, TypeFacts]] = {
    _T.MYSQL_TYPE_TINY: TypeFacts("integer", size=1),
    _T.MYSQL_TYPE_SHORT: TypeFacts("integer", size=2),
    _T.MYSQL_TYPE_INT24: TypeFacts("integer", size=3),
    _T.MYSQL_TYPE_LONG: TypeFacts("integer", size=4),
    _T.MYSQL_TYPE_LONGLONG: TypeFacts("integer", size=8),
    _T.MYSQL_TYPE_FLOAT: TypeFacts("real", 1, 4),
    _T.MYSQL_TYPE_DOUBLE: TypeFacts("real", 1, 8),
    _T.MYSQL_TYPE_DECIMAL: TypeFacts("decimal"),
    _T.MYSQL_TYPE_NEWDECIMAL: TypeFacts("decimal", 2),
    _T.MYSQL_TYPE_YEAR: TypeFacts("year", size=1),
    _T.MYSQL_TYPE_DATE: TypeFacts("date", size=3),
    _T.MYSQL_TYPE_NEWDATE: TypeFacts("date", size=3),
    _T.MYSQL_TYPE_TIME: TypeFacts("old_time", size=3),
    _T.MYSQL_TYPE_DATETIME: TypeFacts("old_time", size=8),
    _T.MYSQL_TYPE_TIMESTAMP: TypeFacts("old_time", size=4),
    _T.MYSQL_TYPE_TIME2: TypeFacts("fraction", 1, 3),
    _T.MYSQL_TYPE_DATETIME2: TypeFacts("fraction", 1, 5),
    _T.MYSQL_TYPE_TIMESTAMP2: TypeFacts("fraction", 1, 4),
    _T.MYSQL_TYPE_BIT: TypeFacts("bit", 2),
    _T.MYSQL_TYPE_ENUM: TypeFacts("label", 2),
    _T.MYSQL_TYPE_SET: TypeFacts("label", 2),
    _T.MYSQL_TYPE_STRING: TypeFacts("string", 2),
    _T.MYSQL_TYPE_VAR_STRING: TypeFacts("string", 2),
    _T.MYSQL_TYPE_VARCHAR: TypeFacts("varchar", 2),
    _T.MYSQL_TYPE_VARCHAR_COMPRESSED: TypeFacts("varchar", 2),
    _T.MYSQL_TYPE_TINY_BLOB: TypeFacts("blob", 1),
    _T.MYSQL_TYPE_BLOB: TypeFacts("blob", 1),
    _T.MYSQL_TYPE_MEDIUM_BLOB: TypeFacts("blob", 1),
    _T.MYSQL_TYPE_LONG_BLOB: TypeFacts("blob", 1),
    _T.MYSQL_TYPE_BLOB_COMPRESSED: TypeFacts("blob", 1),
    _T.MYSQL_TYPE_JSON: TypeFacts("prefixed", 1),
    _T.MYSQL_TYPE_GEOMETRY: TypeFacts("prefixed", 1),
    _T.MYSQL_TYPE_VECTOR: TypeFacts("prefixed", 1),
    _T.MYSQL_TYPE_TYPED_ARRAY: TypeFacts("other"),
    _T.MYSQL_TYPE_NULL: TypeFacts("other"),
    _T.MYSQL_TYPE_BOOL: TypeFacts("other"),
    _T.MYSQL_TYPE_INVALID: TypeFacts("other"),
}
"""Each type code; a code without a row fails at import."""
METADATA_SIZES: Final = bytes(
    TYPE_FACTS.get(code, TypeFacts("other")).metadata for code in range(256)
)
"""Bytes of a type's metadata in a table map, by code."""


def types_of(*families: TypeFamily) -> frozenset[ColumnType]:
    """Return the type codes of some families."""
    return frozenset(code for code in ColumnType if TYPE_FACTS[code].family in families)


INTEGER_TYPES: Final = types_of("integer")
NUMERIC_TYPES: Final = types_of("integer", "real", "decimal", "year")
"""Types of the columns that have a bit in SIGNEDNESS."""
CHARACTER_TYPES: Final = types_of("string", "varchar", "blob")
"""Types counted in DEFAULT_CHARSET and COLUMN_CHARSET (STRING only if not ENUM or SET)."""
BLOB_TYPES: Final = types_of("blob")
LABEL_TYPES: Final = types_of("label")
PREFIXED_TYPES: Final = types_of("blob", "prefixed")
"""Types whose metadata is the size of the length before a value."""
FRACTION_TYPES: Final = types_of("fraction")
"""Types whose metadata is the number of fraction digits."""


class MetadataFieldType(IntEnum):
    """Types of the optional metadata fields of a TABLE_MAP event."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


class CountedField(NamedTuple):
    """A metadata field with an entry per column of some types.

    Attributes:
        types: the types.
        name: attribute of ``TableMetadata`` with the entries.
        attribute: attribute of ``ColumnFacts`` with the column's entry.
    """

    types: frozenset[ColumnType]
    name: str
    attribute: str


_F = MetadataFieldType
_ENUMS, _SETS = frozenset((_T.MYSQL_TYPE_ENUM,)), frozenset((_T.MYSQL_TYPE_SET,))
_GEOMETRIES, _VECTORS = frozenset((_T.MYSQL_TYPE_GEOMETRY,)), frozenset((_T.MYSQL_TYPE_VECTOR,))
COUNTED_FIELDS: Final = (
    CountedField(NUMERIC_TYPES, "signedness", "unsigned"),
    CountedField(_ENUMS, "enum_labels", "labels"),
    CountedField(_SETS, "set_labels", "labels"),
    CountedField(_GEOMETRIES, "geometry_types", "geometry_type"),
    CountedField(_VECTORS, "vector_dimensions", "vector_dimension"),
)
NUMBER_FIELDS: Final = {
    _F.COLUMN_CHARSET: ("column_charset", "collation id"),
    _F.GEOMETRY_TYPE: ("geometry_types", "geometry type"),
    _F.ENUM_AND_SET_COLUMN_CHARSET: ("enum_and_set_column_charset", "collation id"),
    _F.VECTOR_DIMENSIONALITY: ("vector_dimensions", "dimensions"),
}
"""Fields that hold a number per column: attribute of ``TableMetadata``, meaning of the numbers."""
MYSQL_CHARACTER_TYPES: Final = CHARACTER_TYPES | _VECTORS
MARIADB_CHARACTER_TYPES: Final = CHARACTER_TYPES | _GEOMETRIES
"""Seen on MySQL 9.7, MariaDB 10.11 and 11.8: each counts another type with the character types."""
RAW_RESULTS: Final = _VECTORS
"""Types of result sets whose bytes the driver takes for text."""
